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
	char path[256]; /* of the instance's directory */
};

struct cgroups {
	struct cgroup_tree trees[CGROUP_MAX_TREES];
	unsigned n;
	int8_t home[CGROUP_N_CTL]; /* index into trees, or -1 */
	int8_t unified;            /* the v2 tree, or -1 */
	bool swap;                 /* swap is counted too */
	unsigned disk_major,
		disk_minor; /* of the disk that holds the state directory; 0:0 unknown */
	struct pseudo_cgroups shown;
};

/* Find the trees (from mountinfo_path, normally "/proc/self/mountinfo") and make the instance's
 * directories, `name` below each tree's root. What is missing is no error: see cgroups_features. */
int cgroup_setup(struct cgroups *c, const char *mountinfo_path, const char *name, int state_fd,
		 struct err *e);
void cgroup_teardown(struct cgroups *c); /* the instance's directories, if they are empty */
uint32_t cgroup_features(const struct cgroups *c); /* MSG_CAN_* */

/* The way into a sandbox's leaves. */
struct cgroup_door {
	int into_fd;                 /* the v2 leaf, to clone into; -EBADF without a v2 tree */
	int tasks[CGROUP_MAX_TREES]; /* of v1 leaves: see cgroup_enter */
	unsigned n_tasks;
};

/* Make the sandbox's leaves with their limits. On error nothing is left. */
int cgroup_make(const struct cgroups *c, const char *id, const struct msg_limits *l,
		struct cgroup_door *ret, struct err *e);
void cgroup_door_close(struct cgroup_door *d);

/* In the child, single-threaded: enter the v1 leaves by oneself. Moving another process costs a
 * grace period of the kernel, milliseconds on a busy host; moving oneself costs nothing. The
 * descriptors were opened by the runner, and it is the opener whose rights count. */
int cgroup_enter(const struct cgroup_door *d, struct err *e);

/* Remove the leaves; -EBUSY while something still runs in them. */
int cgroup_remove(const struct cgroups *c, const char *id);

/* Kill every process in the sandbox's leaves: for what was half made. */
void cgroup_kill(const struct cgroups *c, const char *id);

/* Names of all leaves in all trees, one call each, possibly repeated. */
int cgroup_each(const struct cgroups *c, void (*fn)(void *arg, const char *id), void *arg);

/* Ask for the state. 0 when it holds already, 1 when it is on its way: watch cgroup_freeze_fd
 * (v2: EPOLLPRI) or ask again later (v1). */
int cgroup_freeze(const struct cgroups *c, const char *id, bool frozen, struct err *e);
int cgroup_is_frozen(const struct cgroups *c, const char *id); /* 1, 0, or negative errno */
int cgroup_freeze_fd(const struct cgroups *c, const char *id); /* caller owns; -ENOTSUP on v1 */

/* A descriptor that becomes readable (v1: EPOLLIN, v2: EPOLLPRI) when memory ran out. */
int cgroup_oom_fd(const struct cgroups *c, const char *id, bool *ret_v2);
uint64_t cgroup_oom_kills(const struct cgroups *c, const char *id);

void cgroup_stat(const struct cgroups *c, const char *id, struct msg_stat_reply *out);

#endif
