#include "execd/cgstat.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/util.h"

#define TEXT_SIZE   KIB(4)   /* of a statistics file; what matters is among its first lines */
#define MOUNTS_SIZE KIB(256) /* of the list of mounts */

/* --- texts --- */

/* One line at a time; false at the end. */
static bool next_line(struct span *rest, struct span *ret)
{
	if (rest->len == 0)
		return false;
	*ret = span_cut(rest, '\n');
	return true;
}

static bool list_has(struct span list, const char *word)
{
	while (list.len > 0)
		if (span_is(span_cut(&list, ','), word))
			return true;
	return false;
}

/* "4:memory:/path": our group in that hierarchy. */
static bool group_path(struct span text, const char *controller, struct span *ret)
{
	struct span line;

	while (next_line(&text, &line)) {
		struct span id = span_cut(&line, ':'), names = span_cut(&line, ':');
		bool v2 = span_is(id, "0") && names.len == 0;

		if (controller[0] == '\0' ? v2 : list_has(names, controller)) {
			*ret = line;
			return true;
		}
	}
	return false;
}

/* "36 35 98:0 /root /mount/point opts shared:1 - cgroup source rw,memory" */
static bool mount_of(struct span text, const char *controller, struct span *ret_root,
		     struct span *ret_point)
{
	struct span line;

	while (next_line(&text, &line)) {
		struct span word[6], type, options;

		for (unsigned i = 0; i < 6; i++)
			word[i] = span_cut(&line, ' ');
		while (line.len > 0 && !span_is(span_cut(&line, ' '), "-"))
			;
		type = span_cut(&line, ' ');
		(void)span_cut(&line, ' ');
		options = line;
		if (controller[0] == '\0'
			    ? !span_is(type, "cgroup2")
			    : !span_is(type, "cgroup") || !list_has(options, controller))
			continue;
		*ret_root = word[3];
		*ret_point = word[4];
		return true;
	}
	return false;
}

bool cgstat_find(struct span cgroup, struct span mountinfo, const char *controller,
		 struct cgstat_dir *ret)
{
	struct span path, root, point;
	int n;

	if (!group_path(cgroup, controller, &path) ||
	    !mount_of(mountinfo, controller, &root, &point))
		return false;
	/* The mount shows the hierarchy from `root` on. A group above or beside it cannot be seen
	 * from here; what can be is then the best there is. */
	if (span_is(root, "/"))
		root.len = 0;
	if (path.len < root.len || !span_eq(span_first(path, root.len), root) ||
	    (path.len > root.len && path.p[root.len] != '/') ||
	    span_starts(span_skip(path, root.len), "/.."))
		path = span_str("");
	else
		path = span_skip(path, root.len);
	if (span_is(path, "/"))
		path.len = 0;
	n = snprintf(ret->path, sizeof(ret->path), "%.*s%.*s", SPAN_FMT(point), SPAN_FMT(path));
	if (n < 0 || (size_t)n >= sizeof(ret->path) || (size_t)n != point.len + path.len) {
		ret->path[0] = '\0';
		return false;
	}
	ret->top_len = point.len;
	ret->v2 = controller[0] == '\0';
	return true;
}

double cgstat_parse_cpu_max(struct span text)
{
	uint64_t quota, period;
	struct span first;

	text = span_trim(span_cut(&text, '\n'));
	first = span_cut(&text, ' ');
	if (!span_u64(first, &quota) || !span_u64(text, &period) || period == 0)
		return -1;
	return (double)quota / (double)period;
}

bool cgstat_parse_key(struct span text, const char *key, uint64_t *ret)
{
	struct span line;

	while (next_line(&text, &line)) {
		size_t len = strlen(key);
		struct span number;

		if (!span_starts(line, key) || line.len == len ||
		    (line.p[len] != ' ' && line.p[len] != ':'))
			continue;
		line = span_trim(span_skip(line, len + 1));
		number = span_cut(&line, ' ');
		return span_u64(number, ret);
	}
	return false;
}

/* --- files --- */

static struct span read_text(const char *path, char *buf, size_t size)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;

	while (fd >= 0 && len < size) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return span_of(buf, len);
}

static struct span read_in(const char *dir, const char *name, char *buf, size_t size)
{
	char path[PATH_MAX];

	if (dir[0] == '\0' || path_join(path, sizeof(path), dir, name) < 0)
		return span_of(buf, 0);
	return read_text(path, buf, size);
}

static bool read_number(const char *dir, const char *name, uint64_t *ret)
{
	char buf[64];
	struct span text = read_in(dir, name, buf, sizeof(buf));

	return span_u64(span_cut(&text, '\n'), ret);
}

void cgstat_locate(struct cgstat *c)
{
	static const char *const controllers[] = { "cpu", "cpuacct", "memory" };
	struct cgstat_dir *dirs[] = { &c->cpu, &c->usage, &c->memory };
	autofree char *mounts_buf = malloc(MOUNTS_SIZE);
	char groups_buf[TEXT_SIZE];
	struct span groups = read_text("/proc/self/cgroup", groups_buf, sizeof(groups_buf));
	struct span mounts = { NULL, 0 };

	if (mounts_buf != NULL)
		mounts = read_text("/proc/self/mountinfo", mounts_buf, MOUNTS_SIZE);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		struct cgstat_dir *d = dirs[i];

		*d = (struct cgstat_dir){ 0 };
		/* on machines with both, a controller is in one of them */
		if (!cgstat_find(groups, mounts, controllers[i], d))
			(void)cgstat_find(groups, mounts, "", d);
		if (d->path[0] != '\0' && access(d->path, R_OK | X_OK) < 0)
			d->path[d->top_len] = '\0';
	}
}

/* Call for the group and all above it that can be seen. */
static void climb(const struct cgstat_dir *d, void (*look)(const char *dir, bool v2, void *arg),
		  void *arg)
{
	char path[PATH_MAX];
	size_t len = strlen(d->path);

	memcpy(path, d->path, len + 1);
	while (len > 0) {
		look(path, d->v2, arg);
		if (len <= d->top_len)
			break;
		while (len > d->top_len && path[--len] != '/')
			;
		path[len] = '\0';
	}
}

static void look_quota(const char *dir, bool v2, void *arg)
{
	double *least = arg, quota = -1;
	uint64_t us, period;
	char buf[64];

	if (v2)
		quota = cgstat_parse_cpu_max(read_in(dir, "cpu.max", buf, sizeof(buf)));
	else if (read_number(dir, "cpu.cfs_quota_us", &us) && /* -1 is no number */
		 read_number(dir, "cpu.cfs_period_us", &period) && period > 0)
		quota = (double)us / (double)period;
	if (quota > 0)
		*least = MIN(*least, quota);
}

static void look_limit(const char *dir, bool v2, void *arg)
{
	uint64_t *least = arg, limit;

	if (read_number(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &limit))
		*least = MIN(*least, limit);
}

static double count_cpus(void)
{
	cpu_set_t set;
	int n;

	if (sched_getaffinity(0, sizeof(set), &set) == 0 && (n = CPU_COUNT(&set)) > 0)
		return n;
	return (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
}

/* /proc/stat: time of all processors but the idle one's. */
static uint64_t machine_cpu_ns(void)
{
	static const bool idle[] = { [3] = true, [4] = true };
	uint64_t ticks = 0, n, hz = (uint64_t)MAX(sysconf(_SC_CLK_TCK), 1L);
	char buf[TEXT_SIZE];
	struct span text = read_text("/proc/stat", buf, sizeof(buf)), line = span_cut(&text, '\n');

	if (!span_is(span_cut(&line, ' '), "cpu"))
		return 0;
	line = span_trim(line);
	for (size_t i = 0; i < 8 && line.len > 0; i++) {
		if (span_u64(span_cut(&line, ' '), &n) && !(i < ARRAY_LEN(idle) && idle[i]))
			ticks += n;
	}
	return ticks * (1000000000u / hz);
}

static void sample_cpu(const struct cgstat *c, struct cgstat_sample *s)
{
	char buf[TEXT_SIZE];
	uint64_t n;

	s->cpu_allowance = count_cpus();
	climb(&c->cpu, look_quota, &s->cpu_allowance);
	if (c->usage.v2 && cgstat_parse_key(read_in(c->usage.path, "cpu.stat", buf, sizeof(buf)),
					    "usage_usec", &n)) {
		s->cpu_used_ns = n * 1000;
	} else if (!c->usage.v2 && read_number(c->usage.path, "cpuacct.usage", &n)) {
		s->cpu_used_ns = n;
	} else {
		s->cpu_used_ns = machine_cpu_ns();
		s->cpu_whole = true;
	}
}

static void sample_memory(const struct cgstat *c, struct cgstat_sample *s)
{
	const struct cgstat_dir *d = &c->memory;
	uint64_t kib = 0, used, cache = 0;
	char buf[TEXT_SIZE];
	struct span text = read_text("/proc/meminfo", buf, sizeof(buf));

	s->memory_total = cgstat_parse_key(text, "MemTotal", &kib) ? kib << 10 : 0;
	s->memory_used = cgstat_parse_key(text, "MemAvailable", &kib)
				 ? s->memory_total - MIN(kib << 10, s->memory_total)
				 : 0;
	if (!read_number(d->path, d->v2 ? "memory.current" : "memory.usage_in_bytes", &used))
		return;
	climb(d, look_limit, &s->memory_total);
	/* the kernel gives these pages up before it kills anybody */
	if (cgstat_parse_key(read_in(d->path, "memory.stat", buf, sizeof(buf)),
			     d->v2 ? "inactive_file" : "total_inactive_file", &cache))
		used -= MIN(cache, used);
	s->memory_used = MIN(used, s->memory_total);
}

void cgstat_sample(const struct cgstat *c, struct cgstat_sample *ret)
{
	*ret = (struct cgstat_sample){ 0 };
	sample_cpu(c, ret);
	sample_memory(c, ret);
}
