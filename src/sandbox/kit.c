#include "sandbox/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#include "base/path.h"
#include "base/span.h"
#include "base/util.h"
#include "sys/call.h"
#include "sys/mnt.h"

#define KIT_SIZE "80m" /* at most; execd may be in it, see program.h */

/* ---- leaving out what is not needed ---- */

static bool needed(const struct state *s, const char *at)
{
	static const char *const exact[] = { "/",    "/proc", "/sys", "/dev",  "/usr",
					     "/bin", "/sbin", "/lib", "/lib64" };

	for (size_t i = 0; i < ARRAY_LEN(exact); i++)
		if (strcmp(at, exact[i]) == 0)
			return true;
	/* the register of blocks is written to later on, see block.h */
	if (path_below(at, "/sys/fs/cgroup") || path_below("/run/opensandbox", at) ||
	    path_below(s->path, at) || path_below(at, s->path))
		return true;
	for (unsigned i = 0; i < s->n_allowed; i++)
		if (path_below(s->allowed[i].path, at) || path_below(at, s->allowed[i].path))
			return true;
	return false;
}

/* Where a line of mountinfo says the mount is: the fifth field, its octal escapes undone. */
static bool mount_point(struct span line, char *out, size_t size)
{
	struct span at = { 0 };
	size_t len = 0;

	for (unsigned i = 0; i < 5; i++)
		at = span_cut(&line, ' ');
	for (size_t i = 0; i < at.len; i++) {
		char c = at.p[i];

		if (c == '\\' && i + 3 < at.len) {
			c = (char)((at.p[i + 1] - '0') << 6 | (at.p[i + 2] - '0') << 3 |
				   (at.p[i + 3] - '0'));
			i += 3;
		}
		if (len + 1 >= size)
			return false;
		out[len++] = c;
	}
	out[len] = '\0';
	return len > 0;
}

int kit_strip(const struct state *s, struct err *e)
{
	char **found = NULL, at[4096];
	size_t n = 0, cap = 0, line_size = 0;
	autofree char *line = NULL;
	FILE *f;
	int r = 0;

	f = fopen("/proc/self/mountinfo", "re");
	if (f == NULL)
		return err_sys(e, "read the list of mounts");
	while (r == 0 && getline(&line, &line_size, f) > 0) {
		if (!mount_point(span_str(line), at, sizeof(at)) || needed(s, at))
			continue;
		if (n == cap) {
			char **more = reallocarray(found, cap = cap * 2 + 16, sizeof(*found));

			if (more == NULL) {
				r = err_code(e, ENOMEM, "read the list of mounts");
				break;
			}
			found = more;
		}
		found[n] = strdup(at);
		if (found[n++] == NULL)
			r = err_code(e, ENOMEM, "read the list of mounts");
	}
	(void)fclose(f);
	/* the youngest first: it lies on top. One that will not go does no harm but time. */
	while (n > 0) {
		if (r == 0 && found[n - 1] != NULL)
			(void)umount2(found[n - 1], MNT_DETACH | UMOUNT_NOFOLLOW);
		free(found[--n]);
	}
	free(found);
	return r;
}

/* ---- the parts ---- */

static const struct device {
	const char *path;
	unsigned major, minor;
} devices[] = {
	{ "dev/null", 1, 3 },   { "dev/zero", 1, 5 },    { "dev/full", 1, 7 },
	{ "dev/random", 1, 8 }, { "dev/urandom", 1, 9 }, { "dev/tty", 5, 0 },
};

static int make_node(const struct device *d, struct err *e)
{
	if (mknod(d->path, S_IFCHR | 0666, makedev(d->major, d->minor)) < 0 ||
	    chmod(d->path, 0666) < 0)
		return err_sys(e, "make %s", d->path);
	return 0;
}

/* The host's, if it is what it should be. */
static int bind_node(const struct device *d, struct err *e)
{
	autofd int place = -EBADF, fd = -EBADF;
	struct stat st;
	char from[16];
	int r;

	(void)snprintf(from, sizeof(from), "/%s", d->path);
	place = open(d->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (place < 0)
		return err_sys(e, "make %s", d->path);
	r = mnt_clone(AT_FDCWD, from, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, &fd, e);
	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode) || st.st_rdev != makedev(d->major, d->minor))
		return err_set(e, ENODEV, "%s of this host is not that device", from);
	return mnt_attach_at(fd, AT_FDCWD, d->path, e);
}

static int make_dev(bool nodes, struct err *e)
{
	static const struct {
		const char *path, *to;
	} links[] = {
		{ "dev/fd", "/proc/self/fd" },       { "dev/stdin", "/proc/self/fd/0" },
		{ "dev/stdout", "/proc/self/fd/1" }, { "dev/stderr", "/proc/self/fd/2" },
		{ "dev/ptmx", "pts/ptmx" },
	};
	static const char *const dirs[] = { "dev", "dev/pts", "dev/shm", "dev/mqueue" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_sys(e, "make %s", dirs[i]);
	for (size_t i = 0; i < ARRAY_LEN(devices); i++) {
		int r = nodes ? make_node(&devices[i], e) : bind_node(&devices[i], e);

		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(links); i++)
		if (symlink(links[i].to, links[i].path) < 0)
			return err_sys(e, "make %s", links[i].path);
	return 0;
}

/* A directory of the host's /sys, by way of an overlay: its inodes are not the host's. Locks are
 * kept with the inode, and whoever closes a file walks the list: thousands of them, taken by a
 * sandbox, would slow down every program of the host that asks how many processors there are. A
 * kernel that cannot put it under an overlay shows it as it is. */
static int show_sys(const char *from, int *ret_fd, struct err *e)
{
	const uint64_t attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
			       MOUNT_ATTR_NOEXEC;
	char lower[80];
	const struct mnt_opt opts[] = { { "lowerdir", lower }, { 0 } };

	(void)snprintf(lower, sizeof(lower), "%s:none", from);
	if (mnt_new("overlay", "sys", opts, (unsigned)attrs, ret_fd, NULL) == 0)
		return 0;
	return mnt_clone(AT_FDCWD, from, 0, attrs, -1, ret_fd, e);
}

/* What language runtimes look at: processors, memory nodes, the size of huge pages. */
static int make_sys(const struct pseudo_cgroups *cg, struct err *e)
{
	static const char *const dirs[] = {
		"sys",
		"sys/fs",
		"sys/fs/cgroup",
		"sys/devices",
		"sys/devices/system",
		"sys/devices/system/cpu",
		"sys/devices/system/node",
		"sys/kernel",
		"sys/kernel/mm",
		"sys/kernel/mm/transparent_hugepage",
		"sys/class",
	};
	static const char *const shown[] = {
		"sys/devices/system/cpu",
		"sys/devices/system/node",
		"sys/kernel/mm/transparent_hugepage",
	};

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_sys(e, "make %s", dirs[i]);
	for (size_t i = 0; cg->v1[i] != NULL; i++) {
		char path[48];

		(void)snprintf(path, sizeof(path), "sys/fs/cgroup/%s", cg->v1[i]);
		if (mkdir(path, 0755) < 0)
			return err_sys(e, "make %s", path);
	}
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		autofd int fd = -EBADF;
		char from[64];
		int r;

		(void)snprintf(from, sizeof(from), "/%s", shown[i]);
		if (access(from, F_OK) < 0)
			continue;
		r = show_sys(from, &fd, e);
		if (r == 0)
			r = mnt_attach_at(fd, AT_FDCWD, shown[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int make_places(struct err *e)
{
	static const char *const dirs[] = { "h", "l", "u", "r", "none", KIT_VOLUME };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdir(dirs[i], 0755) < 0)
			return err_sys(e, "make %s", dirs[i]);
	for (unsigned i = 0; i < MSG_MAX_LAYERS; i++) {
		char path[16];

		(void)snprintf(path, sizeof(path), "l/%u", i);
		if (mkdir(path, 0755) < 0)
			return err_sys(e, "make %s", path);
	}
	return 0;
}

/* ---- a place where sandboxes can be born ---- */

/* Can a user namespace be made from here? 0, or a negative errno. */
static int try_userns(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) < 0 ? errno : 0);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -EIO;
}

/* The kernel makes no user namespaces for who has been chrooted. So leave the chroot (entering a
 * mount namespace, be it one's own, puts one at its root) and come back to the same directory as a
 * root of its own. */
static int leave_chroot(struct err *e)
{
	autofd int tree = -EBADF, root = -EBADF, ns = -EBADF;

	tree = open_tree(AT_FDCWD, "/", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
	root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ns = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	if (tree < 0 || root < 0 || ns < 0 || setns(ns, CLONE_NEWNS) < 0)
		return err_sys(e, "leave the chroot");
	/* private before anything is attached: the host must not see it */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    move_mount(tree, "", root, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ||
	    fchdir(tree) < 0 || call_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
	    chdir("/") < 0)
		return err_sys(e, "make the chroot a root of its own");
	return 0;
}

int kit_enter(struct err *e)
{
	int r;

	if (unshare(CLONE_NEWNS) < 0)
		return err_sys(e, "leave the host's mount namespace");
	r = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (r < 0 && errno != EINVAL) /* that is a chroot which is no mount, see below */
		return err_sys(e, "make mounts private");
	r = try_userns();
	if (r == -EPERM) {
		r = leave_chroot(e);
		if (r < 0)
			return r;
		r = try_userns();
	}
	if (r < 0)
		return err_code(e, r,
				"this host makes no user namespaces (see user.max_user_namespaces, "
				"kernel.unprivileged_userns_clone and security modules)");
	return 0;
}

int kit_setup(const struct state *s, const struct pseudo_cgroups *cg, bool nodes, struct err *e)
{
	static const struct mnt_opt opts[] = { { "mode", "0755" }, { "size", KIT_SIZE }, { 0 } };
	autofd int fd = -EBADF;
	int r;

	r = mnt_new("tmpfs", "kit", opts, MOUNT_ATTR_NOSUID, &fd, e);
	if (r == 0)
		r = mnt_attach_at(fd, s->dir_fd, "mnt", e);
	if (r < 0)
		return r;
	if (fchdir(fd) < 0)
		return err_sys(e, "enter the kit");
	r = make_places(e);
	if (r == 0)
		r = make_dev(nodes, e);
	if (r == 0)
		r = make_sys(cg, e);
	return r;
}
