/* Text in a file replaced by another, whatever the size of the file. Blocking, for jobs. */
#ifndef OSB_EXECD_REPLACE_H
#define OSB_EXECD_REPLACE_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* All occurrences from the left, byte by byte, none overlapping another. The file is exchanged as a
 * whole (newfile.h), with its mode and owner; without an occurrence it stays untouched. -EISDIR,
 * -EMEDIUMTYPE: not a regular file. */
int replace_in_file(const char *path, struct span old, struct span new, uint64_t *ret_count,
		    struct err *e);

#endif
