#include "sys/mnt.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/util.h"

int mnt_new(const char *type, const char *source, const struct mnt_opt *opts, unsigned attrs,
	    int *ret_fd, struct err *e)
{
	autofd int fs = -EBADF;
	int fd;

	fs = fsopen(type, FSOPEN_CLOEXEC);
	if (fs < 0)
		return err_sys(e, "open file system type %s", type);
	if (source != NULL && fsconfig(fs, FSCONFIG_SET_STRING, "source", source, 0) < 0)
		return err_sys(e, "set source of %s", type);
	for (; opts != NULL && opts->key != NULL; opts++) {
		int r = opts->value == NULL
				? fsconfig(fs, FSCONFIG_SET_FLAG, opts->key, NULL, 0)
				: fsconfig(fs, FSCONFIG_SET_STRING, opts->key, opts->value, 0);

		if (r < 0)
			return err_sys(e, "set %s=%s of %s", opts->key,
				       opts->value != NULL ? opts->value : "", type);
	}
	if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return err_sys(e, "make a %s", type);
	fd = fsmount(fs, FSMOUNT_CLOEXEC, attrs);
	if (fd < 0)
		return err_sys(e, "mount a %s", type);
	*ret_fd = fd;
	return 0;
}

int mnt_clone(int dir_fd, const char *path, unsigned flags, uint64_t attrs, int userns_fd,
	      int *ret_fd, struct err *e)
{
	struct mount_attr attr = { .attr_set = attrs, .propagation = MS_PRIVATE };
	unsigned at = AT_EMPTY_PATH | (flags & AT_RECURSIVE);
	autofd int fd = -EBADF;

	fd = open_tree(dir_fd, path,
		       OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW | at);
	/* Kernels before 6.15 do not clone a mount that is attached nowhere; then it is ours, and
	 * gets the attributes itself. One that is attached cannot be id-mapped, so none of those is
	 * changed by mistake. */
	if (fd < 0 && errno == EINVAL && path[0] == '\0' && userns_fd >= 0)
		fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "clone mount of '%s'", path);
	if (userns_fd >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (unsigned)userns_fd;
	}
	if (mount_setattr(fd, "", at, &attr, sizeof(attr)) < 0)
		return err_sys(e, "set mount attributes of '%s'", path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int mnt_attach(int mount_fd, int at_fd, struct err *e)
{
	if (move_mount(mount_fd, "", at_fd, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) <
	    0)
		return err_sys(e, "attach mount");
	return 0;
}

int mnt_attach_at(int mount_fd, int dir_fd, const char *path, struct err *e)
{
	if (move_mount(mount_fd, "", dir_fd, path, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return err_sys(e, "attach mount at '%s'", path);
	return 0;
}
