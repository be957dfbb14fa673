#include "sandbox/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/util.h"
#include "sandbox/image.h"
#include "sys/call.h"
#include "sys/fsat.h"

static int make_dirs(int fd, struct err *e)
{
	if (mkdirat(fd, "up", 0755) < 0 || mkdirat(fd, "work", 0700) < 0)
		return err_sys(e, "make a writable layer");
	return 0;
}

/* ---- project quota ---- */

#define QUOTA(cmd) ((unsigned)QCMD((unsigned)(cmd), PRJQUOTA))

/* Limits are counted in blocks of 1 KiB. One inode per 4 KiB keeps tiny files in bounds too. */
static int set_quota(int fd, uint32_t project, uint64_t bytes)
{
	struct dqblk q = {
		.dqb_bhardlimit = bytes / 1024,
		.dqb_ihardlimit = bytes / 4096 + 64,
		.dqb_valid = QIF_LIMITS,
	};

	return call_quotactl_fd(fd, QUOTA(Q_SETQUOTA), project, &q) < 0 ? -errno : 0;
}

static int set_project(int fd, uint32_t project)
{
	struct fsxattr x;

	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) < 0)
		return -errno;
	x.fsx_projid = project;
	x.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	return ioctl(fd, FS_IOC_FSSETXATTR, &x) < 0 ? -errno : 0;
}

static bool quota_enforced(int fd)
{
	struct dqinfo info;
	unsigned format;

	return call_quotactl_fd(fd, QUOTA(Q_GETFMT), 0, &format) == 0 &&
	       call_quotactl_fd(fd, QUOTA(Q_GETINFO), 0, &info) == 0;
}

enum disk_way disk_probe(const struct state *s, struct err *why)
{
	if (quota_enforced(s->boxes_fd))
		return DISK_QUOTA;
	if (image_probe(why) == 0)
		return DISK_IMAGE;
	(void)err_wrap(why, "disk limits: no project quota, and");
	return DISK_NONE;
}

static int make_image(const struct state *s, int box_fd, uint64_t bytes, int *ret_fd, struct err *e)
{
	autofd int file = -EBADF, mount = -EBADF;
	int r;

	r = image_make(s, box_fd, "disk", bytes, IMAGE_PASSING, &file, e);
	if (r == 0)
		r = image_mount(file, &mount, e);
	if (r == 0)
		r = make_dirs(mount, e);
	if (r == 0)
		*ret_fd = TAKE_FD(mount);
	return r;
}

int disk_make(const struct state *s, const char *id, uint64_t limit_bytes, enum disk_way way,
	      uint32_t project, int *ret_fd, struct err *e)
{
	autofd int box = -EBADF;
	int r;

	if (limit_bytes != 0 && way == DISK_NONE)
		return err_set(e, ENOTSUP, "this host cannot limit disk space");
	if (mkdirat(s->boxes_fd, id, 0700) < 0)
		return err_sys(e, "make the directory of '%s'", id);
	box = openat(s->boxes_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (box < 0)
		return err_sys(e, "open the directory of '%s'", id);
	if (limit_bytes != 0 && way == DISK_IMAGE)
		return make_image(s, box, limit_bytes, ret_fd, e);
	if (limit_bytes != 0) {
		r = set_quota(box, project, limit_bytes);
		if (r == 0)
			r = set_project(box, project);
		if (r < 0)
			return err_code(e, r, "set the disk limit");
	}
	r = make_dirs(box, e);
	if (r == 0)
		*ret_fd = TAKE_FD(box);
	return r;
}

uint64_t disk_used(const struct state *s, enum disk_way way, uint32_t project, int pid)
{
	char path[32];
	struct statvfs vfs;
	struct dqblk q;

	switch (way) {
	case DISK_NONE:
		break;
	case DISK_QUOTA:
		if (call_quotactl_fd(s->boxes_fd, QUOTA(Q_GETQUOTA), project, &q) == 0)
			return q.dqb_curspace;
		break;
	case DISK_IMAGE:
		/* an overlay answers for its writable layer */
		(void)snprintf(path, sizeof(path), "/proc/%d/root", pid);
		if (statvfs(path, &vfs) == 0)
			return (uint64_t)(vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize;
		break;
	}
	return UINT64_MAX;
}
