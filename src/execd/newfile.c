#include "execd/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/rand.h"
#include "base/util.h"
#include "execd/copyfd.h"
#include "execd/mkdirs.h"

#define MAX_LINKS 40 /* as the kernel has it */

int newfile_resolve(const char *path, char *out, struct err *e)
{
	char target[PATH_MAX], dir[PATH_MAX], next[PATH_MAX];

	if (strlen(path) >= PATH_MAX)
		return err_code(e, ENAMETOOLONG, "%s", path);
	memcpy(out, path, strlen(path) + 1);
	for (unsigned i = 0; i <= MAX_LINKS; i++) {
		ssize_t len = readlink(out, target, sizeof(target) - 1);

		if (len < 0 && (errno == EINVAL || errno == ENOENT || errno == ENOTDIR))
			return 0; /* no link; whatever is wrong shows when it is opened */
		if (len < 0)
			return err_sys(e, "%s", path);
		target[len] = '\0';
		/* not cleaned as text: ".." behind a link to a directory is the kernel's to say */
		if (path_dir(dir, sizeof(dir), out) < 0 ||
		    path_join(next, sizeof(next), dir, target) < 0)
			return err_code(e, ENAMETOOLONG, "%s", path);
		memcpy(out, next, sizeof(next));
	}
	return err_code(e, ELOOP, "%s", path);
}

int newfile_check_regular(const char *path, mode_t mode, struct err *e)
{
	if (S_ISREG(mode))
		return 0;
	if (S_ISDIR(mode))
		return err_set(e, EISDIR, "path is a directory: %s", path);
	return err_set(e, EMEDIUMTYPE, "path is not a regular file but a %s: %s",
		       S_ISFIFO(mode)   ? "FIFO"
		       : S_ISSOCK(mode) ? "socket"
		       : S_ISLNK(mode)  ? "link"
					: "device",
		       path);
}

static void temp_name(struct newfile *n)
{
	char id[17];

	rand_hex(id, 8);
	(void)snprintf(n->temp, sizeof(n->temp), ".osb-%s", id);
}

/* Nameless files get their name by way of /proc. */
static bool has_proc_path(int fd, char out[32])
{
	(void)snprintf(out, 32, "/proc/self/fd/%d", fd);
	return access(out, F_OK) == 0;
}

static int open_temp(struct newfile *n, mode_t mode)
{
	char proc[32];

	n->fd = openat(n->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
	if (n->fd >= 0 && has_proc_path(n->fd, proc))
		return 0;
	fd_close(&n->fd);
	temp_name(n);
	n->fd = openat(n->dir_fd, n->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		       mode);
	if (n->fd >= 0)
		return 0;
	n->temp[0] = '\0';
	return -errno;
}

int newfile_open(struct newfile *n, const char *path, bool hidden, struct err *e)
{
	char full[PATH_MAX], dir[PATH_MAX];
	const char *name;
	int r;

	*n = NEWFILE_INIT;
	r = newfile_resolve(path, full, e);
	if (r < 0)
		return r;
	if (lstat(full, &n->old) == 0) {
		r = newfile_check_regular(path, n->old.st_mode, e);
		if (r < 0)
			return r;
		n->exists = true;
	}
	name = path_base(full);
	if (path_dir(dir, sizeof(dir), full) < 0 ||
	    !span_copy(span_str(name), n->name, sizeof(n->name)))
		return err_code(e, ENAMETOOLONG, "%s", path);
	if (!path_is_name(span_str(name)))
		return err_set(e, EISDIR, "path is a directory: %s", path);
	n->dir = strdup(dir);
	if (n->dir == NULL)
		return err_code(e, ENOMEM, "%s", path);
	r = mkdirs(dir, 0755, &n->made, e);
	if (r < 0)
		return r;
	n->dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (n->dir_fd < 0)
		return err_sys(e, "open %s", dir);
	r = open_temp(n, hidden || n->exists ? 0600 : 0777);
	if (r < 0 && n->exists && (r == -EACCES || r == -EPERM || r == -EROFS) &&
	    faccessat(n->dir_fd, n->name, W_OK, AT_EACCESS) == 0) {
		n->in_place = true;
		n->fd = copyfd_spool(e);
		return n->fd < 0 ? n->fd : 0;
	}
	return r < 0 ? err_code(e, r, "write %s", path) : 0;
}

/* The old file's own traits, unless something else was asked for. */
static int apply_perm(struct newfile *n, const struct perm *want, struct err *e)
{
	struct perm p = *want;
	char old[PATH_MAX];
	int r;

	if (n->exists) {
		/* best effort: only root gives files away */
		if (fchown(n->fd, n->old.st_uid, n->old.st_gid) < 0 && errno != EPERM)
			return err_sys(e, "keep the owner");
		if (!p.has_mode) {
			p.mode = n->old.st_mode & 07777;
			p.has_mode = true;
		}
	}
	r = perm_apply_fd(&p, n->fd, e);
	if (r == 0 && n->exists && path_join(old, sizeof(old), n->dir, n->name) == 0)
		copyfd_attributes(old, n->fd, !want->has_mode);
	return r;
}

static int overwrite(struct newfile *n, const struct perm *p, bool sync, struct err *e)
{
	autofd int fd = openat(n->dir_fd, n->name,
			       O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "write %s", n->name);
	r = copyfd(n->fd, 0, COPYFD_ALL, fd, e);
	if (r == 0)
		r = perm_apply_fd(p, fd, e);
	if (r == 0 && sync && fsync(fd) < 0)
		r = err_sys(e, "sync %s", n->name);
	return r;
}

/* Give the nameless file a name; one that is taken is not replaced. */
static int give_name(struct newfile *n, const char *name)
{
	char proc[32];

	(void)has_proc_path(n->fd, proc);
	return linkat(AT_FDCWD, proc, n->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int put_in_place(struct newfile *n)
{
	int r;

	if (n->temp[0] == '\0') {
		r = n->exists ? -EEXIST : give_name(n, n->name);
		if (r != -EEXIST)
			return r;
		temp_name(n);
		r = give_name(n, n->temp);
		if (r < 0) {
			n->temp[0] = '\0';
			return r;
		}
	}
	if (renameat(n->dir_fd, n->temp, n->dir_fd, n->name) < 0)
		return -errno;
	n->temp[0] = '\0';
	return 0;
}

/* The directory was opened for its path only, which cannot be synced. */
static int sync_dir(const struct newfile *n, struct err *e)
{
	autofd int fd = openat(n->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		return err_sys(e, "sync %s", n->dir);
	return 0;
}

int newfile_commit(struct newfile *n, const struct perm *p, bool sync, struct err *e)
{
	int r;

	if (n->in_place)
		return overwrite(n, p, sync, e);
	r = apply_perm(n, p, e);
	if (r < 0)
		return r;
	if (sync && fsync(n->fd) < 0)
		return err_sys(e, "sync %s", n->name);
	r = put_in_place(n);
	if (r == -EBUSY && n->exists) /* a mount point */
		return overwrite(n, p, sync, e);
	if (r < 0)
		return err_code(e, r, "put %s in its place", n->name);
	n->made = 0;
	return sync ? sync_dir(n, e) : 0;
}

void newfile_abort(struct newfile *n)
{
	if (n->temp[0] != '\0' && n->dir_fd >= 0)
		(void)unlinkat(n->dir_fd, n->temp, 0);
	n->temp[0] = '\0';
	fd_close(&n->fd);
	fd_close(&n->dir_fd);
	if (n->dir != NULL && n->made > 0)
		mkdirs_undo(n->dir, n->made);
	n->made = 0;
	free(TAKE(n->dir));
}
