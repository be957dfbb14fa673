/* Kernel interfaces: settings, namespaces, tracing, foreign system calls. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* argv[0]: what a core dump would start */
static int e21(char **argv)
{
	static const char *const knobs[] = {
		"/proc/sys/kernel/core_pattern",
		"/proc/sys/kernel/modprobe",
		"/proc/sys/kernel/hotplug",
		"/proc/sys/kernel/usermodehelper/bset",
		"/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/fs/suid_dumpable",
		"/proc/sys/vm/panic_on_oom",
		"/proc/sys/kernel/panic",
		"/proc/sys/kernel/hostname",
		"/proc/sys/kernel/domainname",
		"/proc/sys/user/max_user_namespaces",
		"/proc/sys/net/ipv4/ip_forward",
		"/proc/sysrq-trigger",
		"/sys/kernel/uevent_helper",
		"/sys/kernel/mm/transparent_hugepage/enabled",
		"/sys/power/state",
		"/sys/fs/cgroup/release_agent",
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(knobs) / sizeof(knobs[0]); i++) {
		int fd = open(knobs[i], O_WRONLY);

		if (fd < 0)
			printf("refused: open %s: %s\n", knobs[i], strerror(errno));
		else
			bad |= refused(knobs[i], write(fd, argv[0], strlen(argv[0])));
	}
	bad |= refused("mkdir in /proc/sys", mkdir("/proc/sys/x", 0755));
	bad |= refused("mkdir in /sys", mkdir("/sys/x", 0755));
	return bad;
}

static int writable, seen;

static int look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	seen++;
	if (type == FTW_D) {
		char dir[600];

		snprintf(dir, sizeof(dir), "%s/x", path);
		if (mkdir(dir, 0755) == 0) {
			printf("WORKED: mkdir %s\n", dir);
			writable++;
		}
	} else if (S_ISREG(st->st_mode)) {
		int fd = open(path, O_WRONLY);

		if (fd >= 0) {
			printf("WORKED: open %s for writing\n", path);
			writable++;
			close(fd);
		}
	}
	return 0;
}

static int e23(char **argv)
{
	(void)argv;
	nftw("/sys/fs/cgroup", look, 16, FTW_PHYS);
	errno = EROFS;
	refused("write to cgroup files", seen > 0 ? -1 : 0);
	return writable != 0 || seen == 0;
}

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static int e24(char **argv)
{
	static const struct {
		const char *name;
		int flag;
	} kinds[] = {
		{ "user", CLONE_NEWUSER },     { "mnt", CLONE_NEWNS },  { "pid", CLONE_NEWPID },
		{ "net", CLONE_NEWNET },       { "ipc", CLONE_NEWIPC }, { "uts", CLONE_NEWUTS },
		{ "cgroup", CLONE_NEWCGROUP }, { "time", 0x80 },
	};
	static char stack[65536];
	char what[64], path[64];
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct clone_args c3 = { .flags = (unsigned)kinds[i].flag, .exit_signal = SIGCHLD };
		long r;
		int fd;

		snprintf(what, sizeof(what), "unshare %s", kinds[i].name);
		bad |= refused(what, unshare(kinds[i].flag));
		snprintf(what, sizeof(what), "unshare user and %s", kinds[i].name);
		bad |= refused(what, unshare(kinds[i].flag | CLONE_NEWUSER));
		snprintf(what, sizeof(what), "clone %s", kinds[i].name);
		if (kinds[i].flag != 0x80)
			bad |= refused(what, clone(nothing, stack + sizeof(stack),
						   kinds[i].flag | SIGCHLD, NULL));
		snprintf(what, sizeof(what), "clone3 %s", kinds[i].name);
		r = syscall(SYS_clone3, &c3, sizeof(c3));
		if (r == 0)
			_exit(0);
		bad |= refused(what, r);
		/* the upper half of the flags is not looked at by the kernel, nor may it help */
		snprintf(what, sizeof(what), "clone %s, upper bits", kinds[i].name);
		if (kinds[i].flag != 0x80) {
			r = syscall(SYS_clone, (unsigned)kinds[i].flag | 1UL << 40 | SIGCHLD, 0, 0,
				    0, 0);
			if (r == 0)
				_exit(0);
			bad |= refused(what, r);
		}
		snprintf(path, sizeof(path), "/proc/self/ns/%s", kinds[i].name);
		fd = open(path, O_RDONLY);
		snprintf(what, sizeof(what), "setns %s", kinds[i].name);
		bad |= refused(what, setns(fd, 0));
	}
	return bad;
}

/* Must end the process; what it returns otherwise is of no interest. */
static int dies(const char *what, void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		fn();
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return refused(what, 0);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
		printf("refused: %s: killed\n", what);
		return 0;
	}
	printf("WORKED: %s: status %x\n", what, status);
	return 1;
}

#if defined(__x86_64__)
static void call_i386(void)
{
	long r;

	/* getpid of the other table */
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");
	(void)r;
}

static void call_x32(void)
{
	syscall(0x40000000 | SYS_getpid);
}
#endif

static int e33(char **argv)
{
	int bad = 0;

	(void)argv;
#if defined(__x86_64__)
	bad |= dies("i386 getpid", call_i386);
	bad |= dies("x32 getpid", call_x32);
#else
	(void)dies;
#endif
	bad |= refused("personality READ_IMPLIES_EXEC", personality(READ_IMPLIES_EXEC));
	bad |= refused("personality ADDR_COMPAT_LAYOUT", personality(ADDR_COMPAT_LAYOUT));
	bad |= refused("personality of another system", personality(PER_SVR4));
	bad |= refused("ioctl TIOCSTI with upper bits", syscall(SYS_ioctl, 0, 0x100005412UL, "x"));
	return bad;
}

/* Into the memory and the descriptors of another. */
static int attack(int pid)
{
	static const struct {
		const char *name;
		int flags;
	} files[] = {
		{ "mem", O_RDWR },        { "mem", O_RDONLY },  { "maps", O_RDONLY },
		{ "fd/3", O_RDWR },       { "fd/4", O_RDONLY }, { "environ", O_RDONLY },
		{ "auxv", O_RDONLY },     { "exe", O_RDONLY },  { "cwd/etc", O_RDONLY },
		{ "root/etc", O_RDONLY },
	};
	static const char *const told[] = { "stack", "syscall", "io", "pagemap", "personality" };
	char buf[16] = "", path[64];
	struct iovec here = { buf, sizeof(buf) }, there = { (void *)0x400000, sizeof(buf) };
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int bad = 0;

	printf("process %d\n", pid);
	bad |= refused("ptrace attach", ptrace(PTRACE_ATTACH, pid, 0, 0));
	bad |= refused("ptrace seize", ptrace(PTRACE_SEIZE, pid, 0, 0));
	bad |= refused("process_vm_readv", process_vm_readv(pid, &here, 1, &there, 1, 0));
	bad |= refused("process_vm_writev", process_vm_writev(pid, &here, 1, &there, 1, 0));
	for (int i = 0; i < 8; i++)
		bad |= refused("pidfd_getfd", syscall(SYS_pidfd_getfd, fd, i, 0));
	bad |= refused("kcmp", syscall(SYS_kcmp, pid, getpid(), 0, 0, 0));
	bad |= refused("process_madvise", syscall(SYS_process_madvise, fd, &there, 1, 21, 0));
	for (size_t i = 0; i < COUNT(files); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, files[i].name);
		bad |= cannot_open(path, files[i].flags);
	}
	for (size_t i = 0; i < COUNT(told); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", pid, told[i]);
		bad |= cannot_read(path);
	}
	/* which there are may be told; what they are may not */
	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		bad |= refused(path, readlink(path, buf, sizeof(buf)));
	}
	close(fd);
	return bad;
}

/* PID 1, and all that run its program: those who wait for commands. */
static int e29(char **argv)
{
	int bad = 0, n = 0;

	(void)argv;
	for (int pid = 1; pid < 500; pid++) {
		char path[64], line[64] = "";
		int fd;

		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		fd = open(path, O_RDONLY);
		if (fd < 0)
			continue;
		if (read(fd, line, sizeof(line) - 1) > 0 &&
		    (pid == 1 || strcmp(line, "execd") == 0)) {
			bad |= attack(pid);
			n++;
		}
		close(fd);
	}
	printf("%d processes of execd attacked\n", n);
	return bad | (n == 0);
}

/* CVE-2022-0492: a program of ours, started by the kernel when a group is empty. */
static int e22(char **argv)
{
	static const char *const dirs[] = { "",      "/memory",  "/cpu",     "/devices",
					    "/pids", "/unified", "/systemd", "/freezer" };
	static const char *const files[] = { "release_agent", "notify_on_release",
					     "devices.allow", "devices.deny",
					     "tasks",         "cgroup.clone_children" };
	char path[128];
	int bad = 0;

	(void)argv;
	for (size_t d = 0; d < COUNT(dirs); d++)
		for (size_t i = 0; i < COUNT(files); i++) {
			snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", dirs[d], files[i]);
			bad |= cannot_open(path, O_WRONLY);
		}
	mkdir("/tmp/cgroup", 0755);
	bad |= refused("mount cgroup", mount("c", "/tmp/cgroup", "cgroup", 0, "memory"));
	bad |= refused("mount rdma", mount("c", "/tmp/cgroup", "cgroup", 0, "rdma"));
	bad |= refused("mount cgroup2", mount("c", "/tmp/cgroup", "cgroup2", 0, NULL));
	bad |= refused("unshare for the mount", unshare(CLONE_NEWUSER | CLONE_NEWCGROUP));
	return bad;
}

static int e25(char **argv)
{
	static const struct probe_call calls[] = {
		{ "bpf", SYS_bpf },
		{ "perf_event_open", SYS_perf_event_open },
	};

	(void)argv;
	return calls_refused(calls, COUNT(calls)) | cannot_open("/sys/fs/bpf", O_RDONLY) |
	       cannot_open("/proc/sys/kernel/unprivileged_bpf_disabled", O_WRONLY) |
	       cannot_open("/proc/sys/kernel/perf_event_paranoid", O_WRONLY);
}

static int e26(char **argv)
{
	static const struct probe_call calls[] = {
		{ "io_uring_setup", SYS_io_uring_setup },
		{ "io_uring_enter", SYS_io_uring_enter },
		{ "io_uring_register", SYS_io_uring_register },
	};

	(void)argv;
	return calls_refused(calls, COUNT(calls));
}

static int e27(char **argv)
{
	static const struct probe_call calls[] = {
		{ "userfaultfd", SYS_userfaultfd },
		{ "move_pages", SYS_move_pages },
		{ "migrate_pages", SYS_migrate_pages },
	};

	(void)argv;
	return calls_refused(calls, COUNT(calls)) | cannot_open("/dev/userfaultfd", O_RDWR);
}

static int e28(char **argv)
{
	static const struct probe_call calls[] = {
		{ "keyctl", SYS_keyctl },
		{ "add_key", SYS_add_key },
		{ "request_key", SYS_request_key },
	};
	int bad = calls_refused(calls, COUNT(calls));

	(void)argv;
	bad |= refused("join the session of another", syscall(SYS_keyctl, 1, "osb-shared"));
	bad |= refused("leave a key", syscall(SYS_add_key, "user", "osb", "x", 1, -4));
	bad |= refused("look for a key", syscall(SYS_request_key, "user", "osb", NULL, -4));
	return bad;
}

static int e30(char **argv)
{
	static const struct probe_call calls[] = {
		{ "init_module", SYS_init_module },
		{ "finit_module", SYS_finit_module },
		{ "delete_module", SYS_delete_module },
		{ "kexec_load", SYS_kexec_load },
		{ "kexec_file_load", SYS_kexec_file_load },
		{ "reboot", SYS_reboot },
		{ "swapon", SYS_swapon },
		{ "swapoff", SYS_swapoff },
		{ "quotactl", SYS_quotactl },
		{ "acct", SYS_acct },
		{ "fanotify_init", SYS_fanotify_init },
		{ "vhangup", SYS_vhangup },
		{ "syslog", SYS_syslog },
#ifdef SYS_iopl
		{ "iopl", SYS_iopl },
		{ "ioperm", SYS_ioperm },
		{ "modify_ldt", SYS_modify_ldt },
#endif
	};

	(void)argv;
	return calls_refused(calls, COUNT(calls));
}

/* Typing for others. */
static int e32(char **argv)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), slave, bad = 0;
	char arg[2] = { 2, 0 };

	(void)argv;
	if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
		return refused("have a terminal", 0);
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	if (slave < 0)
		return refused("have a terminal", 0);
	bad |= refused("TIOCSTI", ioctl(slave, TIOCSTI, "x"));
	bad |= refused("TIOCSTI on the other end", ioctl(master, TIOCSTI, "x"));
	bad |= refused("TIOCLINUX", ioctl(slave, TIOCLINUX, arg));
	for (int bit = 32; bit < 64; bit += 7) {
		bad |= refused("TIOCSTI with an upper bit",
			       syscall(SYS_ioctl, slave, TIOCSTI | 1UL << bit, "x"));
		bad |= refused("TIOCLINUX with an upper bit",
			       syscall(SYS_ioctl, slave, TIOCLINUX | 1UL << bit, arg));
	}
	bad |= refused("TIOCCONS", ioctl(slave, TIOCCONS, 0));
	return bad;
}

/* X13: memory that the kernel takes out of its own map */
static int x13(char **argv)
{
	(void)argv;
	for (unsigned long flags = 0; flags < 2; flags++) {
		long fd = syscall(447 /* memfd_secret */, flags ? 02000000 : 0);

		if (refused("memory that is secret", fd))
			return 1;
	}
	return 0;
}

/* X12: what makes the kernel load a module, or use one that is there for others. By the filter: an
 * error of any other kind is that of a module, or of a search for one. */
static int closed(const char *what, int fd, unsigned long command, void *arg)
{
	int r = ioctl(fd, command, arg);

	return refused(what, r < 0 && errno != EPERM ? 0 : r);
}

static int x12(char **argv)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), s = socket(AF_INET, SOCK_DGRAM, 0), bad = 0;
	struct ifreq link = { .ifr_name = "br0" };
	unsigned long list[3] = { 1, 0, 0 };

	(void)argv;
	if (master < 0 || s < 0)
		return refused("have a terminal and a socket", 0);
	for (int i = 1; i < 31; i++)
		bad |= closed("a discipline", master, TIOCSETD, &i);
	bad |= closed("a list of bridges", s, SIOCGIFBR, list);
	bad |= closed("a bridge", s, SIOCBRADDBR, link.ifr_name);
	bad |= closed("a virtual network", s, SIOCGIFVLAN, &link);
	close(master);
	close(s);
	return bad;
}

const struct attempt kernel_attempts[] = {
	{ "E21", e21 }, { "E22", e22 }, { "E23", e23 }, { "E24", e24 }, { "E25", e25 },
	{ "E26", e26 }, { "E27", e27 }, { "E28", e28 }, { "E29", e29 }, { "E30", e30 },
	{ "E32", e32 }, { "E33", e33 }, { "X12", x12 }, { "X13", x13 }, { NULL, NULL },
};
