/* Removing a tree of any depth. Blocking, for jobs. */
#ifndef OSB_EXECD_RMTREE_H
#define OSB_EXECD_RMTREE_H

#include "base/err.h"

/* The file, link or directory at `path` and all it holds; links are removed, not followed. It is
 * fine if there is nothing. Stops at the first thing that will not go. */
int rmtree(const char *path, struct err *e);

#endif
