/* Everything below `warden_main` runs in a fork of a program with threads, and `leader_main` in the
 * memory of its suspended parent: system calls on the arguments they were given and nothing else,
 * no malloc, no stdio, no lock. Credentials are changed by the bare system calls, because libc's
 * would try to change those of all threads it knows of. */
#include "execd/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"

/* Another stack and memory that a suspended parent shares are beyond what the sanitizer follows. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined")))

/* Descriptors that programs may have open as a rule; execd itself may need more. */
static struct rlimit files_limit;

struct start {
	const struct proc_spec *spec;
	int null_fd;
	volatile int32_t *note; /* may be NULL */
	volatile int stage;     /* of the failure, written by the child */
	volatile int error;
};

static int fail_at(struct start *s, enum spawn_stage stage)
{
	s->error = errno;
	s->stage = (int)stage;
	return -1;
}

/* Descriptors to their places. They are first moved out of the way of the places. */
IN_CHILD static int place_fds(const struct proc_spec *spec, int null_fd)
{
	int moved[PROC_MAX_FDS];

	for (unsigned i = 0; i < spec->n_fds; i++) {
		int fd = spec->fds[i] >= 0 ? spec->fds[i] : i < 3 ? null_fd : -1;

		moved[i] = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, PROC_MAX_FDS) : -1;
		if (fd >= 0 && moved[i] < 0)
			return -1;
	}
	for (unsigned i = 0; i < spec->n_fds; i++)
		if (moved[i] >= 0 && dup2(moved[i], (int)i) < 0)
			return -1;
	return 0;
}

IN_CHILD static int take_ids(const struct user_ids *ids)
{
	bool root = syscall(SYS_geteuid) == 0, groups = true;

	/* without privileges one can still ask to be oneself */
	if ((root || ids->n_groups > 0) && syscall(SYS_setgroups, ids->n_groups, ids->groups) < 0)
		groups = false;
	/* The kernel closes setgroups(2) where an ordinary user has made the sandbox. There root
	 * has the groups it was born with, and others, if there are any, would have them too. */
	if (!groups && (!root || errno != EPERM))
		return -1;
	if (syscall(SYS_setresgid, ids->gid, ids->gid, ids->gid) < 0)
		return -1;
	if (!groups && ids->uid != 0) {
		errno = EPERM;
		return -1;
	}
	return (int)syscall(SYS_setresuid, ids->uid, ids->uid, ids->uid);
}

/* The handlers are the child's own (no CLONE_SIGHAND). Those of execd must be gone before signals
 * are let in; exec would reset them too late, and would leave what is ignored ignored. */
IN_CHILD static void default_signals(void)
{
	/* The kernel's own structure, all zeros in any layout: libc's call refuses the two signals
	 * that it keeps for itself, which a parent may have left ignored all the same. */
	const unsigned long dfl[8] = { 0 };

	for (int i = 1; i < NSIG; i++)
		(void)syscall(SYS_rt_sigaction, i, dfl, NULL, 8);
}

IN_CHILD static int leader_main(void *arg)
{
	struct start *s = arg;
	const struct proc_spec *spec = s->spec;
	sigset_t none;

	(void)setsid();
	default_signals();
	if (files_limit.rlim_max > 0)
		(void)setrlimit(RLIMIT_NOFILE, &files_limit);
	if (place_fds(spec, s->null_fd) < 0 || (spec->tty && ioctl(0, TIOCSCTTY, 0) < 0)) {
		(void)fail_at(s, SPAWN_FILES);
	} else if (spec->ids != NULL && take_ids(spec->ids) < 0) {
		(void)fail_at(s, SPAWN_USER);
	} else if (spec->cwd != NULL && chdir(spec->cwd) < 0) {
		(void)fail_at(s, SPAWN_DIRECTORY);
	} else {
		(void)sigemptyset(&none);
		(void)sigprocmask(SIG_SETMASK, &none, NULL);
		if (s->note != NULL)
			*s->note = (int32_t)syscall(SYS_getpid);
		(void)execve(spec->path, spec->argv, spec->envp);
		(void)fail_at(s, SPAWN_EXEC);
	}
	_exit(127);
}

/* In an image without devices: something that is at its end, which is all that input needs. */
IN_CHILD static int open_null(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY), fds[2];

	if (fd >= 0 || pipe2(fds, O_CLOEXEC) < 0)
		return fd;
	(void)close(fds[1]);
	return fds[0];
}

/* Start the leader as a child of the caller, whose signals are blocked. Waits until it has called
 * exec (CLONE_VFORK), sharing the caller's memory: no page is copied. */
IN_CHILD static pid_t start_leader(struct start *s)
{
	static char stack[KIB(32)] __attribute__((aligned(64)));
	pid_t pid;

	s->null_fd = open_null();
	if (s->null_fd < 0)
		return (pid_t)fail_at(s, SPAWN_FILES);
	pid = clone(leader_main, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, s);
	if (pid < 0)
		(void)fail_at(s, SPAWN_FORK);
	(void)close(s->null_fd);
	if (pid > 0 && s->error != 0) {
		(void)waitpid(pid, NULL, 0);
		return -1;
	}
	return pid;
}

/* Close all descriptors but those in keep[], which is in ascending order. */
IN_CHILD static void close_others(const int *keep, unsigned n)
{
	unsigned from = 0;

	for (unsigned i = 0; i <= n; i++) {
		unsigned to = i < n ? (unsigned)keep[i] : UINT_MAX;
		unsigned last = to == UINT_MAX ? UINT_MAX : to - 1;

		if (from < to && syscall(SYS_close_range, from, last, 0) < 0) {
			struct rlimit lim = { .rlim_cur = 1024 };

			(void)getrlimit(RLIMIT_NOFILE, &lim);
			for (unsigned fd = from; fd < to && fd < lim.rlim_cur; fd++)
				(void)close((int)fd);
		}
		from = to == UINT_MAX ? to : to + 1;
	}
}

/* The descriptors the warden and its leader need, in ascending order. */
IN_CHILD static unsigned needed_fds(const struct proc_spec *spec, int status_fd, int *out)
{
	unsigned n = 0;

	out[n++] = status_fd;
	for (unsigned i = 0; i < spec->n_fds; i++) {
		unsigned at = 0, same;

		if (spec->fds[i] < 0)
			continue;
		while (at < n && out[at] < spec->fds[i])
			at++;
		same = at < n && out[at] == spec->fds[i];
		if (same)
			continue;
		for (unsigned j = n; j > at; j--)
			out[j] = out[j - 1];
		out[at] = spec->fds[i];
		n++;
	}
	return n;
}

IN_CHILD static void report(int fd, enum spawn_kind kind, int stage, int value)
{
	struct spawn_report r = { .kind = kind, .stage = (uint32_t)stage, .value = value };
	ssize_t n;

	if (kind == SPAWN_STARTED)
		r.warden = (int32_t)syscall(SYS_getpid);

	do
		n = write(fd, &r, sizeof(r));
	while (n < 0 && errno == EINTR);
}

IN_CHILD static void wait_for_all(pid_t leader, int status_fd)
{
	int status;
	pid_t pid;

	for (;;) {
		pid = waitpid(-1, &status, 0);
		if (pid < 0 && errno != EINTR)
			_exit(0);
		if (pid > 0 && pid == leader)
			report(status_fd, SPAWN_EXITED, 0, status);
	}
}

/* Signals stay blocked for good: nothing but SIGKILL ends a warden before its children have
 * ended. */
IN_CHILD static void warden_main(const struct proc_spec *spec, volatile int32_t *note,
				 int status_fd)
{
	struct start start = { .spec = spec, .note = note };
	int keep[PROC_MAX_FDS + 1];
	unsigned n_keep;
	pid_t leader;

	(void)prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
	(void)prctl(PR_SET_NAME, "execd-warden", 0UL, 0UL, 0UL);
	n_keep = needed_fds(spec, status_fd, keep);
	close_others(keep, n_keep);
	leader = start_leader(&start);
	if (leader < 0)
		report(status_fd, SPAWN_FAILED, start.stage, start.error);
	else
		report(status_fd, SPAWN_STARTED, 0, (int)leader);
	close_others(&status_fd, 1);
	wait_for_all(leader, status_fd);
}

void spawn_warden_program(int argc, char **argv)
{
	uint64_t leader, fd;
	sigset_t all;
	int status_fd;

	if (argc != 4 || strcmp(argv[1], SPAWN_WARDEN_OPTION) != 0 ||
	    !span_u64(span_str(argv[2]), &leader) || leader > INT_MAX ||
	    !span_u64(span_str(argv[3]), &fd) || fd > INT_MAX)
		return;
	status_fd = (int)fd;
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
	(void)prctl(PR_SET_NAME, "execd-warden", 0UL, 0UL, 0UL);
	close_others(&status_fd, 1);
	report(status_fd, SPAWN_STARTED, 0, (int)leader);
	wait_for_all((pid_t)leader, status_fd);
}

/* --- in execd --- */

void spawn_raise_limits(void)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, &files_limit) < 0)
		return;
	more = files_limit;
	more.rlim_cur = MIN(more.rlim_max, (rlim_t)65536);
	if (more.rlim_cur > files_limit.rlim_cur)
		(void)setrlimit(RLIMIT_NOFILE, &more);
}

static void block_signals(sigset_t *old)
{
	sigset_t all;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, old);
}

int spawn_failed(struct err *e, uint32_t stage, int error)
{
	static const char *const words[] = {
		[SPAWN_FORK] = "fork",
		[SPAWN_FILES] = "set up descriptors",
		[SPAWN_USER] = "change user and groups",
		[SPAWN_DIRECTORY] = "change directory",
		[SPAWN_EXEC] = "exec",
	};

	/* said of a user id that is not in the map of this user namespace */
	if (stage == SPAWN_USER && error == EINVAL)
		return err_set(e, error, "change user and groups: this sandbox has no such id");
	return err_code(e, error, "%s", stage < ARRAY_LEN(words) ? words[stage] : "start");
}

#define N_NOTES 64

static volatile int32_t *notes; /* shared with forks */
static uint64_t notes_taken;    /* one bit each */

volatile int32_t *spawn_note_take(void)
{
	volatile int32_t *note;

	if (notes == NULL) {
		void *p = mmap(NULL, N_NOTES * sizeof(*notes), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		if (p == MAP_FAILED)
			return NULL;
		notes = p;
	}
	if (notes_taken == UINT64_MAX)
		return NULL;
	note = &notes[__builtin_ctzll(~notes_taken)];
	notes_taken |= 1ull << (note - notes);
	*note = 0;
	return note;
}

void spawn_note_drop(volatile int32_t *note)
{
	if (note != NULL)
		notes_taken &= ~(1ull << (note - notes));
}

int spawn_warden(const struct proc_spec *s, volatile int32_t *note, pid_t *ret_warden,
		 int *ret_status_fd, struct err *e)
{
	sigset_t old;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	block_signals(&old);
	/* not libc's: nothing that libraries want done after a fork is of use to a warden */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid == 0)
		warden_main(s, note, fds[1]);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)close(fds[1]);
	if (pid < 0) {
		(void)close(fds[0]);
		return err_sys(e, "fork");
	}
	*ret_warden = pid;
	*ret_status_fd = fds[0];
	return 0;
}

int spawn_direct(const struct proc_spec *s, pid_t *ret, struct err *e)
{
	struct start start = { .spec = s };
	sigset_t old;
	pid_t pid;

	block_signals(&old);
	pid = start_leader(&start);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (pid < 0)
		return spawn_failed(e, (uint32_t)start.stage, start.error);
	*ret = pid;
	return 0;
}
