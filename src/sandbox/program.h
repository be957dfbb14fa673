/* execd for sandboxes whose users include the one who owns it.
 *
 * It comes as a sealed memory file, which the server's user owns. Where a sandbox has ids of its
 * own that is a stranger, and nobody in there can change so much as a mode bit of it. Without root
 * it is the sandbox's root, and the file is the same for all sandboxes: so it is copied once into
 * the kit, and each gets a read-only mount of the copy. */
#ifndef OSB_SANDBOX_PROGRAM_H
#define OSB_SANDBOX_PROGRAM_H

#include <sys/stat.h>

#include "base/err.h"

struct program {
	struct stat from; /* what the copy was made of; all zeros: there is none */
};

/* In the runner, working directory the kit: a descriptor to execute, which the caller owns. */
int program_open(struct program *p, int memory_fd, int *ret_fd, struct err *e);

#endif
