/* Every system call there is, asked of the filter and never carried out.
 *
 * A thread puts a filter of its own beneath the sandbox's: it turns every call into a message to
 * another thread. Of several filters the strictest answer counts, and a message is weaker than an
 * error or a kill. So a message means that the sandbox's filter lets the call through; it is then
 * answered with an error that nothing else gives. Everything else is the sandbox's own answer. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum call_verdict { CALL_ALLOWED, CALL_REFUSED, CALL_JUDGED, CALL_UNKNOWN };

struct call_row {
	long nr;
	const char *name;
	enum call_verdict verdict;
};

#include "calls_table.h"

#define LET_THROUGH EXFULL
#define LAST_CALL   700 /* far beyond what any kernel has today */
#define THE_END     0x05b05b

struct question {
	long nr;
	unsigned long args[4];
	int expect; /* errno, or LET_THROUGH */
	const char *name;
};

static struct question questions[4096];
static int answers[4096];
static size_t n_questions;
static volatile int listener = -1;

static void ask_all(long nr, const char *name, unsigned long a0, unsigned long a1, unsigned long a2,
		    unsigned long a3, int expect)
{
	if (n_questions == sizeof(questions) / sizeof(questions[0]))
		abort();
	questions[n_questions++] = (struct question){
		.nr = nr, .args = { a0, a1, a2, a3 }, .expect = expect, .name = name
	};
}

static void ask(long nr, const char *name, unsigned long a0, unsigned long a1, unsigned long a2,
		int expect)
{
	ask_all(nr, name, a0, a1, a2, 0, expect);
}

/* --- what is asked --- */

/* uretprobe and uprobe, which the kernel calls from pages it puts into traced programs: it lets
 * them past every filter, and has nothing for who calls them from anywhere else. */
static bool passes_all_filters(long nr)
{
#if defined(__x86_64__)
	return nr == 335 || nr == 336;
#else
	(void)nr;
	return false;
#endif
}

static void ask_every_number(void)
{
	static const long far[] = { 1000, 4095, 65535, 0x3fffffff };

	for (long nr = 0; nr < LAST_CALL; nr++) {
		enum call_verdict verdict = CALL_UNKNOWN;
		const char *name = "?";

		for (size_t i = 0; i < sizeof(calls_table) / sizeof(calls_table[0]); i++)
			if (calls_table[i].nr == nr) {
				verdict = calls_table[i].verdict;
				name = calls_table[i].name;
			}
		if (verdict != CALL_JUDGED && !passes_all_filters(nr))
			ask(nr, name, 0, 0, 0,
			    verdict == CALL_ALLOWED   ? LET_THROUGH
			    : verdict == CALL_REFUSED ? EPERM
						      : ENOSYS);
	}
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
		ask(far[i], "?", 0, 0, 0, ENOSYS);
}

static void ask_namespaces(void)
{
	static const unsigned long kinds[] = { CLONE_NEWUSER,  CLONE_NEWNS,  CLONE_NEWPID,
					       CLONE_NEWNET,   CLONE_NEWIPC, CLONE_NEWUTS,
					       CLONE_NEWCGROUP };

	ask(__NR_clone, "clone", SIGCHLD, 0, 0, LET_THROUGH);
	ask(__NR_clone, "clone", CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, LET_THROUGH);
	ask(__NR_unshare, "unshare", CLONE_FILES | CLONE_FS, 0, 0, LET_THROUGH);
	ask(__NR_unshare, "unshare", 0x80 /* CLONE_NEWTIME */, 0, 0, EPERM);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (unsigned long high = 0; high < 3; high++) {
			ask(__NR_clone, "clone", kinds[i] | SIGCHLD | high << 32, 0, 0, EPERM);
			ask(__NR_unshare, "unshare", kinds[i] | high << 32, 0, 0, EPERM);
		}
}

static void ask_the_rest(void)
{
	static const unsigned long fine[] = { 0, 0x8, 0x20000, 0x20008, 0x40000, 0xffffffff };
	static const unsigned long loading[] = { TIOCSETD,    SIOCGIFBR,   SIOCSIFBR,  SIOCBRADDBR,
						 SIOCBRDELBR, SIOCGIFVLAN, SIOCSIFVLAN };

	for (unsigned long family = 0; family < 64; family++)
		if (family != AF_NETLINK)
			ask(__NR_socket, "socket", family, SOCK_STREAM, 0,
			    family == AF_UNIX || family == AF_INET || family == AF_INET6
				    ? LET_THROUGH
				    : EAFNOSUPPORT);
	for (unsigned long protocol = 0; protocol < 300; protocol++) {
		bool fine = protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 ||
			    protocol == 58 || protocol == 255 || protocol == 262;

		ask(__NR_socket, "socket", AF_INET, SOCK_STREAM, protocol,
		    fine ? LET_THROUGH : EPROTONOSUPPORT);
		ask(__NR_socket, "socket", AF_INET6, SOCK_STREAM, protocol,
		    fine ? LET_THROUGH : EPROTONOSUPPORT);
	}
	for (unsigned long protocol = 0; protocol < 64; protocol++)
		ask(__NR_socket, "socket netlink", AF_NETLINK, SOCK_RAW, protocol,
		    protocol == 0 || protocol == 4 ? LET_THROUGH : EPROTONOSUPPORT);
	for (unsigned long high = 0; high < 3; high++) {
		ask(__NR_ioctl, "ioctl TIOCSTI", 0, TIOCSTI | high << 32, 0, EPERM);
		ask(__NR_ioctl, "ioctl TIOCLINUX", 0, TIOCLINUX | high << 33, 0, EPERM);
		for (size_t i = 0; i < sizeof(loading) / sizeof(loading[0]); i++)
			ask(__NR_ioctl, "ioctl", 0, loading[i] | high << 34, 0, EPERM);
		ask(__NR_ioctl, "ioctl SIOCGIFCONF", 0, SIOCGIFCONF | high << 32, 0, LET_THROUGH);
		ask(__NR_ioctl, "ioctl TCGETS", 0, TCGETS | high << 32, 0, LET_THROUGH);
	}
	for (unsigned bit = 0; bit < 32; bit++) {
		unsigned long flags = 1ul << bit;

		ask_all(__NR_mmap, "mmap", 0, 4096, 0, flags, bit == 18 ? ENOMEM : LET_THROUGH);
		ask(__NR_memfd_create, "memfd_create", 0, flags, 0,
		    bit == 2 ? ENOMEM : LET_THROUGH);
		ask(__NR_shmget, "shmget", 0, 4096, flags, bit == 11 ? ENOMEM : LET_THROUGH);
	}
	for (unsigned long command = 0; command < 1100; command += command == 50 ? 950 : 1)
		ask(__NR_fcntl, "fcntl", 0, command | (command & 3) << 32, 0,
		    command == F_SETLEASE || command == 1040 ? EINVAL : LET_THROUGH);
	for (unsigned long option = 0; option < 100; option++)
		ask(__NR_prctl, "prctl", option | (option & 3) << 32, 0, 0,
		    option == 62 ? EINVAL : LET_THROUGH);
	for (unsigned long high = 0; high < 3; high++)
		for (unsigned long option = 0; option < 100; option++) {
			bool program = option == 26 || (option >= 50 && option <= 52);
			bool key = option == 14 || option == 32 || option == 38;

			ask(__NR_setsockopt, "setsockopt", 0, SOL_SOCKET | high << 32,
			    option | high << 33, program ? EPERM : LET_THROUGH);
			ask(__NR_setsockopt, "setsockopt", 0, 6 | high << 32, option | high << 33,
			    key ? EPERM : LET_THROUGH);
			ask(__NR_setsockopt, "setsockopt", 0, 0, option, LET_THROUGH);
		}
	for (unsigned long high = 0; high < 3; high++)
		for (unsigned long limit = 0; limit < 16; limit++) {
			int expect = limit == RLIMIT_CORE ? 0 : LET_THROUGH;
			unsigned long pointer = high << 32 | (high != 2) << 12;

			ask(__NR_setrlimit, "setrlimit", limit | high << 32, pointer, 0, expect);
			ask(__NR_prlimit64, "prlimit64", 0, limit | high << 32, pointer, expect);
			ask(__NR_prlimit64, "prlimit64", 0, limit | high << 32, 0, LET_THROUGH);
		}
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		ask(__NR_personality, "personality", fine[i], 0, 0, LET_THROUGH);
	for (unsigned bit = 0; bit < 32; bit++)
		if (1u << bit != 0x8 && 1u << bit != 0x20000 && 1u << bit != 0x40000)
			ask(__NR_personality, "personality", 1ul << bit, 0, 0, EPERM);
}

/* --- asking --- */

/* No libc from here on but for syscall(): each of its calls would be a message, too. */
static void *subject(void *arg)
{
	struct sock_filter tell = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	struct sock_fprog prog = { 1, &tell };
	long fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			  &prog);

	(void)arg;
	if (fd < 0) {
		listener = -errno;
		return NULL;
	}
	__atomic_store_n(&listener, (int)fd, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < n_questions; i++) {
		const struct question *q = &questions[i];

		answers[i] = syscall(q->nr, q->args[0], q->args[1], q->args[2], q->args[3], 0, 0) <
					     0
				     ? errno
				     : 0;
	}
	syscall(SYS_getpid, THE_END);
	for (;;)
		;
}

static int interview(void)
{
	struct seccomp_notif note;
	pthread_t thread;

	if (pthread_create(&thread, NULL, subject, NULL) != 0)
		return 1;
	while (__atomic_load_n(&listener, __ATOMIC_SEQ_CST) == -1)
		sched_yield();
	if (listener < 0) {
		printf("WORKED: no way to ask: %s\n", strerror(-listener));
		return 1;
	}
	for (;;) {
		struct seccomp_notif_resp answer = { .error = -LET_THROUGH };

		memset(&note, 0, sizeof(note));
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &note) < 0) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			return 1;
		}
		if (note.data.nr == SYS_getpid && note.data.args[0] == THE_END)
			return 0;
		answer.id = note.id;
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) < 0 && errno != ENOENT)
			return 1;
	}
}

static const char *word(int answer)
{
	return answer == LET_THROUGH ? "let through" : answer == 0 ? "done" : strerror(answer);
}

static int compare(void)
{
	int bad = 0;

	for (size_t i = 0; i < n_questions; i++) {
		const struct question *q = &questions[i];

		if (answers[i] == q->expect)
			continue;
		printf("WORKED otherwise: %ld %s(0x%lx, 0x%lx, 0x%lx): %s", q->nr, q->name,
		       q->args[0], q->args[1], q->args[2], word(answers[i]));
		printf(", expected: %s\n", word(q->expect));
		bad = 1;
	}
	if (!bad)
		printf("refused: as documented, %zu calls asked for\n", n_questions);
	return bad;
}

/* Ends by SIGILL or fails. */
static int leads_nowhere(long nr)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(syscall(nr, 0, 0, 0, 0, 0, 0) < 0 ? 0 : 1);
	if (pid > 0 && waitpid(pid, &status, 0) == pid &&
	    (WIFSIGNALED(status) ? WTERMSIG(status) == SIGILL : WEXITSTATUS(status) == 0))
		return 0;
	printf("WORKED: call %ld: status %x\n", nr, status);
	return 1;
}

static int calls_own(char **argv)
{
	int status = 0, bad = 0;
	pid_t pid;

	(void)argv;
	for (long nr = 0; nr < LAST_CALL; nr++)
		bad |= passes_all_filters(nr) && leads_nowhere(nr);
	ask_every_number();
	ask_namespaces();
	ask_the_rest();
	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		alarm(60); /* should an answer never come */
		bad = interview() != 0 || compare() != 0;
		fflush(stdout);
		_exit(bad);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) {
		printf("WORKED: the one who asked ended by signal %d\n", WTERMSIG(status));
		return 1;
	}
	return bad | WEXITSTATUS(status);
}

/* --- tables of other architectures --- */

#if defined(__x86_64__)
static void call_i386(long nr)
{
	long r;

	__asm__ volatile("int $0x80"
			 : "=a"(r)
			 : "a"(nr), "b"(0), "c"(0), "d"(0), "S"(0), "D"(0)
			 : "memory");
	(void)r;
}

static void call_x32(long nr)
{
	syscall(0x40000000 | nr, 0, 0, 0, 0, 0, 0);
}

/* Must end by SIGSYS, each and every one; by SIGSEGV where the kernel has no such table. */
static int all_die(const char *what, void (*call)(long nr), long n)
{
	int bad = 0, absent = 0;

	for (long nr = 0; nr < n; nr++) {
		int status = 0;
		pid_t pid = fork();

		if (pid == 0) {
			alarm(10);
			call(nr);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 1;
		if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) {
			absent++;
		} else if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS) {
			printf("WORKED: %s call %ld: status %x\n", what, nr, status);
			bad = 1;
		}
	}
	printf("refused: %ld %s calls%s\n", n, what, absent ? ", which this kernel lacks" : "");
	return bad | (absent != 0 && absent != n);
}
#endif

static int calls_foreign(char **argv)
{
	int bad = 0;

	(void)argv;
#if defined(__x86_64__)
	bad |= all_die("x32", call_x32, LAST_CALL);
	bad |= all_die("i386", call_i386, 480);
#else
	/* only a program of the other kind gets to its table here: tests/unit/test_seccomp.c */
	printf("refused: no instruction for another table on this architecture\n");
#endif
	return bad;
}

const struct attempt call_attempts[] = {
	{ "calls-own", calls_own },
	{ "calls-foreign", calls_foreign },
	{ NULL, NULL },
};
