/* Kernel interfaces: settings, namespaces, tracing, foreign system calls. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
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

static int e29(char **argv)
{
	char buf[16] = "";
	struct iovec here = { buf, sizeof(buf) }, there = { (void *)0x400000, sizeof(buf) };
	int fd = (int)syscall(SYS_pidfd_open, 1, 0);
	int bad = 0;

	(void)argv;
	bad |= refused("ptrace attach 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
	bad |= refused("ptrace seize 1", ptrace(PTRACE_SEIZE, 1, 0, 0));
	bad |= refused("process_vm_readv 1", process_vm_readv(1, &here, 1, &there, 1, 0));
	bad |= refused("process_vm_writev 1", process_vm_writev(1, &here, 1, &there, 1, 0));
	for (int i = 0; i < 8; i++)
		bad |= refused("pidfd_getfd 1", syscall(SYS_pidfd_getfd, fd, i, 0));
	bad |= refused("kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0));
	bad |= cannot_open("/proc/1/mem", O_RDWR);
	bad |= cannot_open("/proc/1/maps", O_RDONLY);
	bad |= cannot_open("/proc/1/fd/3", O_RDWR);
	bad |= cannot_open("/proc/1/fd/4", O_RDONLY);
	bad |= cannot_open("/proc/1/environ", O_RDONLY);
	bad |= cannot_read("/proc/1/stack");
	bad |= cannot_read("/proc/1/syscall");
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

/* Whatever reaches the kernel's inner parts, in one go. */
static int e25(char **argv)
{
	static const struct {
		const char *name;
		long nr;
	} calls[] = {
		{ "bpf", SYS_bpf },
		{ "perf_event_open", SYS_perf_event_open },
		{ "io_uring_setup", SYS_io_uring_setup },
		{ "userfaultfd", SYS_userfaultfd },
		{ "keyctl", SYS_keyctl },
		{ "add_key", SYS_add_key },
		{ "request_key", SYS_request_key },
		{ "init_module", SYS_init_module },
		{ "finit_module", SYS_finit_module },
		{ "delete_module", SYS_delete_module },
		{ "kexec_load", SYS_kexec_load },
		{ "reboot", SYS_reboot },
		{ "syslog", SYS_syslog },
		{ "settimeofday", SYS_settimeofday },
		{ "clock_settime", SYS_clock_settime },
		{ "swapon", SYS_swapon },
		{ "quotactl", SYS_quotactl },
		{ "acct", SYS_acct },
		{ "sethostname", SYS_sethostname },
		{ "fanotify_init", SYS_fanotify_init },
		{ "move_pages", SYS_move_pages },
		{ "vhangup", SYS_vhangup },
	};
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		bad |= refused(calls[i].name, syscall(calls[i].nr, 0, 0, 0, 0, 0));
	return bad;
}

const struct attempt kernel_attempts[] = {
	{ "E21", e21 }, { "E23", e23 }, { "E24", e24 }, { "E25", e25 },
	{ "E29", e29 }, { "E33", e33 }, { NULL, NULL },
};
