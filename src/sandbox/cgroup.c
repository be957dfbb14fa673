#include "sandbox/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

static const struct {
	const char *v1, *v2;
	uint32_t feature;
} ctls[CGROUP_N_CTL] = {
	[CGROUP_CPU] = { "cpu", "cpu", MSG_CAN_CPU },
	[CGROUP_CPUACCT] = { "cpuacct", NULL, 0 },
	[CGROUP_MEMORY] = { "memory", "memory", MSG_CAN_MEMORY },
	[CGROUP_PIDS] = { "pids", "pids", MSG_CAN_PIDS },
	[CGROUP_IO] = { "blkio", "io", MSG_CAN_IO },
	[CGROUP_FREEZER] = { "freezer", NULL, MSG_CAN_PAUSE },
};

/* ---- finding the trees ---- */

struct mount_line {
	struct span root, at, type, options;
};

/* "36 35 0:29 ROOT AT rw,... shared:1 - TYPE SOURCE OPTIONS" */
static bool parse_line(struct span line, struct mount_line *m)
{
	for (unsigned i = 0; i < 3; i++)
		(void)span_cut(&line, ' ');
	m->root = span_cut(&line, ' ');
	m->at = span_cut(&line, ' ');
	for (;;) {
		struct span word = span_cut(&line, ' ');

		if (word.p == NULL)
			return false;
		if (span_is(word, "-"))
			break;
	}
	m->type = span_cut(&line, ' ');
	(void)span_cut(&line, ' ');
	m->options = span_cut(&line, '\n');
	return m->at.len > 0;
}

static unsigned v1_controllers(struct span options)
{
	unsigned mask = 0;

	while (options.p != NULL) {
		struct span word = span_cut(&options, ',');

		for (unsigned i = 0; i < CGROUP_N_CTL; i++)
			if (span_is(word, ctls[i].v1))
				mask |= 1u << i;
	}
	return mask;
}

static unsigned v2_controllers(int root_fd)
{
	char text[512];
	struct span rest;
	unsigned mask = 0;
	ssize_t n;

	n = fsat_read(root_fd, "cgroup.controllers", text, sizeof(text));
	rest = span_of(text, n > 0 ? (size_t)n : 0);
	if (rest.len > 0 && rest.p[rest.len - 1] == '\n')
		rest.len--;
	while (rest.p != NULL) {
		struct span word = span_cut(&rest, ' ');

		for (unsigned i = 0; i < CGROUP_N_CTL; i++)
			if (ctls[i].v2 != NULL && word.len > 0 && span_is(word, ctls[i].v2))
				mask |= 1u << i;
	}
	return mask;
}

static void enable_v2(int dir_fd, unsigned mask)
{
	for (unsigned i = 0; i < CGROUP_N_CTL; i++)
		if ((mask & 1u << i) != 0)
			(void)fsat_putf(dir_fd, "cgroup.subtree_control", "+%s", ctls[i].v2);
}

/* Take the tree at this mount into use. */
static int add_tree(struct cgroups *c, const char *at, const char *name, bool v2, unsigned mask,
		    struct err *e)
{
	struct cgroup_tree *t = &c->trees[c->n];
	autofd int root = -EBADF;

	if (c->n == CGROUP_MAX_TREES)
		return 0;
	root = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return err_sys(e, "open cgroup tree '%s'", at);
	if (v2) {
		mask = v2_controllers(root);
		enable_v2(root, mask);
	}
	t->fd = fsat_mkdir_open(root, name, 0755);
	if (t->fd < 0)
		return err_code(e, t->fd, "make cgroup '%s/%s'", at, name);
	if (v2) {
		/* what the parent could not enable (it has processes of its own) is not there */
		mask &= v2_controllers(t->fd);
		enable_v2(t->fd, mask);
		c->unified = (int8_t)c->n;
		mask |= 1u << CGROUP_FREEZER | 1u << CGROUP_CPUACCT;
	}
	t->v2 = v2;
	t->ctl = mask;
	(void)snprintf(t->path, sizeof(t->path), "%s/%s", at, name);
	for (unsigned i = 0; i < CGROUP_N_CTL; i++)
		if ((mask & 1u << i) != 0 && c->home[i] < 0)
			c->home[i] = (int8_t)c->n;
	c->n++;
	return 0;
}

/* v2 first, so that it gets what both could do. */
static int find_trees(struct cgroups *c, FILE *f, bool v2, const char *name, struct err *e)
{
	autofree char *line = NULL;
	size_t size = 0;
	int r = 0;

	rewind(f);
	while (r == 0 && getline(&line, &size, f) > 0) {
		struct mount_line m;
		unsigned mask = 0;
		char at[192];

		if (!parse_line(span_str(line), &m) || !span_copy(m.at, at, sizeof(at)))
			continue;
		if (v2 && span_is(m.type, "cgroup2") && c->unified < 0) {
			r = add_tree(c, at, name, true, 0, e);
			continue;
		}
		if (v2 || !span_is(m.type, "cgroup"))
			continue;
		mask = v1_controllers(m.options);
		for (unsigned i = 0; i < CGROUP_N_CTL; i++)
			if (c->home[i] >= 0)
				mask &= ~(1u << i);
		if (mask != 0)
			r = add_tree(c, at, name, false, mask, e);
	}
	return r;
}

/* Limits are set on whole disks, so a partition is traded for the disk it is on. */
static void find_disk(struct cgroups *c, int state_fd)
{
	char path[64], text[32];
	struct stat st;
	unsigned long major, minor;
	char *end;

	if (fstat(state_fd, &st) < 0 || major(st.st_dev) == 0)
		return;
	c->disk_major = major(st.st_dev);
	c->disk_minor = minor(st.st_dev);
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", c->disk_major,
		       c->disk_minor);
	if (access(path, F_OK) < 0)
		return;
	(void)snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev", c->disk_major,
		       c->disk_minor);
	if (fsat_read(AT_FDCWD, path, text, sizeof(text)) < 0)
		return;
	major = strtoul(text, &end, 10);
	minor = *end == ':' ? strtoul(end + 1, NULL, 10) : 0;
	c->disk_major = (unsigned)major;
	c->disk_minor = (unsigned)minor;
}

int cgroup_setup(struct cgroups *c, const char *mountinfo_path, const char *name, int state_fd,
		 struct err *e)
{
	unsigned shown = 0;
	FILE *f;
	int r;

	memset(c, 0, sizeof(*c));
	memset(c->home, -1, sizeof(c->home));
	c->unified = -1;
	f = fopen(mountinfo_path, "re");
	if (f == NULL)
		return err_sys(e, "read %s", mountinfo_path);
	r = find_trees(c, f, true, name, e);
	if (r == 0)
		r = find_trees(c, f, false, name, e);
	(void)fclose(f);
	if (r < 0)
		return r;
	find_disk(c, state_fd);

	if (c->home[CGROUP_MEMORY] >= 0) {
		const struct cgroup_tree *t = &c->trees[c->home[CGROUP_MEMORY]];

		c->swap = faccessat(t->fd,
				    t->v2 ? "memory.swap.max" : "memory.memsw.limit_in_bytes", F_OK,
				    0) == 0;
		c->shown.v2 = t->v2;
		if (!t->v2)
			c->shown.v1[shown++] = "memory";
	}
	if (c->home[CGROUP_CPU] >= 0 && !c->trees[c->home[CGROUP_CPU]].v2)
		c->shown.v1[shown++] = "cpu";
	return 0;
}

void cgroup_teardown(struct cgroups *c)
{
	for (unsigned i = 0; i < c->n; i++) {
		fd_close(&c->trees[i].fd);
		(void)rmdir(c->trees[i].path);
	}
	c->n = 0;
}

uint32_t cgroup_features(const struct cgroups *c)
{
	uint32_t features = c->swap ? MSG_CAN_SWAP_LIMIT : 0;

	for (unsigned i = 0; i < CGROUP_N_CTL; i++)
		if (c->home[i] >= 0)
			features |= ctls[i].feature;
	if (c->disk_major == 0)
		features &= ~(uint32_t)MSG_CAN_IO;
	return features;
}

/* ---- leaves ---- */

static const struct cgroup_tree *home(const struct cgroups *c, enum cgroup_ctl ctl)
{
	return c->home[ctl] >= 0 ? &c->trees[c->home[ctl]] : NULL;
}

static bool is_home(const struct cgroups *c, unsigned tree)
{
	for (unsigned i = 0; i < CGROUP_N_CTL; i++)
		if (c->home[i] == (int8_t)tree)
			return true;
	return (int8_t)tree == c->unified;
}

/* "ID/FILE" in the tree that has the controller. */
static int leaf_put(const struct cgroup_tree *t, const char *id, const char *file, struct err *e,
		    const char *fmt, ...) PRINTF(5, 6);

static int leaf_put(const struct cgroup_tree *t, const char *id, const char *file, struct err *e,
		    const char *fmt, ...)
{
	char path[MSG_ID_SIZE + 64], value[96];
	va_list ap;
	int r;

	(void)snprintf(path, sizeof(path), "%s/%s", id, file);
	va_start(ap, fmt);
	(void)vsnprintf(value, sizeof(value), fmt, ap);
	va_end(ap);
	r = fsat_put(t->fd, path, value);
	return r < 0 ? err_code(e, r, "set %s to %s", file, value) : 0;
}

static ssize_t leaf_read(const struct cgroup_tree *t, const char *id, const char *file, char *buf,
			 size_t size)
{
	char path[MSG_ID_SIZE + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", id, file);
	return fsat_read(t->fd, path, buf, size);
}

static uint64_t leaf_u64(const struct cgroup_tree *t, const char *id, const char *file)
{
	char path[MSG_ID_SIZE + 64];
	uint64_t v = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", id, file);
	return fsat_read_u64(t->fd, path, &v) == 0 ? v : 0;
}

/* "key N" lines */
static uint64_t leaf_key(const struct cgroup_tree *t, const char *id, const char *file,
			 const char *key)
{
	char text[4096];
	struct span rest;
	uint64_t v = 0;
	ssize_t n;

	n = leaf_read(t, id, file, text, sizeof(text));
	rest = span_of(text, n > 0 ? (size_t)n : 0);
	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n');
		struct span name = span_cut(&line, ' ');

		if (span_is(name, key) && span_u64(line, &v))
			return v;
	}
	return 0;
}

static int limit_memory(const struct cgroups *c, const char *id, const struct msg_limits *l,
			struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_MEMORY);
	unsigned long long most = l->memory_bytes, swap = l->swap_bytes;
	int r;

	if (l->memory_bytes == 0)
		return 0;
	if (t == NULL)
		return err_set(e, ENOTSUP, "this host has no memory controller");
	if (swap != 0 && !c->swap)
		return err_set(e, ENOTSUP, "this host does not count swap");
	r = leaf_put(t, id, t->v2 ? "memory.max" : "memory.limit_in_bytes", e, "%llu", most);
	if (r == 0 && c->swap)
		r = t->v2 ? leaf_put(t, id, "memory.swap.max", e, "%llu", swap)
			  : leaf_put(t, id, "memory.memsw.limit_in_bytes", e, "%llu", most + swap);
	return r;
}

static int limit_cpu(const struct cgroups *c, const char *id, const struct msg_limits *l,
		     struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_CPU);
	const unsigned long long period = 100000, quota = (unsigned long long)l->cpu_milli * 100;

	if (l->cpu_milli == 0)
		return 0;
	if (t == NULL)
		return err_set(e, ENOTSUP, "this host has no cpu controller");
	if (t->v2)
		return leaf_put(t, id, "cpu.max", e, "%llu %llu", quota, period);
	return leaf_put(t, id, "cpu.cfs_quota_us", e, "%llu", quota);
}

static int limit_pids(const struct cgroups *c, const char *id, const struct msg_limits *l,
		      struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_PIDS);

	if (l->pids == 0)
		return 0;
	if (t == NULL)
		return err_set(e, ENOTSUP, "this host has no pids controller");
	return leaf_put(t, id, "pids.max", e, "%u", l->pids);
}

static int limit_io(const struct cgroups *c, const char *id, const struct msg_limits *l,
		    struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_IO);
	const struct {
		const char *v1, *v2;
		unsigned long long bps;
	} ways[] = {
		{ "blkio.throttle.read_bps_device", "rbps", l->io_read_bps },
		{ "blkio.throttle.write_bps_device", "wbps", l->io_write_bps },
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(ways); i++) {
		if (ways[i].bps == 0)
			continue;
		if (t == NULL || c->disk_major == 0)
			return err_set(e, ENOTSUP, "this host cannot limit disk bandwidth");
		r = t->v2 ? leaf_put(t, id, "io.max", e, "%u:%u %s=%llu", c->disk_major,
				     c->disk_minor, ways[i].v2, ways[i].bps)
			  : leaf_put(t, id, ways[i].v1, e, "%u:%u %llu", c->disk_major,
				     c->disk_minor, ways[i].bps);
	}
	return r;
}

void cgroup_door_close(struct cgroup_door *d)
{
	fd_close(&d->into_fd);
	while (d->n_tasks > 0)
		fd_close(&d->tasks[--d->n_tasks]);
}

static int open_door(const struct cgroups *c, const char *id, struct cgroup_door *d, struct err *e)
{
	for (unsigned i = 0; i < c->n; i++) {
		const struct cgroup_tree *t = &c->trees[i];
		char path[MSG_ID_SIZE + 8];
		int fd;

		if (!is_home(c, i))
			continue;
		(void)snprintf(path, sizeof(path), "%s%s", id, t->v2 ? "" : "/tasks");
		fd = openat(t->fd, path, (t->v2 ? O_RDONLY | O_DIRECTORY : O_WRONLY) | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, "open cgroup '%s/%s'", t->path, id);
		if (t->v2)
			d->into_fd = fd;
		else
			d->tasks[d->n_tasks++] = fd;
	}
	return 0;
}

int cgroup_make(const struct cgroups *c, const char *id, const struct msg_limits *l,
		struct cgroup_door *ret, struct err *e)
{
	static int (*const limit[])(const struct cgroups *, const char *, const struct msg_limits *,
				    struct err *) = {
		limit_memory,
		limit_cpu,
		limit_pids,
		limit_io,
	};
	struct cgroup_door d = { .into_fd = -EBADF };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < c->n; i++) {
		if (is_home(c, i) && mkdirat(c->trees[i].fd, id, 0755) < 0 && errno != EEXIST)
			r = err_sys(e, "make cgroup '%s/%s'", c->trees[i].path, id);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(limit); i++)
		r = limit[i](c, id, l, e);
	if (r == 0)
		r = open_door(c, id, &d, e);
	if (r < 0) {
		cgroup_door_close(&d);
		(void)cgroup_remove(c, id);
		return r;
	}
	*ret = d;
	return 0;
}

int cgroup_enter(const struct cgroup_door *d, struct err *e)
{
	for (unsigned i = 0; i < d->n_tasks; i++)
		if (write(d->tasks[i], "0", 1) < 0)
			return err_sys(e, "enter a cgroup");
	return 0;
}

int cgroup_remove(const struct cgroups *c, const char *id)
{
	int r = 0;

	for (unsigned i = 0; i < c->n; i++)
		if (unlinkat(c->trees[i].fd, id, AT_REMOVEDIR) < 0 && errno != ENOENT)
			r = -errno;
	return r;
}

static void kill_listed(FILE *f)
{
	autofree char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&line, &size, f)) > 0) {
		uint64_t pid;

		if (span_u64(span_of(line, (size_t)n - 1), &pid) && pid > 1 && pid <= INT32_MAX)
			(void)kill((pid_t)pid, SIGKILL);
	}
}

void cgroup_kill(const struct cgroups *c, const char *id)
{
	for (unsigned i = 0; i < c->n; i++) {
		char path[MSG_ID_SIZE + 32];
		FILE *f;
		int fd;

		(void)snprintf(path, sizeof(path), "%s/cgroup.procs", id);
		fd = openat(c->trees[i].fd, path, O_RDONLY | O_CLOEXEC);
		f = fd >= 0 ? fdopen(fd, "r") : NULL;
		if (f == NULL) {
			fd_close(&fd);
			continue;
		}
		kill_listed(f);
		(void)fclose(f);
	}
}

int cgroup_each(const struct cgroups *c, void (*fn)(void *arg, const char *id), void *arg)
{
	for (unsigned i = 0; i < c->n; i++) {
		int fd = openat(c->trees[i].fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
		struct dirent *d;

		if (dir == NULL) {
			int r = -errno;

			fd_close(&fd);
			return r;
		}
		while ((d = readdir(dir)) != NULL)
			if (d->d_type == DT_DIR && d->d_name[0] != '.')
				fn(arg, d->d_name);
		(void)closedir(dir);
	}
	return 0;
}

/* ---- freezing ---- */

int cgroup_is_frozen(const struct cgroups *c, const char *id)
{
	const struct cgroup_tree *t = home(c, CGROUP_FREEZER);
	char text[32];
	ssize_t n;

	if (t == NULL)
		return -ENOTSUP;
	if (t->v2)
		return leaf_key(t, id, "cgroup.events", "frozen") != 0;
	n = leaf_read(t, id, "freezer.state", text, sizeof(text));
	return n < 0 ? (int)n : strcmp(text, "FROZEN\n") == 0;
}

int cgroup_freeze(const struct cgroups *c, const char *id, bool frozen, struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_FREEZER);
	int r;

	if (t == NULL)
		return err_set(e, ENOTSUP, "this host cannot freeze processes");
	r = t->v2 ? leaf_put(t, id, "cgroup.freeze", e, "%d", frozen)
		  : leaf_put(t, id, "freezer.state", e, "%s", frozen ? "FROZEN" : "THAWED");
	if (r < 0)
		return r;
	return cgroup_is_frozen(c, id) == (int)frozen ? 0 : 1;
}

int cgroup_freeze_fd(const struct cgroups *c, const char *id)
{
	const struct cgroup_tree *t = home(c, CGROUP_FREEZER);
	char path[MSG_ID_SIZE + 32];
	int fd;

	if (t == NULL || !t->v2)
		return -ENOTSUP;
	(void)snprintf(path, sizeof(path), "%s/cgroup.events", id);
	fd = openat(t->fd, path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

/* ---- memory running out, numbers ---- */

int cgroup_oom_fd(const struct cgroups *c, const char *id, bool *ret_v2)
{
	const struct cgroup_tree *t = home(c, CGROUP_MEMORY);
	autofd int control = -EBADF, event = -EBADF;
	char path[MSG_ID_SIZE + 32];
	int r;

	if (t == NULL)
		return -ENOTSUP;
	*ret_v2 = t->v2;
	(void)snprintf(path, sizeof(path), "%s/%s", id,
		       t->v2 ? "memory.events" : "memory.oom_control");
	control = openat(t->fd, path, O_RDONLY | O_CLOEXEC);
	if (control < 0)
		return -errno;
	if (t->v2)
		return TAKE_FD(control);
	event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (event < 0)
		return -errno;
	r = leaf_put(t, id, "cgroup.event_control", NULL, "%d %d", event, control);
	return r < 0 ? r : TAKE_FD(event);
}

uint64_t cgroup_oom_kills(const struct cgroups *c, const char *id)
{
	const struct cgroup_tree *t = home(c, CGROUP_MEMORY);

	if (t == NULL)
		return 0;
	return leaf_key(t, id, t->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

void cgroup_stat(const struct cgroups *c, const char *id, struct msg_stat_reply *out)
{
	const struct cgroup_tree *t;

	t = home(c, CGROUP_CPUACCT);
	if (t != NULL)
		out->cpu_usec = t->v2 ? leaf_key(t, id, "cpu.stat", "usage_usec")
				      : leaf_u64(t, id, "cpuacct.usage") / 1000;
	t = home(c, CGROUP_MEMORY);
	if (t != NULL) {
		out->memory_bytes = leaf_u64(t, id,
					     t->v2 ? "memory.current" : "memory.usage_in_bytes");
		out->memory_peak_bytes = leaf_u64(
			t, id, t->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
		out->oom_kills = cgroup_oom_kills(c, id);
	}
	t = home(c, CGROUP_PIDS);
	if (t != NULL)
		out->pids = (uint32_t)leaf_u64(t, id, "pids.current");
}
