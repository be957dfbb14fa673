/* What this sandbox may use of the machine and what it uses, by its control groups: version 1,
 * version 2, or both. Where there are none to be seen it is the machine as /proc shows it. */
#ifndef OSB_EXECD_CGSTAT_H
#define OSB_EXECD_CGSTAT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

/* Directories of the groups we are in, and where their hierarchies begin; "" if unknown. */
struct cgstat_dir {
	char path[PATH_MAX];
	size_t top_len; /* of the mount point, the first part of path */
	bool v2;
};

struct cgstat {
	struct cgstat_dir cpu;    /* quota */
	struct cgstat_dir usage;  /* time used */
	struct cgstat_dir memory; /* limit and use */
};

struct cgstat_sample {
	double cpu_allowance; /* in processors, at most those there are */
	uint64_t cpu_used_ns; /* since some time in the past */
	bool cpu_whole;       /* cpu_used_ns counts all of the machine */
	uint64_t memory_total;
	uint64_t memory_used; /* without what could be dropped at once, at most the total */
};

/* Find the groups; costs a few file reads, once. */
void cgstat_locate(struct cgstat *c);
void cgstat_sample(const struct cgstat *c, struct cgstat_sample *ret);

/* --- the pure parts, for tests --- */

/* The directory of a controller ("" for version 2), from the texts of /proc/self/cgroup and
 * /proc/self/mountinfo. False: there is none. */
bool cgstat_find(struct span cgroup, struct span mountinfo, const char *controller,
		 struct cgstat_dir *ret);
/* "max 100000", "50000 100000"; < 0: unlimited or not understood. In processors. */
double cgstat_parse_cpu_max(struct span text);
/* The number behind a key at the start of a line ("inactive_file 4096"). */
bool cgstat_parse_key(struct span text, const char *key, uint64_t *ret);

#endif
