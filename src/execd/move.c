#include "execd/move.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/path.h"
#include "base/rand.h"
#include "base/util.h"
#include "execd/copyfd.h"
#include "execd/mkdirs.h"
#include "execd/rmtree.h"
#include "execd/walk.h"

static int rename_new(const char *src, const char *dest)
{
	struct stat st;

	if (renameat2(AT_FDCWD, src, AT_FDCWD, dest, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* a file system without that flag, or a directory into itself: the plain call knows */
	if (lstat(dest, &st) == 0)
		return -EEXIST;
	return rename(src, dest) < 0 ? -errno : 0;
}

/* Times, owner and mode of what was copied; not for links. */
static int keep_traits(int fd, const struct statx *st, struct err *e)
{
	const struct timespec times[2] = {
		{ .tv_sec = st->stx_atime.tv_sec, .tv_nsec = st->stx_atime.tv_nsec },
		{ .tv_sec = st->stx_mtime.tv_sec, .tv_nsec = st->stx_mtime.tv_nsec },
	};

	if (fchown(fd, st->stx_uid, st->stx_gid) < 0 && errno != EPERM)
		return err_sys(e, "keep the owner");
	if (fchmod(fd, st->stx_mode & 07777) < 0 || futimens(fd, times) < 0)
		return err_sys(e, "keep mode and times");
	return 0;
}

static int copy_file(const char *src, const char *dest, const struct statx *st, struct err *e)
{
	autofd int in = open(src, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	autofd int out = -EBADF;
	int r;

	if (in < 0)
		return err_sys(e, "open %s", src);
	out = open(dest, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out < 0)
		return err_sys(e, "make %s", dest);
	r = copyfd(in, 0, COPYFD_ALL, out, e);
	if (r == 0)
		r = keep_traits(out, st, e);
	if (r == 0)
		copyfd_attributes(src, out, true);
	if (r == 0 && fsync(out) < 0)
		r = err_sys(e, "sync %s", dest);
	return r;
}

static int copy_link(const char *src, const char *dest, const struct statx *st, struct err *e)
{
	char target[PATH_MAX];
	ssize_t len = readlink(src, target, sizeof(target) - 1);

	if (len < 0)
		return err_sys(e, "read link %s", src);
	target[len] = '\0';
	if (symlink(target, dest) < 0)
		return err_sys(e, "make %s", dest);
	if (lchown(dest, st->stx_uid, st->stx_gid) < 0 && errno != EPERM)
		return err_sys(e, "keep the owner");
	return 0;
}

static int copy_one(const char *src, const char *dest, const struct statx *st, struct err *e)
{
	mode_t mode = st->stx_mode;

	if (S_ISDIR(mode)) /* ours alone while it is filled */
		return mkdir(dest, 0700) < 0 ? err_sys(e, "make %s", dest) : 0;
	if (S_ISREG(mode))
		return copy_file(src, dest, st, e);
	if (S_ISLNK(mode))
		return copy_link(src, dest, st, e);
	if (mknod(dest, mode, makedev(st->stx_rdev_major, st->stx_rdev_minor)) < 0)
		return err_sys(e, "make %s", dest);
	return lchown(dest, st->stx_uid, st->stx_gid) < 0 ? err_sys(e, "keep the owner") : 0;
}

static int finish_dir(const char *dest, const struct statx *st, struct err *e)
{
	autofd int fd = open(dest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "open %s", dest);
	r = keep_traits(fd, st, e);
	return r == 0 && fsync(fd) < 0 ? err_sys(e, "sync %s", dest) : r;
}

/* Second round: a directory's times and mode count once nothing is put into it any more. The walk
 * goes from the top down, which is right for modes as we are its owner or root. */
static int finish_dirs(const char *src, const char *dest, struct err *e)
{
	char to[PATH_MAX];
	struct walk_entry it;
	struct walk w;
	int r;

	r = walk_open(&w, src, WALK_UNLIMITED, e);
	if (r < 0)
		return r;
	while ((r = walk_next(&w, &it, e)) > 0) {
		if (!S_ISDIR(it.st.stx_mode))
			continue;
		if (path_join(to, sizeof(to), dest, it.relative) < 0)
			r = err_code(e, ENAMETOOLONG, "%s", it.path);
		else
			r = finish_dir(to, &it.st, e);
		if (r < 0)
			break;
	}
	walk_close(&w);
	return r;
}

static int copy_tree(const char *src, const char *dest, struct err *e)
{
	struct walk_entry it;
	char to[PATH_MAX];
	struct statx st;
	struct walk w;
	int r;

	r = walk_stat(src, &st);
	if (r < 0)
		return err_code(e, r, "%s", src);
	r = copy_one(src, dest, &st, e);
	if (r < 0 || !S_ISDIR(st.stx_mode))
		return r;
	r = walk_open(&w, src, WALK_UNLIMITED, e);
	if (r < 0)
		return r;
	while ((r = walk_next(&w, &it, e)) > 0) {
		if (path_join(to, sizeof(to), dest, it.relative) < 0)
			r = err_code(e, ENAMETOOLONG, "%s", it.path);
		else
			r = copy_one(it.path, to, &it.st, e);
		if (r < 0)
			break;
	}
	walk_close(&w);
	if (r == 0)
		r = finish_dirs(src, dest, e);
	return r == 0 ? finish_dir(dest, &st, e) : r;
}

static int move_across(const char *src, const char *dest, struct err *e)
{
	char dir[PATH_MAX], name[32], temp[PATH_MAX], id[17];
	int r;

	if (path_below(dest, src))
		return err_code(e, EINVAL, "move %s into itself", src);
	rand_hex(id, 8);
	(void)snprintf(name, sizeof(name), ".osb-%s", id);
	if (path_dir(dir, sizeof(dir), dest) < 0 || path_join(temp, sizeof(temp), dir, name) < 0)
		return err_code(e, ENAMETOOLONG, "%s", dest);
	r = copy_tree(src, temp, e);
	if (r == 0) {
		r = rename_new(temp, dest);
		if (r < 0)
			r = err_code(e, r, "move to %s", dest);
	}
	if (r < 0) {
		(void)rmtree(temp, NULL);
		return r;
	}
	return rmtree(src, e);
}

int move(const char *src, const char *dest, struct err *e)
{
	char dir[PATH_MAX];
	unsigned made = 0;
	struct stat st;
	int r;

	if (lstat(src, &st) < 0)
		return err_sys(e, "%s", src);
	if (path_dir(dir, sizeof(dir), dest) < 0)
		return err_code(e, ENAMETOOLONG, "%s", dest);
	if (lstat(dest, &st) == 0)
		return err_set(e, EEXIST, "destination path already exists: %s", dest);
	r = mkdirs(dir, 0755, &made, e);
	if (r < 0)
		return r;
	r = rename_new(src, dest);
	if (r == -EEXIST)
		r = err_set(e, EEXIST, "destination path already exists: %s", dest);
	else if (r == -EXDEV)
		r = move_across(src, dest, e);
	else if (r < 0)
		r = err_code(e, r, "move %s to %s", src, dest);
	if (r < 0)
		mkdirs_undo(dir, made);
	return r;
}
