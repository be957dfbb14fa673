/* What the runner stands on: root of the host, or root of a user namespace of its own.
 *
 * An ordinary user may make a user namespace, in which he is root: over mounts, networks and
 * processes that are made in it, and over nothing else. The runner then works in one such namespace
 * per instance, the parent of its sandboxes' own. It lives as long as the runner or any sandbox
 * does; a runner that follows a killed one enters the same, for rights over what is in there come
 * with it and with nothing else.
 *
 * Nobody asks further on who we are: only what can be done. */
#ifndef OSB_SANDBOX_GROUND_H
#define OSB_SANDBOX_GROUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum ground_can {
	GROUND_RANGES = 1u << 0,   /* id-mapped mounts: user ids of its own for each sandbox */
	GROUND_REGISTER = 1u << 1, /* /run/opensandbox, where instances share out numbers */
	GROUND_NODES = 1u << 2,    /* device nodes */
	GROUND_LINKS = 1u << 3,    /* links to the host's network */
	GROUND_DISKS = 1u << 4,    /* quotas and loop devices */
	GROUND_CGROUPS = 1u << 5,  /* any cgroup, not only those that were given to us */
	GROUND_GROUPS = 1u << 6,   /* setgroups(2) */
};

struct ground {
	unsigned can;        /* enum ground_can */
	uint32_t uids, gids; /* without GROUND_RANGES: all sandboxes have these, from 0 on */
	uint32_t host_uid;   /* ... and the first is this user of the host */
	pid_t neighbour;     /* a sandbox that lives already, or 0 */
};

/* Host ids that a sandbox is given, as the runner counts them. */
struct ground_ids {
	uint32_t first_uid, uids;
	uint32_t first_gid, gids;
	bool apart; /* the first of each by itself, as it is in our own map: no line of a map may
		     * stretch over two of its parent's */
};

/* Find out, and enter the namespace if there has to be one. Before anything is opened that mounts
 * are cloned from, and with one thread. */
int ground_take(struct ground *g, const char *state_path, struct err *e);

/* For the sandbox whose range, if it can have one, begins at `base`. */
struct ground_ids ground_ids(const struct ground *g, uint32_t base);

/* Give them to the user namespace of a process that was just made with one. */
int ground_map_ids(pid_t pid, const struct ground_ids *ids, struct err *e);

/* What its root is on the host. */
uint32_t ground_root_uid(const struct ground *g, uint32_t base);

#endif
