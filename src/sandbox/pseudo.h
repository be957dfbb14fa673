/* The kernel's own file systems as a sandbox sees them: /dev, /proc, /sys. Used in the child, whose
 * working directory is the kit. */
#ifndef OSB_SANDBOX_PSEUDO_H
#define OSB_SANDBOX_PSEUDO_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* How much of the cgroup tree to show below /sys/fs/cgroup. */
struct pseudo_cgroups {
	bool v2;           /* one unified tree */
	const char *v1[4]; /* else these controllers, NULL at the end */
};

/* tty_group: there is a group 5 in here, which terminals are to belong to. */
int pseudo_mount(int root_fd, uint64_t shm_bytes, bool tty_group, const struct pseudo_cgroups *cg,
		 struct err *e);

#endif
