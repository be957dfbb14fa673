/* Files, mounts, devices. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* CVE-2019-5736: PID 1's program is the host's copy of it. */
static int e01(char **argv)
{
	char link[256];
	int bad = 0;

	(void)argv;
	bad |= cannot_open("/proc/1/exe", O_RDONLY);
	bad |= cannot_open("/proc/1/exe", O_WRONLY);
	bad |= cannot_open("/proc/1/exe", O_RDWR | O_TRUNC);
	bad |= refused("readlink /proc/1/exe", readlink("/proc/1/exe", link, sizeof(link)));
	/* our own program is one that was handed in, too */
	bad |= cannot_open("/proc/self/exe", O_WRONLY);
	bad |= cannot_open("/proc/self/exe", O_RDWR | O_TRUNC);
	return bad;
}

/* CVE-2024-21626: a directory of the host left open. */
static int e02(char **argv)
{
	int bad = 0, tried = 0;
	char path[64];

	(void)argv;
	for (int pid = 0; pid < 2; pid++)
		for (int fd = 0; fd < 256; fd++) {
			snprintf(path, sizeof(path), "/proc/%s/fd/%d", pid ? "1" : "self", fd);
			tried++;
			if (chdir(path) == 0)
				bad |= refused(path, 0);
		}
	errno = ENOTDIR;
	refused("chdir to every descriptor", tried == 512 ? -1 : 0);
	bad |= refused("chdir /proc/1/cwd", chdir("/proc/1/cwd"));
	bad |= refused("chdir /proc/1/root", chdir("/proc/1/root"));
	return bad;
}

static int e03(char **argv)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	int bad = 0, n = 0;

	(void)argv;
	if (d == NULL)
		return refused("list descriptors", 0);
	while ((e = readdir(d)) != NULL) {
		int fd = atoi(e->d_name);

		if (e->d_name[0] == '.' || fd == dirfd(d))
			continue;
		n++;
		if (fd > 2) {
			char path[64], to[256] = "";

			snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
			if (readlink(path, to, sizeof(to) - 1) < 0)
				perror(path);
			printf("WORKED: inherited %d -> %s\n", fd, to);
			bad = 1;
		}
	}
	closedir(d);
	printf("refused: %d descriptors and no more\n", n);
	bad |= refused("list PID 1's descriptors", opendir("/proc/1/fd") ? 0 : -1);
	return bad;
}

/* CVE-2025-31133: /dev/null made a link, so that a mask becomes a window. */
static int e04(char **argv)
{
	static const char *const masked[] = { "/proc/keys",       "/proc/key-users",
					      "/proc/kallsyms",   "/proc/config.gz",
					      "/proc/interrupts", "/proc/cmdline",
					      "/proc/iomem",      "/proc/modules" };
	static const char *const closed[] = { "/proc/kcore",         "/proc/kmsg",
					      "/proc/sysrq-trigger", "/proc/slabinfo",
					      "/proc/vmallocinfo",   "/proc/kpageflags",
					      "/proc/timer_list" };
	char buf[16];
	int bad = 0;

	bad |= refused("unlink /dev/null", unlink("/dev/null"));
	bad |= refused("rename /dev/null", rename("/dev/null", "/dev/old"));
	bad |= refused("link in /dev", symlink(argv[0], "/dev/x"));
	bad |= refused("mount over /dev/null", mount(argv[0], "/dev/null", NULL, MS_BIND, NULL));
	bad |= refused("unmount a mask", umount2("/proc/keys", MNT_DETACH));
	for (size_t i = 0; i < sizeof(masked) / sizeof(masked[0]); i++) {
		int fd = open(masked[i], O_RDONLY);
		ssize_t n = fd >= 0 ? read(fd, buf, sizeof(buf)) : 0;

		if (fd >= 0)
			close(fd);
		if (n > 0)
			bad |= refused(masked[i], 0);
		else
			printf("refused: nothing to read in %s\n", masked[i]);
	}
	for (size_t i = 0; i < sizeof(closed) / sizeof(closed[0]); i++) {
		int fd = open(closed[i], O_RDWR | O_NONBLOCK);

		/* a mask is the null device: open for writing works and leads nowhere */
		if (fd >= 0) {
			struct stat st;

			if (fstat(fd, &st) < 0 || st.st_rdev != makedev(1, 3))
				bad |= refused(closed[i], 0);
			close(fd);
		} else {
			printf("refused: open %s: %s\n", closed[i], strerror(errno));
		}
	}
	return bad;
}

/* Handles name files past every mount and permission. */
static int e12(char **argv)
{
	static const char *const at[] = { "/", "/usr", "/etc/hosts", "/dev/null", "/proc" };
	struct {
		struct file_handle h;
		unsigned char data[128];
	} f;
	int bad = 0, mount_id;

	(void)argv;
	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		int dir = open(at[i], O_RDONLY);

		memset(&f, 0, sizeof(f));
		f.h.handle_bytes = 128;
		bad |= refused("name_to_handle_at",
			       name_to_handle_at(AT_FDCWD, at[i], &f.h, &mount_id, 0));
		/* inode 2 of an ext file system is its root */
		for (int type = 1; type <= 2; type++) {
			f.h.handle_bytes = 8;
			f.h.handle_type = type;
			memset(f.data, 0, sizeof(f.data));
			f.data[0] = 2;
			bad |= refused("open_by_handle_at", open_by_handle_at(dir, &f.h, O_RDONLY));
		}
		if (dir >= 0)
			close(dir);
	}
	return bad;
}

static int e13(char **argv)
{
	static const struct {
		const char *name;
		mode_t type;
		unsigned major, minor;
	} nodes[] = {
		{ "mem", S_IFCHR, 1, 1 },     { "kmsg", S_IFCHR, 1, 11 },
		{ "fuse", S_IFCHR, 10, 229 }, { "kvm", S_IFCHR, 10, 232 },
		{ "vda", S_IFBLK, 254, 0 },   { "sda", S_IFBLK, 8, 0 },
		{ "loop0", S_IFBLK, 7, 0 },   { "loop-control", S_IFCHR, 10, 237 },
		{ "null", S_IFCHR, 1, 3 },
	};
	static const char *const dirs[] = { "/tmp", "/dev/shm", "/dev", "/home/sandbox" };
	char path[128], what[200];
	int bad = 0;

	(void)argv;
	for (size_t d = 0; d < sizeof(dirs) / sizeof(dirs[0]); d++)
		for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
			snprintf(path, sizeof(path), "%s/n-%s", dirs[d], nodes[i].name);
			snprintf(what, sizeof(what), "mknod %s", path);
			bad |= refused(what, mknod(path, nodes[i].type | 0666,
						   makedev(nodes[i].major, nodes[i].minor)));
		}
	for (size_t i = 0; i + 1 < sizeof(nodes) / sizeof(nodes[0]); i++) {
		snprintf(path, sizeof(path), "/dev/%s", nodes[i].name);
		bad |= cannot_open(path, O_RDONLY);
	}
	return bad;
}

/* argv[0]: a path that exists on the host only */
static int e16(char **argv)
{
	static const char *const ways[] = { "root", "cwd", "cwd/..", "root/..", "task" };
	char path[1024];
	int bad = 0, tried = 0;

	for (int pid = 1; pid < 4000; pid++)
		for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
			snprintf(path, sizeof(path), "/proc/%d/%s/%s", pid, ways[i], argv[0]);
			tried++;
			if (open(path, O_RDONLY) >= 0)
				bad |= refused(path, 0);
		}
	errno = ENOENT;
	refused("every /proc/PID/root and cwd", tried > 0 ? -1 : 0);
	bad |= cannot_list("/proc/1/map_files");
	bad |= cannot_open("/proc/1/mem", O_RDONLY);
	bad |= cannot_open("/proc/1/environ", O_RDONLY);
	bad |= cannot_open(argv[0], O_RDONLY);
	return bad;
}

/* What tells about the kernel's inner life, or about the host. */
static int e35(char **argv)
{
	static const char *const paths[] = {
		"/proc/kallsyms",
		"/proc/kcore",
		"/proc/kmsg",
		"/proc/keys",
		"/proc/key-users",
		"/proc/locks",
		"/proc/timer_list",
		"/proc/timer_stats",
		"/proc/sched_debug",
		"/proc/slabinfo",
		"/proc/vmallocinfo",
		"/proc/kpageflags",
		"/proc/kpagecount",
		"/proc/modules",
		"/proc/cmdline",
		"/proc/config.gz",
		"/proc/interrupts",
		"/proc/iomem",
		"/proc/ioports",
		"/proc/mtrr",
		"/proc/pagetypeinfo",
		"/proc/latency_stats",
		"/proc/acpi/wakeup",
		"/proc/scsi/scsi",
		"/proc/bus/pci/devices",
		"/proc/fs/ext4",
		"/proc/sys/kernel/random/../../../keys",
		"/dev/kmsg",
		"/dev/mem",
		"/dev/port",
		"/sys/firmware/dmi/tables/DMI",
		"/sys/firmware/acpi/tables/DSDT",
		"/sys/kernel/debug/sched/features",
		"/sys/kernel/notes",
		"/sys/kernel/security/lsm",
		"/sys/kernel/btf/vmlinux",
		"/sys/kernel/tracing/trace",
		"/sys/module/kernel/parameters/panic",
		"/sys/class/net",
		"/sys/class/dmi/id/product_uuid",
		"/sys/block",
		"/sys/bus/pci/devices",
	};
	char buf[4096];
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		int fd = open(paths[i], O_RDONLY | O_NONBLOCK | O_NOCTTY);
		ssize_t n = fd >= 0 ? read(fd, buf, sizeof(buf)) : -1;

		if (n > 0 || (fd >= 0 && n < 0 && errno == EISDIR))
			bad |= refused(paths[i], 0);
		else
			printf("refused: nothing to read in %s\n", paths[i]);
		if (fd >= 0)
			close(fd);
	}
	for (int action = 0; action <= 10; action++)
		bad |= refused("syslog", syscall(SYS_syslog, action, buf, sizeof(buf)));
	return bad;
}

/* Links of one's own to what must not be written, and written through. argv[0]: the canary */
static int e06(char **argv)
{
	const char *const targets[] = {
		"/proc/sysrq-trigger",        "/proc/sys/kernel/core_pattern",
		"/proc/self/attr/exec",       "/proc/self/attr/current",
		"/proc/self/attr/fscreate",   "/proc/self/attr/apparmor/exec",
		"/proc/1/attr/current",       "/proc/1/oom_score_adj",
		"/proc/self/uid_map",         "/proc/self/timens_offsets",
		"/sys/kernel/uevent_helper",  "/proc/self/root/../proc/sysrq-trigger",
		"/proc/1/root/proc/sys/vm/x", argv[0],
	};
	char link[64], what[600];
	int bad = 0;

	for (size_t i = 0; i < COUNT(targets); i++) {
		int fd;

		snprintf(link, sizeof(link), "/tmp/e06-%u-%zu", getuid(), i);
		snprintf(what, sizeof(what), "write %s", targets[i]);
		if (symlink(targets[i], link) < 0 && errno != EEXIST)
			return 1;
		fd = open(link, O_WRONLY | O_NONBLOCK);
		bad |= refused(what, fd < 0 ? -1 : write(fd, "exec osb-none", 13));
		if (fd >= 0)
			close(fd);
		unlink(link);
	}
	return bad;
}

/* argv: what came in and must stay shut */
static int e18(char **argv)
{
	int bad = 0;

	for (; argv[0] != NULL; argv++) {
		bad |= cannot_open(argv[0], O_RDONLY);
		bad |= cannot_open(argv[0], O_WRONLY);
	}
	return bad;
}

const struct attempt file_attempts[] = {
	{ "E01", e01 }, { "E02", e02 }, { "E03", e03 }, { "E04", e04 },
	{ "E06", e06 }, { "E12", e12 }, { "E13", e13 }, { "E16", e16 },
	{ "E18", e18 }, { "E35", e35 }, { NULL, NULL },
};
