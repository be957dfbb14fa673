#include "sandbox/leaf.h"

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

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

/* ---- making and removing ---- */

static const struct cgroup_tree *home(const struct cgroups *c, enum cgroup_ctl ctl)
{
	return c->home[ctl] >= 0 ? &c->trees[c->home[ctl]] : NULL;
}

/* Does a sandbox with these limits need a leaf in this tree? Each costs time; bandwidth is the one
 * thing that is not also counted. */
static bool needed(const struct cgroups *c, unsigned tree, const struct msg_limits *l)
{
	for (unsigned i = 0; i < CGROUP_N_CTL; i++) {
		bool wanted = i != CGROUP_IO || l->io_read_bps != 0 || l->io_write_bps != 0;

		if (c->home[i] == (int8_t)tree && wanted)
			return true;
	}
	return (int8_t)tree == c->unified;
}

/* "ID/FILE" in the tree that has the controller. */
static int put(const struct cgroup_tree *t, const char *id, const char *file, struct err *e,
	       const char *fmt, ...) PRINTF(5, 6);

static int put(const struct cgroup_tree *t, const char *id, const char *file, struct err *e,
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

static ssize_t get(const struct cgroup_tree *t, const char *id, const char *file, char *buf,
		   size_t size)
{
	char path[MSG_ID_SIZE + 64];

	(void)snprintf(path, sizeof(path), "%s/%s", id, file);
	return fsat_read(t->fd, path, buf, size);
}

static uint64_t get_u64(const struct cgroup_tree *t, const char *id, const char *file)
{
	char path[MSG_ID_SIZE + 64];
	uint64_t v = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", id, file);
	return fsat_read_u64(t->fd, path, &v) == 0 ? v : 0;
}

/* "key N" lines */
static uint64_t get_key(const struct cgroup_tree *t, const char *id, const char *file,
			const char *key)
{
	char text[4096];
	struct span rest;
	uint64_t v = 0;
	ssize_t n;

	n = get(t, id, file, text, sizeof(text));
	rest = span_of(text, n > 0 ? (size_t)n : 0);
	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n');
		struct span name = span_cut(&line, ' ');

		if (span_is(name, key) && span_u64(line, &v))
			return v;
	}
	return 0;
}

/* v1 leaves out what lies in sockets of the Internet's protocols, unless told to count it, and then
 * does so on its own: a quarter is a lot for them. ENOENT: this kernel no longer can. */
static int limit_buffers(const struct cgroup_tree *t, const char *id, unsigned long long most,
			 struct err *e)
{
	int r = put(t, id, "memory.kmem.tcp.limit_in_bytes", e, "%llu", most / 4);

	return r == -ENOENT ? 0 : r;
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
	r = put(t, id, t->v2 ? "memory.max" : "memory.limit_in_bytes", e, "%llu", most);
	if (r == 0 && c->swap)
		r = t->v2 ? put(t, id, "memory.swap.max", e, "%llu", swap)
			  : put(t, id, "memory.memsw.limit_in_bytes", e, "%llu", most + swap);
	if (r == 0 && !t->v2)
		r = limit_buffers(t, id, most, e);
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
		return put(t, id, "cpu.max", e, "%llu %llu", quota, period);
	return put(t, id, "cpu.cfs_quota_us", e, "%llu", quota);
}

static int limit_pids(const struct cgroups *c, const char *id, const struct msg_limits *l,
		      struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_PIDS);

	if (l->pids == 0)
		return 0;
	if (t == NULL)
		return err_set(e, ENOTSUP, "this host has no pids controller");
	return put(t, id, "pids.max", e, "%u", l->pids);
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
		r = t->v2 ? put(t, id, "io.max", e, "%u:%u %s=%llu", c->disk_major, c->disk_minor,
				ways[i].v2, ways[i].bps)
			  : put(t, id, ways[i].v1, e, "%u:%u %llu", c->disk_major, c->disk_minor,
				ways[i].bps);
	}
	return r;
}

void leaf_door_close(struct leaf_door *d)
{
	fd_close(&d->into_fd);
	while (d->n_tasks > 0)
		fd_close(&d->tasks[--d->n_tasks]);
}

static int open_door(const struct cgroups *c, const char *id, const struct msg_limits *l,
		     struct leaf_door *d, struct err *e)
{
	for (unsigned i = 0; i < c->n; i++) {
		const struct cgroup_tree *t = &c->trees[i];
		char path[MSG_ID_SIZE + 8];
		int fd;

		if (!needed(c, i, l))
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

int leaf_make(const struct cgroups *c, const char *id, const struct msg_limits *l,
	      struct leaf_door *ret, struct err *e)
{
	static int (*const limit[])(const struct cgroups *, const char *, const struct msg_limits *,
				    struct err *) = {
		limit_memory,
		limit_cpu,
		limit_pids,
		limit_io,
	};
	struct leaf_door d = { .into_fd = -EBADF };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < c->n; i++) {
		if (needed(c, i, l) && mkdirat(c->trees[i].fd, id, 0755) < 0 && errno != EEXIST)
			r = err_sys(e, "make cgroup '%s/%s'", c->trees[i].path, id);
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(limit); i++)
		r = limit[i](c, id, l, e);
	if (r == 0)
		r = open_door(c, id, l, &d, e);
	if (r < 0) {
		leaf_door_close(&d);
		(void)leaf_remove(c, id, l);
		return r;
	}
	*ret = d;
	return 0;
}

int leaf_enter(const struct leaf_door *d, struct err *e)
{
	for (unsigned i = 0; i < d->n_tasks; i++)
		if (write(d->tasks[i], "0", 1) < 0)
			return err_sys(e, "enter a cgroup");
	return 0;
}

int leaf_remove(const struct cgroups *c, const char *id, const struct msg_limits *l)
{
	int r = 0;

	for (unsigned i = 0; i < c->n; i++) {
		int q;

		if (l != NULL && !needed(c, i, l))
			continue;
		q = fsat_unlink(c->trees[i].fd, id, AT_REMOVEDIR);
		if (q < 0 && q != -ENOENT)
			r = q;
	}
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

void leaf_kill(const struct cgroups *c, const char *id)
{
	for (unsigned i = 0; i < c->n; i++) {
		char path[MSG_ID_SIZE + 32];
		FILE *f;
		int fd;

		/* whole, also those that are being forked; Linux 5.14 and later */
		if (c->trees[i].v2 && put(&c->trees[i], id, "cgroup.kill", NULL, "1") == 0)
			continue;
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

int leaf_each(const struct cgroups *c, void (*fn)(void *arg, const char *id), void *arg)
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

int leaf_is_frozen(const struct cgroups *c, const char *id)
{
	const struct cgroup_tree *t = home(c, CGROUP_FREEZER);
	char text[64];
	ssize_t n;

	if (t == NULL)
		return -ENOTSUP;
	n = get(t, id, t->v2 ? "cgroup.events" : "freezer.state", text, sizeof(text));
	if (n < 0)
		return (int)n;
	return t->v2 ? strstr(text, "frozen 1\n") != NULL : strcmp(text, "FROZEN\n") == 0;
}

int leaf_freeze(const struct cgroups *c, const char *id, bool frozen, struct err *e)
{
	const struct cgroup_tree *t = home(c, CGROUP_FREEZER);
	int r;

	if (t == NULL)
		return err_set(e, ENOTSUP, "this host cannot freeze processes");
	r = t->v2 ? put(t, id, "cgroup.freeze", e, "%d", frozen)
		  : put(t, id, "freezer.state", e, "%s", frozen ? "FROZEN" : "THAWED");
	if (r < 0)
		return r;
	return leaf_is_frozen(c, id) == (int)frozen ? 0 : 1;
}

int leaf_freeze_fd(const struct cgroups *c, const char *id)
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

int leaf_oom_fd(const struct cgroups *c, const char *id, bool *ret_v2)
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
	r = put(t, id, "cgroup.event_control", NULL, "%d %d", event, control);
	return r < 0 ? r : TAKE_FD(event);
}

uint64_t leaf_oom_kills(const struct cgroups *c, const char *id)
{
	const struct cgroup_tree *t = home(c, CGROUP_MEMORY);

	if (t == NULL)
		return 0;
	return get_key(t, id, t->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

void leaf_stat(const struct cgroups *c, const char *id, struct msg_stat_reply *out)
{
	const struct cgroup_tree *t;

	t = home(c, CGROUP_CPUACCT);
	if (t != NULL)
		out->cpu_usec = t->v2 ? get_key(t, id, "cpu.stat", "usage_usec")
				      : get_u64(t, id, "cpuacct.usage") / 1000;
	t = home(c, CGROUP_MEMORY);
	if (t != NULL) {
		out->memory_bytes = get_u64(t, id,
					    t->v2 ? "memory.current" : "memory.usage_in_bytes");
		out->memory_peak_bytes = get_u64(
			t, id, t->v2 ? "memory.peak" : "memory.max_usage_in_bytes");
		out->oom_kills = leaf_oom_kills(c, id);
	}
	t = home(c, CGROUP_PIDS);
	if (t != NULL)
		out->pids = (uint32_t)get_u64(t, id, "pids.current");
}
