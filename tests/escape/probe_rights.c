/* Rights: what is kept over an exec, scheduling, clocks and names, limits of others. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Flags in memory can change after they were looked at. */
static struct clone_args flipping = { .exit_signal = SIGCHLD };
static volatile int flip = 1;

static void *flipper(void *arg)
{
	(void)arg;
	while (flip)
		__atomic_store_n((volatile uint64_t *)&flipping.flags,
				 flipping.flags ^ (uint64_t)CLONE_NEWUSER, __ATOMIC_RELAXED);
	return NULL;
}

static int e34(char **argv)
{
	int bad = 0, tries = 20000;
	pthread_t thread;

	(void)argv;
	if (pthread_create(&thread, NULL, flipper, NULL) != 0)
		return refused("start a thread", 0);
	for (int i = 0; i < tries && !bad; i++) {
		long r = syscall(SYS_clone3, &flipping, sizeof(flipping));

		if (r == 0)
			_exit(0);
		if (r > 0 || errno != ENOSYS)
			bad |= refused("clone3", 0);
	}
	flip = 0;
	pthread_join(thread, NULL);
	/* sizes of old and new kernels, and none */
	for (size_t size = 0; size <= 256; size += 8)
		if (syscall(SYS_clone3, &flipping, size) >= 0 || errno != ENOSYS)
			bad |= refused("clone3 of another size", 0);
	errno = ENOSYS;
	refused("clone3, whatever its flags turn into", bad ? 0 : -1);
	return bad;
}

/* ---- after an exec ---- */

static void print_rights(void)
{
	static const char *const wanted[] = { "NoNewPrivs:", "Seccomp:", "CapInh:", "CapPrm:",
					      "CapEff:",     "CapBnd:",  "CapAmb:" };
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		for (size_t i = 0; i < COUNT(wanted); i++)
			if (strncmp(line, wanted[i], strlen(wanted[i])) == 0)
				fputs(line, stdout);
	if (f != NULL)
		fclose(f);
}

/* A copy of this program in memory, to be run from there; -1 if that cannot be had. */
static int copy_in_memory(void)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	int to = (int)syscall(SYS_memfd_create, "probe", 1u /* MFD_CLOEXEC */);
	struct stat st;

	if (from < 0 || to < 0 || fstat(from, &st) < 0)
		return -1;
	for (off_t left = st.st_size; left > 0;) {
		ssize_t n = syscall(SYS_sendfile, to, from, NULL, left);

		if (n <= 0)
			return -1;
		left -= n;
	}
	return to;
}

/* argv[0]: nothing at first, then what the program has become by an exec */
static int e37(char **argv)
{
	struct landlock_ruleset_attr rules = { .handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_DIR };
	char *again[] = { "probe", "E37", "restricted", NULL }, *env[] = { NULL };
	int bad = 0, copy, fd;

	print_rights();
	bad |= refused("bpf", syscall(SYS_bpf, 0, 0, 0));
	bad |= refused("mount", syscall(SYS_mount, 0, 0, 0, 0, 0));
	if (argv[0] != NULL)
		return strcmp(argv[0], "restricted") == 0
			       ? bad | refused("mkdir", mkdir("/tmp/restricted", 0755))
			       : bad;
	copy = copy_in_memory();
	if (copy < 0)
		return refused("copy the program to memory", 0);
	/* what a program forbids itself is the sandbox's own business, and stays as well */
	fd = (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof(rules), 0);
	if (fd < 0) {
		printf("no landlock: %s\n", strerror(errno));
		again[2] = "free";
	} else if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		   syscall(SYS_landlock_restrict_self, fd, 0) < 0) {
		return refused("restrict oneself", 0);
	}
	fflush(stdout);
	if (!bad)
		execveat(copy, "", again, env, AT_EMPTY_PATH);
	return refused("run from memory", 0);
}

static int e38(char **argv)
{
	(void)argv;
	print_rights();
	/* what could bring more back */
	return refused("take away no_new_privs", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)) |
	       refused("take off the filter", prctl(PR_SET_SECCOMP, 0, 0, 0, 0)) |
	       refused("raise an ambient capability", prctl(PR_CAP_AMBIENT, 2, 21, 0, 0));
}

/* ---- scheduling ---- */

static int e62(char **argv)
{
	static const int policies[] = { SCHED_FIFO, SCHED_RR };
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} deadline = { .size = 48,
		       .policy = 6,
		       .runtime = 10000000,
		       .deadline = 20000000,
		       .period = 20000000 };
	struct rlimit more = { 99, 99 };
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < COUNT(policies); i++) {
		struct sched_param p = { .sched_priority = 10 };

		bad |= refused("a real-time policy", sched_setscheduler(0, policies[i], &p));
	}
	bad |= refused("a deadline policy", syscall(SYS_sched_setattr, 0, &deadline, 0));
	bad |= refused("a better turn", setpriority(PRIO_PROCESS, 0, -20));
	bad |= refused("a slightly better turn", setpriority(PRIO_PROCESS, 0, -1));
	bad |= refused("a better turn for PID 1's group", setpriority(PRIO_PGRP, 1, -5));
	bad |= refused("real-time I/O", syscall(SYS_ioprio_set, 1, 0, 1 << 13));
	bad |= refused("RLIMIT_RTPRIO", setrlimit(RLIMIT_RTPRIO, &more));
	bad |= refused("RLIMIT_NICE", setrlimit(RLIMIT_NICE, &more));
	bad |= cannot_open("/sys/fs/cgroup/cpu/cpu.shares", O_WRONLY);
	bad |= cannot_open("/sys/fs/cgroup/cpu.max", O_WRONLY);
	bad |= cannot_open("/sys/fs/cgroup/cpuset/cpuset.cpus", O_WRONLY);
	bad |= cannot_open("/proc/sys/kernel/sched_rt_runtime_us", O_WRONLY);
	return bad;
}

/* ---- clocks, names, limits ---- */

static int e64(char **argv)
{
	struct timeval past = { .tv_sec = 1000000000 };
	struct timespec past_ns = { .tv_sec = 1000000000 };
	struct timex slew = { .modes = ADJ_FREQUENCY | ADJ_OFFSET, .freq = 1000, .offset = 1000 };
	int bad = 0;

	(void)argv;
	bad |= refused("settimeofday", settimeofday(&past, NULL));
	bad |= refused("clock_settime", clock_settime(CLOCK_REALTIME, &past_ns));
	bad |= refused("adjtimex", adjtimex(&slew));
	bad |= refused("clock_adjtime", clock_adjtime(CLOCK_REALTIME, &slew));
	bad |= refused("sethostname", sethostname("owned", 5));
	bad |= refused("setdomainname", setdomainname("owned", 5));
	bad |= cannot_open("/proc/sys/kernel/hostname", O_WRONLY);
	bad |= cannot_open("/dev/rtc0", O_RDONLY);
	bad |= refused("a time namespace", syscall(SYS_unshare, 0x80));
	return bad;
}

/* X07: with any limit of core dumps but 1, a crash starts a program of the host's root. */

static long still_one(pid_t pid)
{
	struct rlimit now = { 0, 0 };

	errno = EPERM;
	return prlimit(pid, RLIMIT_CORE, NULL, &now) == 0 && now.rlim_cur == 1 && now.rlim_max == 1
		       ? -1
		       : 0;
}

static int x07(char **argv)
{
	static const struct rlimit wanted[] = { { 0, 0 },
						{ 0, 1 },
						{ RLIM_INFINITY, RLIM_INFINITY } };
	int bad = refused("at first", still_one(0)), status = 0;
	pid_t pid;

	(void)argv;
	for (size_t i = 0; i < COUNT(wanted); i++) {
		(void)syscall(SYS_setrlimit, RLIMIT_CORE, &wanted[i]);
		bad |= refused("setrlimit", still_one(0));
		(void)syscall(SYS_prlimit64, 0, RLIMIT_CORE | 1ul << 32, &wanted[i], NULL);
		bad |= refused("prlimit64", still_one(0));
		(void)syscall(SYS_prlimit64, getppid(), RLIMIT_CORE, &wanted[i], NULL);
	}
	pid = fork();
	if (pid == 0) {
		(void)setrlimit(RLIMIT_CORE, &wanted[0]);
		if (still_one(0) == 0)
			_exit(1); /* no crash with it: that would start the program */
		abort();
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status) || WCOREDUMP(status))
		bad |= refused("a dump", 0);
	return bad;
}

const struct attempt rights_attempts[] = {
	{ "E34", e34 }, { "E37", e37 }, { "E38", e38 }, { "E62", e62 },
	{ "E64", e64 }, { "X07", x07 }, { NULL, NULL },
};
