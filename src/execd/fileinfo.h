/* What clients are told about a file. */
#ifndef OSB_EXECD_FILEINFO_H
#define OSB_EXECD_FILEINFO_H

#include <sys/stat.h>

#include "codec/jsonw.h"
#include "execd/users.h"

/* One object: path, type, size, modified_at, created_at, owner, group, mode. created_at is the time
 * of birth where the file system knows it, otherwise that of the last change of the inode. */
void fileinfo_write(struct jw *w, const char *path, const struct statx *st, const struct users *u);

const char *fileinfo_type(unsigned mode); /* "file", "directory", "symlink", "other" */

#endif
