/* Calls that fail on demand, for the tests of this directory.
 *
 * A build with -Dfault_hooks=true links this file into the server, the runner and execd, with every
 * call below wrapped by the linker (--wrap), in our code as well as in libuv, jansson and SQLite.
 * Nothing happens unless descriptor CONTROL_FD is the control block that the test has made: a small
 * file, mapped by each of the programs, in which the test writes how often calls are to fail in
 * which program, or which one. So faults come and go in running processes, and every one of them is
 * counted.
 *
 * The descriptor is handed down: from the test to the server, to its keeper, to the runner, to
 * execd, who has nobody to give it to. For its sake close_range leaves it out.
 *
 * Some of it runs in forks of programs with threads, and in memory shared with a suspended parent:
 * no lock, no allocation, no sanitizer. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

#define CONTROL_FD    1000
#define CONTROL_MAGIC 0x6f736266 /* as hooks.py writes it */
#define REPORT_SIZE   8192
#define BARE          __attribute__((no_sanitize("address", "undefined")))

enum class { MEMORY, FILES, N_CLASSES };

static const char *const programs[] = { "opensandbox-server", "opensandbox-runner", "execd" };

/* Same layout in hooks.py. */
struct control {
	_Atomic uint32_t magic, seed;
	struct denial {
		_Atomic uint32_t one_in; /* of so many calls one fails; 0: none */
		_Atomic uint32_t nth;    /* that one of those to come fails; 0: none */
		_Atomic uint32_t failed;
	} of[ARRAY_LEN(programs)][N_CLASSES];
	_Atomic uint32_t reported;
	/* what the sanitizer found first in a sandbox, where nobody reads it */
	char report[REPORT_SIZE];
};

static struct control *control;
static size_t self;
static _Atomic uint32_t calls;

#ifdef __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED __has_feature(address_sanitizer)
#else
#define SANITIZED 0
#endif

#if SANITIZED
/* What was freed is kept for a while, and sandboxes have little memory to keep it in. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
	return "quarantine_size_mb=1:thread_local_quarantine_size_kb=64";
}

void __asan_set_error_report_callback(void (*fn)(const char *text));
static void keep_report(const char *text)
{
	if (atomic_fetch_add(&control->reported, 1) == 0)
		(void)snprintf(control->report, sizeof(control->report), "%s", text);
}
#endif

/* Which ones of many follows from the seed and their order. */
BARE static bool drawn(uint32_t one_in)
{
	uint32_t n;

	if (one_in == 0)
		return false;
	n = (atomic_fetch_add(&calls, 1) + control->seed) * 0x9e3779b1;
	n = (n ^ n >> 15) * 0x85ebca77;
	n = (n ^ n >> 13) * 0xc2b2ae3d;
	return (n ^ n >> 16) % one_in == 0;
}

BARE static bool is_the_one(_Atomic uint32_t *nth)
{
	uint32_t n = *nth;

	while (n > 0 && !atomic_compare_exchange_weak(nth, &n, n - 1))
		;
	return n == 1;
}

/* Is this one of those that fail? */
BARE static bool strikes(enum class what)
{
	struct denial *d;

	if (control == NULL)
		return false;
	d = &control->of[self][what];
	if (!is_the_one(&d->nth) && !drawn(d->one_in))
		return false;
	atomic_fetch_add(&d->failed, 1);
	return true;
}

/* A call with fixed arguments: what it returns then, and why. */
#define HOOK(type, name, params, args, class, code, refusal) \
	type __real_##name params;                           \
	type __wrap_##name params;                           \
	BARE type __wrap_##name params                       \
	{                                                    \
		if (strikes(class)) {                        \
			errno = code;                        \
			return refusal;                      \
		}                                            \
		return __real_##name args;                   \
	}
#define NO_MEMORY(type, name, params, args) HOOK(type, name, params, args, MEMORY, ENOMEM, NULL)
#define NO_FILES(name, params, args)        HOOK(int, name, params, args, FILES, EMFILE, -1)

/* --- memory --- */

NO_MEMORY(void *, malloc, (size_t size), (size))
NO_MEMORY(void *, calloc, (size_t n, size_t size), (n, size))
NO_MEMORY(void *, realloc, (void *at, size_t size), (at, size))
NO_MEMORY(void *, reallocarray, (void *at, size_t n, size_t size), (at, n, size))
NO_MEMORY(char *, strdup, (const char *text), (text))
NO_MEMORY(char *, strndup, (const char *text, size_t n), (text, n))
NO_MEMORY(DIR *, fdopendir, (int fd), (fd))
NO_MEMORY(FILE *, fdopen, (int fd, const char *mode), (fd, mode))
HOOK(void *, mmap64, (void *at, size_t len, int prot, int flags, int fd, off_t off),
     (at, len, prot, flags, fd, off), MEMORY, ENOMEM, MAP_FAILED)
HOOK(pid_t, fork, (void), (), MEMORY, ENOMEM, -1)
HOOK(int, vasprintf, (char **ret, const char *fmt, va_list ap), (ret, fmt, ap), MEMORY, ENOMEM, -1)
HOOK(int, posix_spawnp,
     (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attr, char *const argv[], char *const envp[]),
     (pid, file, actions, attr, argv, envp), MEMORY, ENOMEM, ENOMEM)

int __real_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
BARE int __wrap_clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	if (strikes(MEMORY)) {
		errno = ENOMEM;
		return -1;
	}
	return __real_clone(fn, stack, flags, arg);
}

int __wrap_asprintf(char **ret, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
BARE int __wrap_asprintf(char **ret, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = __wrap_vasprintf(ret, fmt, ap);
	va_end(ap);
	return n;
}

/* libuv ends a program that cannot even begin. Of PID 1 the C library's way to do that makes a
 * crash, and so a report; that a sandbox is gone which must live is seen by others. */
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);
BARE void __wrap_abort(void)
{
	if (control != NULL && self == ARRAY_LEN(programs) - 1)
		_exit(128 + SIGABRT);
	__real_abort();
}

/* --- descriptors --- */

NO_FILES(socket, (int family, int type, int protocol), (family, type, protocol))
NO_FILES(socketpair, (int family, int type, int protocol, int pair[2]),
	 (family, type, protocol, pair))
NO_FILES(accept4, (int fd, struct sockaddr *sa, socklen_t *len, int flags), (fd, sa, len, flags))
NO_FILES(pipe2, (int pair[2], int flags), (pair, flags))
NO_FILES(epoll_create1, (int flags), (flags))
NO_FILES(eventfd, (unsigned value, int flags), (value, flags))
NO_FILES(timerfd_create, (int clock, int flags), (clock, flags))
NO_FILES(signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags))
NO_FILES(inotify_init1, (int flags), (flags))
NO_FILES(memfd_create, (const char *name, unsigned flags), (name, flags))
NO_FILES(pidfd_open, (pid_t pid, unsigned flags), (pid, flags))
NO_FILES(fsopen, (const char *name, unsigned flags), (name, flags))
NO_FILES(fsmount, (int fd, unsigned flags, unsigned attrs), (fd, flags, attrs))
NO_FILES(open_tree, (int fd, const char *path, unsigned flags), (fd, path, flags))
HOOK(FILE *, fopen64, (const char *path, const char *mode), (path, mode), FILES, EMFILE, NULL)
HOOK(DIR *, opendir, (const char *path), (path), FILES, EMFILE, NULL)

#define HAS_MODE(flags) (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE)

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
BARE int __wrap_open64(const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = HAS_MODE(flags) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (strikes(FILES)) {
		errno = EMFILE;
		return -1;
	}
	return __real_open64(path, flags, mode);
}

int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);
BARE int __wrap_openat64(int dir, const char *path, int flags, ...)
{
	va_list ap;
	mode_t mode;

	va_start(ap, flags);
	mode = HAS_MODE(flags) ? va_arg(ap, mode_t) : 0;
	va_end(ap);
	if (strikes(FILES)) {
		errno = EMFILE;
		return -1;
	}
	return __real_openat64(dir, path, flags, mode);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
BARE int __wrap_fcntl64(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && strikes(FILES)) {
		errno = EMFILE;
		return -1;
	}
	return __real_fcntl64(fd, command, arg);
}

/* Without room for them the kernel drops the descriptors of a message, and says so. */
ssize_t __real_recvmsg(int fd, struct msghdr *m, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags);
BARE ssize_t __wrap_recvmsg(int fd, struct msghdr *m, int flags)
{
	ssize_t n = __real_recvmsg(fd, m, flags);
	bool dropped = false;

	if (n < 0 || m->msg_controllen == 0 || !strikes(FILES))
		return n;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
		size_t n_fds = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n_fds; i++) {
			int got;

			memcpy(&got, CMSG_DATA(c) + i * sizeof(got), sizeof(got));
			(void)close(got);
		}
		dropped = true;
	}
	if (dropped) {
		m->msg_controllen = 0;
		m->msg_flags |= MSG_CTRUNC;
	}
	return n;
}

/* --- by number, and the way of the control block --- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* All but the one. */
BARE static long close_some(unsigned first, unsigned last, unsigned flags)
{
	long r = 0;

	if (control == NULL || self == ARRAY_LEN(programs) - 1 || first > CONTROL_FD ||
	    last < CONTROL_FD)
		return __real_syscall(SYS_close_range, first, last, flags);
	if (first < CONTROL_FD)
		r = __real_syscall(SYS_close_range, first, CONTROL_FD - 1U, flags);
	if (r == 0 && last > CONTROL_FD)
		r = __real_syscall(SYS_close_range, CONTROL_FD + 1U, last, flags);
	return r;
}

int __wrap_close_range(unsigned first, unsigned last, int flags);
BARE int __wrap_close_range(unsigned first, unsigned last, int flags)
{
	return (int)close_some(first, last, (unsigned)flags);
}

BARE long __wrap_syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (size_t i = 0; i < ARRAY_LEN(a); i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_close_range)
		return close_some((unsigned)a[0], (unsigned)a[1], (unsigned)a[2]);
	if ((number == SYS_openat2 || number == SYS_pidfd_open) && strikes(FILES)) {
		errno = EMFILE;
		return -1;
	}
	if (number == SYS_clone3 && strikes(MEMORY)) {
		errno = ENOMEM;
		return -1;
	}
	return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

__attribute__((constructor)) static void find_control(void)
{
	struct stat st;
	void *at;

	while (self < ARRAY_LEN(programs) &&
	       strcmp(program_invocation_short_name, programs[self]) != 0)
		self++;
	if (self == ARRAY_LEN(programs) || fstat(CONTROL_FD, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_size != (off_t)sizeof(*control))
		return;
	at = __real_mmap64(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, CONTROL_FD,
			   0);
	if (at == MAP_FAILED)
		return;
	if (((struct control *)at)->magic == CONTROL_MAGIC)
		control = at;
	if (self != ARRAY_LEN(programs) - 1)
		return;
	(void)close(CONTROL_FD);
#if SANITIZED
	if (control != NULL)
		__asan_set_error_report_callback(keep_report);
#endif
}
