/* mkdir -p. */
#ifndef OSB_EXECD_MKDIRS_H
#define OSB_EXECD_MKDIRS_H

#include <sys/types.h>

#include "base/err.h"

/* The absolute `path` with its parents, each with `mode` less the umask. *ret_made (may be NULL)
 * tells how many of its last components were made; on failure none of them stays. -ENOTDIR:
 * something on the way is no directory. */
int mkdirs(const char *path, mode_t mode, unsigned *ret_made, struct err *e);

/* Take back what mkdirs() made, as far as it is still empty. */
void mkdirs_undo(const char *path, unsigned made);

#endif
