/* A file that appears whole or not at all.
 *
 * It is written under no name (O_TMPFILE) or a hidden one in the directory it is meant for, gets
 * its owner and mode there, and is then put in the place of what was there in one step: a reader
 * sees the old file or the new one, and whatever goes wrong before leaves the old one and nothing
 * else. A link at the path stays, and what it points to is replaced.
 *
 * Where that cannot be, because the path is a mount point of its own (as /etc/hosts in many
 * containers) or the directory takes no new files, the bytes are put aside and copied over the old
 * file at the end.
 *
 * Durability: a file is handed to the kernel, not waited for; with `sync` it is on the disk, its
 * directory entry included, before newfile_commit() returns. Blocking, for jobs. */
#ifndef OSB_EXECD_NEWFILE_H
#define OSB_EXECD_NEWFILE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "execd/perm.h"

struct newfile {
	int fd;     /* write here */
	int dir_fd; /* of the directory */
	bool exists;
	bool in_place;   /* fd is a spool, to be copied over the old file */
	struct stat old; /* if it exists */
	unsigned made;   /* directories made for it */
	char *dir;
	char name[NAME_MAX + 1];
	char temp[32]; /* "": it has no name yet */
};

#define NEWFILE_INIT                           \
	(struct newfile)                       \
	{                                      \
		.fd = -EBADF, .dir_fd = -EBADF \
	}

/* Missing parents are made. `hidden`: nobody else may read it before the commit, which will set its
 * mode. -EISDIR, -EMEDIUMTYPE: there is something that is no regular file. */
int newfile_open(struct newfile *n, const char *path, bool hidden, struct err *e);
/* What `p` leaves open stays as the old file has it, attributes included; a new one gets 0777 less
 * the umask. On failure newfile_abort() is still to be called. */
int newfile_commit(struct newfile *n, const struct perm *p, bool sync, struct err *e);
/* Close, and take back what is not committed. Idempotent. */
void newfile_abort(struct newfile *n);

/* Where `path` leads: links followed one by one, the last may point to nothing. `out` has PATH_MAX
 * bytes. */
int newfile_resolve(const char *path, char *out, struct err *e);
/* 0, -EISDIR or -EMEDIUMTYPE, with words. */
int newfile_check_regular(const char *path, mode_t mode, struct err *e);

#endif
