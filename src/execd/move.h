/* Moving a file or a tree, to another file system as well. Blocking, for jobs. */
#ifndef OSB_EXECD_MOVE_H
#define OSB_EXECD_MOVE_H

#include "base/err.h"

/* Nothing is replaced: -EEXIST. Across file systems it is copied beside `dest`, written to disk,
 * put in place in one step, and only then removed at `src`. Missing parents of `dest` are made. */
int move(const char *src, const char *dest, struct err *e);

#endif
