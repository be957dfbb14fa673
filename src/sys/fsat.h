/* Files below a directory descriptor, for trees that somebody hostile may be changing meanwhile.
 *
 * Nothing here follows a link out of the directory it was given: every lookup goes through
 * openat2(2) with RESOLVE_BENEATH or RESOLVE_IN_ROOT, and every creation is done relative to a
 * descriptor that was checked. Return values are 0 / a descriptor, or a negative errno. */
#ifndef OSB_SYS_FSAT_H
#define OSB_SYS_FSAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Open strictly below `dir_fd`: no link of any kind, no mount point crossed, no "..". */
int fsat_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);

/* Open as if `root_fd` were "/": links are followed, but stay inside. Magic links are refused. */
int fsat_open_in_root(int root_fd, const char *path, int flags, mode_t mode);

/* The directory `path` inside the root, made with its parents (0755) where missing; O_PATH. */
int fsat_mkdirs_in_root(int root_fd, const char *path);

/* One directory `name` (a single component) in `dir_fd`: made if missing, opened without following
 * a link. O_DIRECTORY descriptor fit for reading. */
int fsat_mkdir_open(int dir_fd, const char *name, mode_t mode);

/* Whole small file into buf with a NUL behind; the length, -EFBIG if it does not fit. */
ssize_t fsat_read(int dir_fd, const char *name, char *buf, size_t size);
int fsat_read_u64(int dir_fd, const char *name, uint64_t *ret);

/* Write to a file that exists (cgroup and /proc files): one write(2), no creation. */
int fsat_put(int dir_fd, const char *name, const char *value);
int fsat_putf(int dir_fd, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Create or replace `name` with this content, by way of a temporary name and rename(2). */
int fsat_replace(int dir_fd, const char *name, const void *data, size_t len, mode_t mode);

/* All of it, or a negative errno. */
int fsat_write_all(int fd, const void *data, size_t len);
int fsat_read_all(int fd, void *data, size_t len); /* -EPIPE when the file ends early */

/* unlinkat(2) of a name that nobody will use again, in a directory that stays: the kernel forgets
 * the name as well, where it would otherwise remember that there is no such file. */
int fsat_unlink(int dir_fd, const char *name, int flags);

/* Remove `name` and everything below it. Never follows a link nor crosses a mount point. `budget`
 * (may be NULL) counts down per entry; at 0 the work stops with -EAGAIN, to be taken up again. */
int fsat_remove_tree(int dir_fd, const char *name, unsigned *budget);

#endif
