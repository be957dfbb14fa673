#include "sandbox/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/util.h"
#include "sys/call.h"
#include "sys/fsat.h"
#include "sys/mnt.h"

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

/* ---- a file system in a file ---- */

static const char *const mkfs_places[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
					   "/usr/sbin/mke2fs", "/sbin/mke2fs" };

static const char *find_mkfs(void)
{
	for (size_t i = 0; i < ARRAY_LEN(mkfs_places); i++)
		if (access(mkfs_places[i], X_OK) == 0)
			return mkfs_places[i];
	return NULL;
}

enum disk_way disk_probe(const struct state *s, struct err *why)
{
	autofd int control = -EBADF;

	if (quota_enforced(s->boxes_fd))
		return DISK_QUOTA;
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0) {
		(void)err_sys(why, "disk limits: no project quota, and no loop devices");
		return DISK_NONE;
	}
	if (find_mkfs() == NULL) {
		(void)err_set(why, ENOENT, "disk limits: no project quota, and no mkfs.ext4");
		return DISK_NONE;
	}
	return DISK_IMAGE;
}

/* Runs mkfs on an open file, by its /proc name: no path of ours is ever parsed by it. */
static int run_mkfs(int fd, struct err *e)
{
	const char *program = find_mkfs();
	char *argv[] = {
		(char[]){ "mkfs.ext4" },
		(char[]){ "-q" },
		(char[]){ "-F" },
		(char[]){ "-b" },
		(char[]){ "4096" },
		(char[]){ "-I" },
		(char[]){ "256" },
		(char[]){ "-m" },
		(char[]){ "0" },
		(char[]){ "-O" },
		(char[]){ "^has_journal,^resize_inode,sparse_super2,uninit_bg,metadata_csum" },
		(char[]){ "-E" },
		(char[]){ "lazy_itable_init=1,nodiscard,root_owner=0:0,num_backup_sb=0" },
		(char[]){ "/proc/self/fd/9" },
		NULL,
	};
	char *envp[] = { (char[]){ "MKE2FS_CONFIG=/dev/null" }, NULL };
	int status;
	pid_t pid;

	if (program == NULL)
		return err_set(e, ENOTSUP, "mkfs.ext4 is not installed");
	pid = fork();
	if (pid < 0)
		return err_sys(e, "start mkfs");
	if (pid == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0 ||
		    dup2(fd, 9) < 0)
			_exit(126);
		(void)execve(program, argv, envp);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for mkfs");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, EIO, "mkfs failed with status %d", status);
	return 0;
}

/* A loop device for the file; it vanishes when the last user of it does. */
static int attach_loop(int file_fd, char *name, size_t name_size, struct err *e)
{
	struct loop_config config = {
		.fd = (uint32_t)file_fd,
		.block_size = 4096,
		.info.lo_flags = LO_FLAGS_AUTOCLEAR,
	};
	autofd int control = -EBADF;

	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control < 0)
		return err_sys(e, "open /dev/loop-control");
	/* another program may take the free one first: then there is a next */
	for (unsigned tries = 0; tries < 64; tries++) {
		int n = ioctl(control, LOOP_CTL_GET_FREE);
		autofd int fd = -EBADF;

		if (n < 0)
			return err_sys(e, "find a free loop device");
		(void)snprintf(name, name_size, "/dev/loop%d", n);
		fd = open(name, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return err_sys(e, "open %s", name);
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return TAKE_FD(fd);
		if (errno != EBUSY)
			return err_sys(e, "set up %s", name);
	}
	return err_set(e, EBUSY, "no loop device to be had");
}

/* ---- formatted once, copied from then on ---- */

#define MAX_TEMPLATES 64

/* Sizes are the clients' choice, so the store of templates starts anew when it gets too big. */
static void bound_templates(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;
	unsigned n = 0;

	if (dir == NULL) {
		fd_close(&fd);
		return;
	}
	while (readdir(dir) != NULL)
		n++;
	rewinddir(dir);
	while (n > MAX_TEMPLATES && (d = readdir(dir)) != NULL)
		(void)unlinkat(dir_fd, d->d_name, 0);
	(void)closedir(dir);
}

static int open_template(int dir_fd, uint64_t bytes, int *ret_fd, struct err *e)
{
	autofd int fd = -EBADF;
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "%llu", (unsigned long long)bytes);
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		bound_templates(dir_fd);
		(void)unlinkat(dir_fd, "new", 0);
		fd = openat(dir_fd, "new", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
			return err_sys(e, "make a disk image");
		r = run_mkfs(fd, e);
		if (r < 0)
			return r;
		if (renameat(dir_fd, "new", dir_fd, name) < 0)
			return err_sys(e, "name a disk image");
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Only what has been written; the rest is a hole in both. */
static int copy_sparse(int from, int to, uint64_t bytes, struct err *e)
{
	off_t at = 0;

	if (ftruncate(to, (off_t)bytes) < 0)
		return err_sys(e, "make a disk image");
	for (;;) {
		off_t data = lseek(from, at, SEEK_DATA), out;

		if (data < 0)
			return errno == ENXIO ? 0 : err_sys(e, "copy a disk image");
		at = lseek(from, data, SEEK_HOLE);
		if (at < 0)
			return err_sys(e, "copy a disk image");
		out = data;
		while (data < at) {
			ssize_t n = copy_file_range(from, &data, to, &out, (size_t)(at - data), 0);

			if (n <= 0)
				return err_sys(e, "copy a disk image");
		}
	}
}

static int make_image(const struct state *s, int box_fd, uint64_t bytes, int *ret_fd, struct err *e)
{
	/* a broken image is the tenant's loss, not the host's panic */
	static const struct mnt_opt opts[] = {
		{ "errors", "remount-ro" }, { "discard", NULL }, { "noinit_itable", NULL }, { 0 }
	};
	autofd int from = -EBADF, file = -EBADF, loop = -EBADF, mount = -EBADF;
	char name[32];
	int r;

	r = open_template(s->disks_fd, bytes, &from, e);
	if (r < 0)
		return r;
	file = openat(box_fd, "disk", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(e, "make a disk image");
	r = copy_sparse(from, file, bytes, e);
	if (r < 0)
		return r;
	loop = attach_loop(file, name, sizeof(name), e);
	if (loop < 0)
		return loop;
	r = mnt_new("ext4", name, opts, MOUNT_ATTR_NODEV, &mount, e);
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
