#include "sandbox/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/rootfs.h"
#include "sys/call.h"
#include "sys/fsat.h"

#define NAME "probe"

/* What it ended with: 0 or an errno. */
static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/* A user namespace with its ids, by way of a process that has it for a moment. */
static int open_userns(const struct ground_ids *ids, int *ret_fd, struct err *e)
{
	struct clone_args args = { .flags = CLONE_NEWUSER, .exit_signal = SIGCHLD };
	autofd int reading = -EBADF, writing = -EBADF, fd = -EBADF;
	int ends[2], r;
	char path[48];
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	reading = ends[0];
	writing = ends[1];
	pid = call_clone3(&args);
	if (pid < 0)
		return err_sys(e, "make a user namespace");
	if (pid == 0) {
		fd_close(&writing);
		_exit(read(reading, path, 1) < 0 ? errno : 0);
	}
	r = ground_map_ids(pid, ids, e);
	if (r == 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			r = err_sys(e, "open the user namespace");
	}
	fd_close(&writing);
	(void)wait_for(pid);
	if (r == 0)
		*ret_fd = TAKE_FD(fd);
	return r;
}

/* In a process of its own, with the rights of a sandbox's root. 0 or an errno. */
static int mount_and_write(const struct rootfs *fs, const struct msg_create *m, int userns_fd)
{
	struct err e = ERR_INIT;
	int r;

	if (setns(userns_fd, CLONE_NEWUSER) < 0 || setresgid(0, 0, 0) < 0 ||
	    setresuid(0, 0, 0) < 0 || unshare(CLONE_NEWNS) < 0)
		return errno;
	r = rootfs_mount(fs, m, &e);
	if (r < 0)
		return -r;
	/* one that cannot use its work directory is read-only, without a word */
	return mkdir("r/written", 0755) < 0 ? errno : 0;
}

static int make_upper(const struct state *s, int *ret_fd, struct err *e)
{
	autofd int upper = -EBADF;

	(void)fsat_remove_tree(s->trash_fd, NAME, NULL);
	upper = fsat_mkdir_open(s->trash_fd, NAME, 0700);
	if (upper < 0)
		return err_code(e, upper, "make a directory");
	if (mkdirat(upper, "up", 0755) < 0 || mkdirat(upper, "work", 0700) < 0)
		return err_sys(e, "make a directory");
	/* where an overlay notes that a directory hides the one below */
	if (fsetxattr(upper, "user.opensandbox", "y", 1, 0) < 0)
		return err_sys(e, "set a user xattr");
	*ret_fd = TAKE_FD(upper);
	return 0;
}

static int try(const struct state *s, const char *host_image, const struct ground *g, uint32_t base,
	       struct err *e)
{
	static const struct msg_create m = { .rootfs = MSG_ROOTFS_HOST };
	const struct ground_ids ids = ground_ids(g, base);
	autofd int upper = -EBADF, userns = -EBADF;
	struct rootfs fs;
	pid_t pid;
	int r;

	r = make_upper(s, &upper, e);
	if (r == 0)
		r = open_userns(&ids, &userns, e);
	if (r == 0)
		r = rootfs_open(&fs, s, &m, host_image, upper,
				(g->can & GROUND_RANGES) != 0 ? userns : -EBADF, e);
	if (r < 0)
		return r;
	pid = fork();
	if (pid == 0)
		_exit(mount_and_write(&fs, &m, userns));
	r = pid < 0 ? errno : wait_for(pid);
	rootfs_close(&fs);
	return r == 0 ? 0 : err_code(e, r, "mount an overlay");
}

/* Is it for good? A full disk or want of memory must not keep a runner from those who live. */
static bool is_lasting(int code)
{
	static const int codes[] = { EINVAL, ENOTSUP, ENODEV, ENOSYS, EPERM, EOVERFLOW, EROFS };

	for (size_t i = 0; i < ARRAY_LEN(codes); i++)
		if (code == codes[i])
			return true;
	return false;
}

int probe_rootfs(const struct state *s, const char *host_image, const struct ground *g,
		 uint32_t base, struct err *e)
{
	int r = try(s, host_image, g, base, e);

	(void)fsat_remove_tree(s->trash_fd, NAME, NULL);
	if (r < 0 && is_lasting(-r))
		return err_wrap(e, "sandboxes cannot live in '%s' (needed: %s)", s->path,
				(g->can & GROUND_RANGES) != 0
					? "Linux 5.19 with overlay, and a file system with "
					  "id-mapped mounts and user xattrs, such as ext4"
					: "Linux 5.14 with overlays in user namespaces, and a file "
					  "system with user xattrs");
	return 0;
}
