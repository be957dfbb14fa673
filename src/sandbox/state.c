#include "sandbox/state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/path.h"
#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

/* STATE itself may belong to the server, who could then put something else in the place of what is
 * ours. So whatever we rely on must be ours alone; a file may have one name only. */
static bool is_ours(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0022) == 0 &&
	       (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink == 1));
}

int state_open_file(const struct state *s, const char *name, int *ret_fd, struct err *e)
{
	autofd int fd = openat(s->dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_sys(e, "open '%s/%s'", s->path, name);
	if (!is_ours(fd))
		return err_set(e, EPERM, "'%s/%s' is not ours", s->path, name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Ask ext4 (others do not know it) to put what is made in here into different parts of the disk. It
 * does not use numbers of files again within seconds of their end and looks past each of them:
 * where many sandboxes come and go in one part, that takes longer than all the rest of a create. */
static void spread(int dir_fd)
{
	unsigned int flags = 0;

	if (ioctl(dir_fd, FS_IOC_GETFLAGS, &flags) < 0 || (flags & FS_TOPDIR_FL) != 0)
		return;
	flags |= FS_TOPDIR_FL;
	(void)ioctl(dir_fd, FS_IOC_SETFLAGS, &flags);
}

int state_open(struct state *s, const char *path, struct err *e)
{
	const struct {
		const char *name;
		mode_t mode;
		int *fd;
		bool theirs; /* the server's to fill */
	} dirs[] = {
		/* Closed to users of the host: files in there have the owners and modes that
		 * sandboxes and images give them. A program that runs as its owner, root, would do
		 * so for anybody, and a /tmp that all may write to is that of every sandbox. */
		{ "layers", 0750, &s->layers_fd, true },
		{ "volumes", 0700, &s->volumes_fd, true },
		{ "sandboxes", 0700, &s->boxes_fd, false },
		{ "sock", 0711, &s->sock_fd, false },
		{ "trash", 0700, &s->trash_fd, false },
		{ "host", 0700, &s->host_fd, false },
		{ "disks", 0700, &s->disks_fd, false },
		{ "volume-disks", 0700, &s->volume_disks_fd, false },
	};
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int mnt, r;

	if (path_clean(s->path, sizeof(s->path), "/", path) < 0 || strcmp(s->path, path) != 0)
		return err_set(e, EINVAL, "state directory '%s' must be absolute and plain", path);
	s->dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir_fd < 0)
		return err_sys(e, "open state directory '%s'", path);
	r = state_open_file(s, "lock", &s->lock_fd, e);
	if (r < 0)
		return r;
	/* of the process, not of the descriptor: what we clone must not hold it after us */
	if (fcntl(s->lock_fd, F_SETLK, &whole) < 0)
		return err_set(e, EBUSY, "another runner works on '%s'", path);
	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		*dirs[i].fd = fsat_mkdir_open(s->dir_fd, dirs[i].name, dirs[i].mode);
		if (*dirs[i].fd < 0)
			return err_code(e, *dirs[i].fd, "open '%s/%s'", path, dirs[i].name);
		if (!dirs[i].theirs && !is_ours(*dirs[i].fd))
			return err_set(e, EPERM, "'%s/%s' is not ours", path, dirs[i].name);
	}
	spread(s->boxes_fd);
	mnt = fsat_mkdir_open(s->dir_fd, "mnt", 0700);
	if (mnt < 0)
		return err_code(e, mnt, "open '%s/mnt'", path);
	(void)close(mnt);
	return 0;
}

int state_allow(struct state *s, const char *path, struct err *e)
{
	unsigned i = s->n_allowed;

	if (i == STATE_MAX_ALLOWED)
		return err_set(e, E2BIG, "too many allowed paths");
	if (path_clean(s->allowed[i].path, MSG_PATH_SIZE, "/", path) < 0 ||
	    strcmp(s->allowed[i].path, path) != 0)
		return err_set(e, EINVAL, "allowed path '%s' must be absolute and plain", path);
	s->allowed[i].fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (s->allowed[i].fd < 0)
		return err_sys(e, "open allowed path '%s'", path);
	s->n_allowed++;
	return 0;
}

int state_open_layer(const struct state *s, const char *name, int *ret_fd, struct err *e)
{
	int fd = fsat_open_beneath(s->layers_fd, name, O_PATH | O_DIRECTORY, 0);

	if (fd < 0)
		return err_code(e, fd, "open layer '%s'", name);
	*ret_fd = fd;
	return 0;
}

int state_open_host(const struct state *s, const char *path, int *ret_fd, struct err *e)
{
	for (unsigned i = 0; i < s->n_allowed; i++) {
		const char *rest;
		int fd;

		if (!path_below(path, s->allowed[i].path))
			continue;
		rest = path + strlen(s->allowed[i].path);
		while (*rest == '/')
			rest++;
		fd = fsat_open_beneath(s->allowed[i].fd, *rest != '\0' ? rest : ".",
				       O_PATH | O_DIRECTORY, 0);
		if (fd < 0)
			return err_code(e, fd, "open host path '%s'", path);
		*ret_fd = fd;
		return 0;
	}
	return err_set(e, EPERM, "host path '%s' is not on the allow-list", path);
}
