/* Control groups of either version, and of both at once.
 *
 * A host has one or more trees (hierarchies): the unified one (v2), and on older set-ups one per
 * controller (v1). For each controller we ask where it lives and write its limits in that tree's
 * words. In every tree that we use there is one directory per instance and one leaf per sandbox,
 * named after it. Whatever the controllers, if a v2 tree exists at all then freezing and counting
 * of processor time is done there: the core of v2 has both. */
#ifndef OSB_SANDBOX_CGROUP_H
#define OSB_SANDBOX_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "sandbox/msg.h"
#include "sandbox/pseudo.h"

enum cgroup_ctl {
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_IO,
	CGROUP_FREEZER
};
#define CGROUP_N_CTL     6
#define CGROUP_MAX_TREES 8

struct cgroup_tree {
	int fd; /* the instance's directory */
	bool v2;
	unsigned ctl;   /* bit per enum cgroup_ctl that lives here */
	char path[512]; /* of the instance's directory */
};

struct cgroups {
	struct cgroup_tree trees[CGROUP_MAX_TREES];
	unsigned n;
	int8_t home[CGROUP_N_CTL]; /* index into trees, or -1 */
	int8_t unified;            /* the v2 tree, or -1 */
	bool swap;                 /* swap is counted too */
	bool crowded; /* a v2 tree had controllers that it could not give to groups below it */
	unsigned disk_major,
		disk_minor; /* of the disk that holds the state directory; 0:0 unknown */
	struct pseudo_cgroups shown;
	pid_t near; /* see cgroup_setup */
};

/* Find the trees (from mountinfo_path, normally "/proc/self/mountinfo") and make the instance's
 * directories, `name` below each tree's root. `near` other than 0: not there but beside the cgroup
 * of that process (ourselves, or a sandbox of the instance), or else in it; a tree in which neither
 * was given to us is not used. What is missing is no error: see cgroups_features. */
int cgroup_setup(struct cgroups *c, const char *mountinfo_path, const char *name, pid_t near,
		 int state_fd, struct err *e);
void cgroup_teardown(struct cgroups *c); /* the instance's directories, if they are empty */
uint32_t cgroup_features(const struct cgroups *c); /* MSG_CAN_* */

#endif
