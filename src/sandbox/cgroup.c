#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

/* Each by itself, so that one that fails stops no other. -EBUSY: processes are in the way. Those
 * that they are in the way of come first: the others, given first, would make it a group of
 * threads, in which no sandbox can be. */
static int enable_v2(int dir_fd, unsigned mask)
{
	static const enum cgroup_ctl order[] = { CGROUP_MEMORY, CGROUP_IO, CGROUP_CPU,
						 CGROUP_PIDS };

	for (size_t i = 0; i < ARRAY_LEN(order); i++)
		if ((mask & 1u << order[i]) != 0 &&
		    fsat_putf(dir_fd, "cgroup.subtree_control", "+%s", ctls[order[i]].v2) == -EBUSY)
			return -EBUSY;
	return 0;
}

#define REST "opensandbox-rest"

static int move_aside(int root_fd, const char *pid)
{
	autofd int rest = -EBADF;
	int r;

	if (pid[0] == '0')
		return -EPERM; /* cannot be seen from here; written, it would mean us */
	rest = fsat_mkdir_open(root_fd, REST, 0755);
	r = rest >= 0 ? fsat_put(rest, "cgroup.procs", pid) : rest;
	return r == -ESRCH ? 0 : r;
}

/* A v2 group has controllers to give or processes, not both; only the root of all (which has no
 * type) is exempt. In a container what looks like the root is a group like any other, with
 * everything in it. So that moves aside, to where the same limits hold. */
static int make_room(int root_fd)
{
	autofree char *line = NULL;
	size_t size = 0;
	int fd, r = 0;
	FILE *f;

	if (faccessat(root_fd, "cgroup.type", F_OK, 0) < 0)
		return 0;
	fd = openat(root_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	f = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (f == NULL) {
		r = -errno;
		fd_close(&fd);
		return r;
	}
	while (r == 0 && getline(&line, &size, f) > 0)
		r = move_aside(root_fd, line);
	(void)fclose(f);
	return r;
}

/* Let groups below have these controllers. Whoever forks while we move needs another round. */
static int give_v2(int root_fd, unsigned mask)
{
	int r = mask != 0 ? -EBUSY : 0;

	for (unsigned tries = 0; r == -EBUSY && tries < 8; tries++) {
		r = make_room(root_fd);
		if (r == 0)
			r = enable_v2(root_fd, mask);
	}
	return r;
}

/* ---- where in a tree ---- */

/* The cgroup of a process in this tree, from the tree's root: "/user.slice/...". */
static bool path_of(pid_t pid, bool v2, unsigned mask, char *out, size_t size)
{
	char file[32], text[8192];
	struct span rest;
	ssize_t n;

	(void)snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)pid);
	n = fsat_read(AT_FDCWD, file, text, sizeof(text));
	rest = span_of(text, n > 0 ? (size_t)n : 0);
	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n'), controllers;

		(void)span_cut(&line, ':');
		controllers = span_cut(&line, ':');
		if (line.p == NULL ||
		    (v2 ? controllers.len != 0 : (v1_controllers(controllers) & mask) == 0))
			continue;
		/* outside of what our cgroup namespace shows, we know no way */
		return span_starts(line, "/") && !span_starts(line, "/..") &&
		       span_copy(line, out, size);
	}
	return false;
}

static void cut_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash != NULL)
		*slash = '\0';
}

static int open_if_ours(const char *path)
{
	autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || faccessat(fd, ".", W_OK, 0) < 0 || faccessat(fd, "cgroup.procs", W_OK, 0) < 0)
		return -EACCES;
	return TAKE_FD(fd);
}

/* The directory that the instance's goes into, and its path; -EACCES if there is none for us. The
 * parent of a process's cgroup is preferred to that cgroup: what has processes in it cannot pass on
 * controllers (v2), and a parent is more likely to be there when we are started the next time. */
static int open_base(const struct cgroups *c, const char *at, const char *name, bool v2,
		     unsigned mask, char *path, size_t size)
{
	char own[256], last[80];
	int fd, n;

	if (c->near == 0) {
		(void)snprintf(path, size, "%s", at);
		fd = open(at, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		return fd >= 0 ? fd : -errno;
	}
	if (!path_of(c->near, v2, mask, own, sizeof(own)) || strcmp(own, "/") == 0)
		return -EACCES;
	n = snprintf(last, sizeof(last), "/%s", name);
	cut_last(own);
	/* a sandbox's: the directory is there already */
	if (strlen(own) >= (size_t)n && strcmp(own + strlen(own) - (size_t)n, last) == 0)
		cut_last(own);
	(void)snprintf(path, size, "%s%s", at, own);
	fd = open_if_ours(path);
	if (fd >= 0 || !path_of(c->near, v2, mask, own, sizeof(own)))
		return fd;
	(void)snprintf(path, size, "%s%s", at, own);
	return open_if_ours(path);
}

/* Take the tree at this mount into use. */
static int add_tree(struct cgroups *c, const char *at, const char *name, bool v2, unsigned mask,
		    struct err *e)
{
	struct cgroup_tree *t = &c->trees[c->n];
	autofd int root = -EBADF;
	char base[448];

	if (c->n == CGROUP_MAX_TREES)
		return 0;
	root = open_base(c, at, name, v2, mask, base, sizeof(base));
	if (root < 0 && c->near != 0)
		return 0;
	if (root < 0)
		return err_code(e, root, "open cgroup tree '%s'", at);
	if (v2) {
		mask = v2_controllers(root);
		/* what an ordinary user was given he shares with what is in it already */
		if (c->near != 0)
			(void)enable_v2(root, mask);
		else
			c->crowded = give_v2(root, mask) < 0;
	}
	t->fd = fsat_mkdir_open(root, name, 0755);
	if (t->fd < 0)
		return err_code(e, t->fd, "make cgroup '%s/%s'", base, name);
	if (v2) {
		/* what the parent could not enable is not there */
		mask &= v2_controllers(t->fd);
		(void)enable_v2(t->fd, mask);
		c->unified = (int8_t)c->n;
		mask |= 1u << CGROUP_FREEZER | 1u << CGROUP_CPUACCT;
	}
	t->v2 = v2;
	t->ctl = mask;
	(void)snprintf(t->path, sizeof(t->path), "%s/%s", base, name);
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

int cgroup_setup(struct cgroups *c, const char *mountinfo_path, const char *name, pid_t near,
		 int state_fd, struct err *e)
{
	unsigned shown = 0;
	FILE *f;
	int r;

	memset(c, 0, sizeof(*c));
	memset(c->home, -1, sizeof(c->home));
	c->unified = -1;
	c->near = near;
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
