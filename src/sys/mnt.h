/* Mounts by descriptor: made detached, attached where an already checked directory says. */
#ifndef OSB_SYS_MNT_H
#define OSB_SYS_MNT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/mount.h>

#include "base/err.h"

/* One option of mnt_new; value NULL = a flag. The list ends with a NULL key. */
struct mnt_opt {
	const char *key;
	const char *value;
};

/* A new file system, mounted nowhere. attrs: MOUNT_ATTR_*. Caller owns the descriptor. */
int mnt_new(const char *type, const char *source, const struct mnt_opt *opts, unsigned attrs,
	    int *ret_fd, struct err *e);

/* A detached copy of the mount at dir_fd/path ("" = dir_fd itself) with these attributes set.
 * userns_fd >= 0: id-mapped by that user namespace. flags: AT_RECURSIVE or 0. */
int mnt_clone(int dir_fd, const char *path, unsigned flags, uint64_t attrs, int userns_fd,
	      int *ret_fd, struct err *e);

/* Attach a detached mount on the directory or file `at_fd` refers to. */
int mnt_attach(int mount_fd, int at_fd, struct err *e);

/* Attach at dir_fd/path; path has been chosen by us, it is not checked. */
int mnt_attach_at(int mount_fd, int dir_fd, const char *path, struct err *e);

#endif
