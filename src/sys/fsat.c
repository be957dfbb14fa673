#include "sys/fsat.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/call.h"

static int open_how(int dir_fd, const char *path, int flags, mode_t mode, unsigned resolve)
{
	struct open_how how = {
		.flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
		.mode = (flags & O_CREAT) != 0 ? mode : 0,
		.resolve = resolve,
	};
	int fd;

	/* a rename elsewhere in the tree makes a scoped lookup fail with EAGAIN */
	for (unsigned i = 0; i < 64; i++) {
		fd = call_openat2(dir_fd, path, &how);
		if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
			break;
	}
	return fd >= 0 ? fd : -errno;
}

int fsat_open_beneath(int dir_fd, const char *path, int flags, mode_t mode)
{
	return open_how(dir_fd, path, flags, mode,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV |
				RESOLVE_NO_MAGICLINKS);
}

int fsat_open_in_root(int root_fd, const char *path, int flags, mode_t mode)
{
	return open_how(root_fd, path, flags, mode, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int fsat_mkdirs_in_root(int root_fd, const char *path)
{
	struct span rest = span_str(path);
	autofd int at = -EBADF;
	char so_far[4096];
	size_t len = 0;

	if (rest.len + 2 > sizeof(so_far))
		return -ENAMETOOLONG;
	at = fsat_open_in_root(root_fd, "/", O_PATH | O_DIRECTORY, 0);
	if (at < 0)
		return at;
	/* Each prefix is resolved from the root again, so that a link on the way is taken as the
	 * sandbox would take it, and only its own directory is where mkdir happens. */
	while (rest.p != NULL) {
		struct span name = span_cut(&rest, '/');
		char component[256];
		int next;

		if (name.len == 0 || span_is(name, "."))
			continue;
		if (span_is(name, "..") || !span_copy(name, component, sizeof(component)))
			return -EINVAL;
		so_far[len++] = '/';
		memcpy(so_far + len, name.p, name.len);
		len += name.len;
		so_far[len] = '\0';

		next = fsat_open_in_root(root_fd, so_far, O_PATH | O_DIRECTORY, 0);
		if (next == -ENOENT) {
			if (mkdirat(at, component, 0755) < 0 && errno != EEXIST)
				return -errno;
			next = fsat_open_in_root(root_fd, so_far, O_PATH | O_DIRECTORY, 0);
		}
		if (next < 0)
			return next;
		fd_close(&at);
		at = next;
	}
	return TAKE_FD(at);
}

int fsat_mkdir_open(int dir_fd, const char *name, mode_t mode)
{
	int fd;

	if (mkdirat(dir_fd, name, mode) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd : -errno;
}

ssize_t fsat_read(int dir_fd, const char *name, char *buf, size_t size)
{
	autofd int fd = -EBADF;
	size_t len = 0;

	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(fd, buf + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		len += (size_t)n;
		if (len == size)
			return -EFBIG;
		if (n == 0)
			break;
	}
	buf[len] = '\0';
	return (ssize_t)len;
}

int fsat_read_u64(int dir_fd, const char *name, uint64_t *ret)
{
	char text[64];
	ssize_t n;

	n = fsat_read(dir_fd, name, text, sizeof(text));
	if (n < 0)
		return (int)n;
	if (n > 0 && text[n - 1] == '\n')
		n--;
	return span_u64(span_of(text, (size_t)n), ret) ? 0 : -EINVAL;
}

int fsat_put(int dir_fd, const char *name, const char *value)
{
	autofd int fd = -EBADF;
	size_t len = strlen(value);
	ssize_t n;

	fd = openat(dir_fd, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	do
		n = write(fd, value, len);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	return (size_t)n == len ? 0 : -EIO;
}

int fsat_putf(int dir_fd, const char *name, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof(text))
		return -EMSGSIZE;
	return fsat_put(dir_fd, name, text);
}

int fsat_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fsat_read_all(int fd, void *data, size_t len)
{
	char *p = data;

	while (len > 0) {
		ssize_t n = read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EPIPE;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int fsat_replace(int dir_fd, const char *name, const void *data, size_t len, mode_t mode)
{
	autofd int fd = -EBADF;
	char temp[256];
	int r;

	r = snprintf(temp, sizeof(temp), ".%s.new", name);
	if (r < 0 || (size_t)r >= sizeof(temp))
		return -ENAMETOOLONG;
	(void)unlinkat(dir_fd, temp, 0);
	fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd < 0)
		return -errno;
	r = fsat_write_all(fd, data, len);
	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, temp, 0);
	return r;
}

/* Take one from the budget; false when it is used up. */
static bool spend(unsigned *budget)
{
	if (budget == NULL)
		return true;
	if (*budget == 0)
		return false;
	(*budget)--;
	return true;
}

static bool is_dot(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/*
 * Depth is the tree's choice, not ours, so there is no recursion: a directory met below another is
 * first moved up beside the tree's root (rename is cheap, and shortens every path to one name),
 * and taken care of when its turn comes.
 */
static int empty_dir(int dir_fd, const char *name, int top_fd, unsigned *serial, unsigned *budget)
{
	autofd int fd = -EBADF;
	struct dirent *d;
	DIR *dir;
	int r = 0;

	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0700, 0) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (dir == NULL)
		return -errno;
	(void)TAKE_FD(fd); /* the DIR owns it */

	for (;;) {
		errno = 0;
		d = readdir(dir);
		if (d == NULL) {
			r = -errno;
			break;
		}
		if (is_dot(d->d_name))
			continue;
		if (!spend(budget)) {
			r = -EAGAIN;
			break;
		}
		if (unlinkat(dirfd(dir), d->d_name, 0) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM) {
			r = -errno;
			break;
		}
		if (unlinkat(dirfd(dir), d->d_name, AT_REMOVEDIR) == 0)
			continue;
		if (errno == ENOTEMPTY || errno == EEXIST) {
			char flat[32];

			do {
				(void)snprintf(flat, sizeof(flat), ".rm-%u", (*serial)++);
				r = renameat2(dirfd(dir), d->d_name, top_fd, flat,
					      1 /* RENAME_NOREPLACE */);
			} while (r < 0 && errno == EEXIST);
			if (r == 0)
				continue;
		}
		r = -errno;
		break;
	}
	(void)closedir(dir);
	return r;
}

int fsat_unlink(int dir_fd, const char *name, int flags)
{
	/* of what somebody still holds the kernel drops the name, of anything else it keeps it */
	int held = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	int r = unlinkat(dir_fd, name, flags) < 0 ? -errno : 0;

	if (held >= 0)
		(void)close(held);
	return r;
}

int fsat_remove_tree(int dir_fd, const char *name, unsigned *budget)
{
	unsigned serial = 0;
	autofd int top = -EBADF;
	DIR *dir;
	int r = 0;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	top = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (top < 0)
		return -errno;

	/* sweep over the top directory until it has nothing left; each pass flattens one level */
	for (bool again = true; again && r == 0;) {
		int dup_fd = openat(top, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct dirent *d;

		again = false;
		dir = dup_fd >= 0 ? fdopendir(dup_fd) : NULL;
		if (dir == NULL) {
			r = -errno;
			if (dup_fd >= 0)
				(void)close(dup_fd);
			break;
		}
		while (r == 0 && (d = readdir(dir)) != NULL) {
			if (is_dot(d->d_name))
				continue;
			if (!spend(budget)) {
				r = -EAGAIN;
				break;
			}
			again = true;
			if (unlinkat(top, d->d_name, 0) == 0)
				continue;
			if (errno != EISDIR && errno != EPERM) {
				r = -errno;
				break;
			}
			r = empty_dir(top, d->d_name, top, &serial, budget);
			if (r == 0 && unlinkat(top, d->d_name, AT_REMOVEDIR) < 0)
				r = -errno;
		}
		(void)closedir(dir);
	}
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}
