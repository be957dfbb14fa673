/* A sandbox's own cgroups: one leaf in each tree it needs, named after it. */
#ifndef OSB_SANDBOX_LEAF_H
#define OSB_SANDBOX_LEAF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/cgroup.h"
#include "sandbox/msg.h"

/* The way into a sandbox's leaves. */
struct leaf_door {
	int into_fd;                 /* the v2 leaf, to clone into; -EBADF without a v2 tree */
	int tasks[CGROUP_MAX_TREES]; /* of v1 leaves: see leaf_enter */
	unsigned n_tasks;
};

/* Make the sandbox's leaves with their limits. On error nothing is left. */
int leaf_make(const struct cgroups *c, const char *id, const struct msg_limits *l,
	      struct leaf_door *ret, struct err *e);
void leaf_door_close(struct leaf_door *d);

/* In the child, single-threaded: enter the v1 leaves by oneself. Moving another process costs a
 * grace period of the kernel, milliseconds on a busy host; moving oneself costs nothing. The
 * descriptors were opened by the runner, and it is the opener whose rights count. */
int leaf_enter(const struct leaf_door *d, struct err *e);

/* Remove the leaves that were made with these limits, or, without any, from all trees; -EBUSY while
 * something still runs in them. */
int leaf_remove(const struct cgroups *c, const char *id, const struct msg_limits *l);

/* Kill every process in the sandbox's leaves: for what was half made. */
void leaf_kill(const struct cgroups *c, const char *id);

/* Names of all leaves in all trees, one call each, possibly repeated. */
int leaf_each(const struct cgroups *c, void (*fn)(void *arg, const char *id), void *arg);

/* Ask for the state. 0 when it holds already, 1 when it is on its way: watch leaf_freeze_fd
 * (v2: EPOLLPRI) or ask again later (v1). */
int leaf_freeze(const struct cgroups *c, const char *id, bool frozen, struct err *e);
int leaf_is_frozen(const struct cgroups *c, const char *id); /* 1, 0, or negative errno */
int leaf_freeze_fd(const struct cgroups *c, const char *id); /* caller owns; -ENOTSUP on v1 */

/* A descriptor that becomes readable (v1: EPOLLIN, v2: EPOLLPRI) when memory ran out. */
int leaf_oom_fd(const struct cgroups *c, const char *id, bool *ret_v2);
uint64_t leaf_oom_kills(const struct cgroups *c, const char *id);

void leaf_stat(const struct cgroups *c, const char *id, struct msg_stat_reply *out);

#endif
