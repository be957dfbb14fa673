#include "sandbox/pseudo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "base/util.h"
#include "sys/fsat.h"
#include "sys/mnt.h"

#define ATTRS_QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* A real directory directly below the root, made if missing. An image in which it is a link is
 * refused: what we mount must be where the kernel's users will look for it (CVE-2019-19921). */
static int top_dir(int root_fd, const char *name, int *ret_fd, struct err *e)
{
	int fd;

	if (mkdirat(root_fd, name, 0755) < 0 && errno != EEXIST && errno != EROFS)
		return err_sys(e, "make /%s", name);
	fd = fsat_open_beneath(root_fd, name, O_PATH | O_DIRECTORY, 0);
	if (fd < 0)
		return err_code(e, fd, "/%s of the image is not a directory", name);
	*ret_fd = fd;
	return 0;
}

/* Open again what is mounted on top of `name` now. */
static int mounted_dir(int root_fd, const char *name)
{
	int fd = openat(root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 ? fd : -errno;
}

/* ---- /dev ---- */

static int mount_dev(int root_fd, uint64_t shm_bytes, bool tty_group, struct err *e)
{
	const struct mnt_opt pts_opts[] = {
		{ "newinstance", NULL },
		{ "mode", "0620" },
		{ "ptmxmode", "0666" },
		{ "max", "1024" },
		{ tty_group ? "gid" : NULL, "5" },
		{ 0 },
	};
	char size[32];
	const struct mnt_opt shm_opts[] = { { "mode", "1777" }, { "size", size }, { 0 } };
	autofd int at = -EBADF, dev = -EBADF, pts = -EBADF, shm = -EBADF, top = -EBADF;
	int r;

	(void)snprintf(size, sizeof(size), "%llu", (unsigned long long)shm_bytes);
	r = top_dir(root_fd, "dev", &at, e);
	if (r == 0)
		/* with the nodes, where they are mounts of their own */
		r = mnt_clone(AT_FDCWD, "dev", AT_RECURSIVE,
			      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, &dev,
			      e);
	if (r == 0)
		r = mnt_attach(dev, at, e);
	if (r < 0)
		return r;
	top = mounted_dir(root_fd, "dev");
	if (top < 0)
		return err_code(e, top, "open /dev");
	r = mnt_new("devpts", "devpts", pts_opts, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &pts, e);
	if (r == 0)
		r = mnt_attach_at(pts, top, "pts", e);
	if (r == 0)
		r = mnt_new("tmpfs", "shm", shm_opts, ATTRS_QUIET, &shm, e);
	if (r == 0)
		r = mnt_attach_at(shm, top, "shm", e);
	return r;
}

/* ---- /proc ---- */

/* Covered: they tell about the host, or about others on it. What only the host's root may use needs
 * no cover: root in here is somebody else. */
static const char *const masked[] = {
	"acpi",        "asound",        "bus",   "cmdline",  "config.gz",     "diskstats",
	"fs",          "interrupts",    "iomem", "ioports",  "irq",           "kallsyms",
	"kcore",       "key-users",     "keys",  "kmsg",     "kpagecgroup",   "kpagecount",
	"kpageflags",  "latency_stats", "locks", "modules",  "mtrr",          "partitions",
	"pressure",    "sched_debug",   "scsi",  "slabinfo", "sysrq-trigger", "timer_list",
	"timer_stats", "vmallocinfo",
};

static const char *const read_only[] = { "sys" };

/* Cover one entry of /proc with an empty directory or with the null device. Both come from the
 * kit, which no tenant can reach (CVE-2025-31133), and the place is held by a descriptor that is
 * known to be of procfs (CVE-2025-52881). */
static int mask(int proc_fd, const char *name, struct err *e)
{
	autofd int at = -EBADF, over = -EBADF;
	struct statfs fs;
	struct stat st;
	int r;

	at = openat(proc_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open /proc/%s", name);
	if (fstatfs(at, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC || fstat(at, &st) < 0 ||
	    S_ISLNK(st.st_mode))
		return err_set(e, ELOOP, "/proc/%s is not what it should be", name);
	if ((st.st_mode & 0007) == 0)
		return 0;
	r = mnt_clone(AT_FDCWD, S_ISDIR(st.st_mode) ? "none" : "dev/null", 0,
		      MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, -1, &over, e);
	return r < 0 ? r : mnt_attach(over, at, e);
}

static int freeze_proc(int proc_fd, const char *name, struct err *e)
{
	autofd int fd = -EBADF;
	int r;

	r = mnt_clone(proc_fd, name, 0, MOUNT_ATTR_RDONLY | ATTRS_QUIET, -1, &fd, e);
	return r < 0 ? r : mnt_attach_at(fd, proc_fd, name, e);
}

static int mount_proc(int root_fd, struct err *e)
{
	autofd int at = -EBADF, proc = -EBADF, top = -EBADF;
	int r;

	r = top_dir(root_fd, "proc", &at, e);
	if (r == 0)
		r = mnt_new("proc", "proc", NULL, ATTRS_QUIET, &proc, e);
	if (r == 0)
		r = mnt_attach(proc, at, e);
	if (r < 0)
		return r;
	top = mounted_dir(root_fd, "proc");
	if (top < 0)
		return err_code(e, top, "open /proc");
	/* no namespace can be made in here, whatever the filter says */
	(void)fsat_put(top, "sys/user/max_user_namespaces", "0");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(read_only); i++)
		r = freeze_proc(top, read_only[i], e);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(masked); i++)
		r = mask(top, masked[i], e);
	return r;
}

/* ---- /sys ---- */

static int mount_cgroups(int sys_fd, const struct pseudo_cgroups *cg, struct err *e)
{
	autofd int at = -EBADF;
	int r = 0;

	at = openat(sys_fd, "fs/cgroup", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at < 0)
		return err_sys(e, "open /sys/fs/cgroup");
	if (cg->v2) {
		autofd int fd = -EBADF;

		r = mnt_new("cgroup2", "cgroup", NULL, MOUNT_ATTR_RDONLY | ATTRS_QUIET, &fd, e);
		return r < 0 ? r : mnt_attach(fd, at, e);
	}
	/* the kit has a directory for each of these */
	for (size_t i = 0; r == 0 && cg->v1[i] != NULL; i++) {
		const struct mnt_opt ctl[] = { { cg->v1[i], NULL }, { 0 } };
		autofd int fd = -EBADF;

		r = mnt_new("cgroup", "cgroup", ctl, MOUNT_ATTR_RDONLY | ATTRS_QUIET, &fd, e);
		if (r == 0)
			r = mnt_attach_at(fd, at, cg->v1[i], e);
	}
	return r;
}

static int mount_sys(int root_fd, const struct pseudo_cgroups *cg, struct err *e)
{
	autofd int at = -EBADF, fd = -EBADF, top = -EBADF;
	int r;

	r = top_dir(root_fd, "sys", &at, e);
	if (r == 0)
		r = mnt_clone(AT_FDCWD, "sys", AT_RECURSIVE, MOUNT_ATTR_RDONLY | ATTRS_QUIET, -1,
			      &fd, e);
	if (r == 0)
		r = mnt_attach(fd, at, e);
	if (r < 0)
		return r;
	top = mounted_dir(root_fd, "sys");
	if (top < 0)
		return err_code(e, top, "open /sys");
	return mount_cgroups(top, cg, e);
}

int pseudo_mount(int root_fd, uint64_t shm_bytes, bool tty_group, const struct pseudo_cgroups *cg,
		 struct err *e)
{
	int r;

	r = mount_proc(root_fd, e);
	if (r == 0)
		r = mount_dev(root_fd, shm_bytes, tty_group, e);
	if (r == 0)
		r = mount_sys(root_fd, cg, e);
	return r;
}
