#include "sandbox/image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sys/mnt.h"

/* ---- formatting ---- */

static const char *const mkfs_places[] = { "/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
					   "/usr/sbin/mke2fs", "/sbin/mke2fs" };

static const char *find_mkfs(void)
{
	for (size_t i = 0; i < ARRAY_LEN(mkfs_places); i++)
		if (access(mkfs_places[i], X_OK) == 0)
			return mkfs_places[i];
	return NULL;
}

int image_probe(struct err *why)
{
	autofd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return err_sys(why, "no loop devices");
	if (find_mkfs() == NULL)
		return err_set(why, ENOENT, "no mkfs.ext4");
	return 0;
}

/* Runs mkfs on an open file, by its /proc name: no path of ours is ever parsed by it. */
static int run_mkfs(int fd, enum image_kind kind, struct err *e)
{
	static char features[][80] = {
		[IMAGE_PASSING] =
			"^has_journal,^resize_inode,sparse_super2,uninit_bg,metadata_csum",
		[IMAGE_LASTING] = "has_journal,^resize_inode,sparse_super2,uninit_bg,metadata_csum",
	};
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
		features[kind],
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

/* Is this the loop device of that file? Held open it cannot be taken down meanwhile. */
static bool is_loop_of(int loop_fd, const struct stat *file)
{
	struct loop_info64 info;

	return ioctl(loop_fd, LOOP_GET_STATUS64, &info) == 0 && info.lo_inode == file->st_ino &&
	       info.lo_device == file->st_dev;
}

/* The device that a file has already. Two of them would be two caches of one file system. */
static int find_loop(int file_fd, char *name, size_t name_size)
{
	DIR *dir = opendir("/sys/block");
	int found = -ENOENT;
	struct stat file;
	struct dirent *d;

	if (dir == NULL || fstat(file_fd, &file) < 0) {
		found = -errno;
		if (dir != NULL)
			(void)closedir(dir);
		return found;
	}
	while (found < 0 && (d = readdir(dir)) != NULL) {
		autofd int fd = -EBADF;

		if (strncmp(d->d_name, "loop", 4) != 0)
			continue;
		(void)snprintf(name, name_size, "/dev/%.20s", d->d_name);
		fd = open(name, O_RDWR | O_CLOEXEC);
		if (fd >= 0 && is_loop_of(fd, &file))
			found = TAKE_FD(fd);
	}
	(void)closedir(dir);
	return found;
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

static int open_template(int dir_fd, uint64_t bytes, enum image_kind kind, int *ret_fd,
			 struct err *e)
{
	autofd int fd = -EBADF;
	char name[32];
	int r;

	(void)snprintf(name, sizeof(name), "%llu%s", (unsigned long long)bytes,
		       kind == IMAGE_LASTING ? "-journal" : "");
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		bound_templates(dir_fd);
		(void)unlinkat(dir_fd, "new", 0);
		fd = openat(dir_fd, "new", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    0600);
		if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
			return err_sys(e, "make a disk image");
		r = run_mkfs(fd, kind, e);
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

/* ---- use ---- */

int image_make(const struct state *s, int dir_fd, const char *name, uint64_t bytes,
	       enum image_kind kind, int *ret_fd, struct err *e)
{
	autofd int from = -EBADF, file = -EBADF;
	int r;

	r = open_template(s->disks_fd, bytes, kind, &from, e);
	if (r < 0)
		return r;
	file = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (file < 0)
		return err_sys(e, "make a disk image");
	r = copy_sparse(from, file, bytes, e);
	if (r < 0) {
		(void)unlinkat(dir_fd, name, 0);
		return r;
	}
	*ret_fd = TAKE_FD(file);
	return 0;
}

static int mount_loop(const char *device, enum image_kind kind, int *ret_fd, struct err *e)
{
	/* A broken image is the tenant's loss, not the host's panic. And one that does not outlive
	 * the host waits for no disk, neither at its mount nor for an fsync inside. */
	const struct mnt_opt opts[] = {
		{ "errors", "remount-ro" },
		{ "discard", NULL },
		{ "noinit_itable", NULL },
		{ kind == IMAGE_PASSING ? "nobarrier" : NULL, NULL },
		{ 0 },
	};

	return mnt_new("ext4", device, opts, MOUNT_ATTR_NODEV, ret_fd, e);
}

int image_mount(int file_fd, int *ret_fd, struct err *e)
{
	autofd int loop = -EBADF;
	char name[32];

	loop = attach_loop(file_fd, name, sizeof(name), e);
	return loop < 0 ? loop : mount_loop(name, IMAGE_PASSING, ret_fd, e);
}

int image_mount_shared(int file_fd, int *ret_fd, struct err *e)
{
	autofd int loop = -EBADF;
	char name[32];

	loop = find_loop(file_fd, name, sizeof(name));
	if (loop == -ENOENT)
		loop = attach_loop(file_fd, name, sizeof(name), e);
	else if (loop < 0)
		return err_code(e, loop, "look for loop devices");
	return loop < 0 ? loop : mount_loop(name, IMAGE_LASTING, ret_fd, e);
}
