/* Taking all there is of something. `hoard KIND` takes until it is refused or killed, prints how
 * many it got and keeps them; the host looks whether others still get theirs. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (1 << 20)

static char chunk[CHUNK];

/* Each takes one more: 0, or -1 and errno. */

static int one_fd(long i)
{
	(void)i;
	return open("/dev/null", O_RDONLY) < 0 ? -1 : 0;
}

static int one_inotify(long i)
{
	(void)i;
	return inotify_init1(0) < 0 ? -1 : 0;
}

static int one_mqueue(long i)
{
	struct mq_attr attr = { .mq_maxmsg = 10, .mq_msgsize = 8192 };
	char name[32];

	snprintf(name, sizeof(name), "/osb-%ld", i);
	return mq_open(name, O_RDWR | O_CREAT, 0600, &attr) < 0 ? -1 : 0;
}

static int one_shm(long i)
{
	(void)i;
	return shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600) < 0 ? -1 : 0;
}

static int one_sem(long i)
{
	(void)i;
	return semget(IPC_PRIVATE, 1, IPC_CREAT | 0600) < 0 ? -1 : 0;
}

static int one_pty(long i)
{
	(void)i;
	return posix_openpt(O_RDWR | O_NOCTTY) < 0 ? -1 : 0;
}

static int one_aio(long i)
{
	unsigned long context = 0;

	(void)i;
	return (int)syscall(SYS_io_setup, 1024, &context);
}

/* each timer keeps room for a signal */
static int one_signal(long i)
{
	struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	timer_t t;

	(void)i;
	return timer_create(CLOCK_MONOTONIC, &e, &t);
}

static int one_lock(long i)
{
	void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)i;
	return p == MAP_FAILED ? -1 : mlock(p, 65536);
}

static int one_process(long i)
{
	pid_t pid = fork();

	(void)i;
	if (pid == 0)
		for (;;)
			pause();
	return pid < 0 ? -1 : 0;
}

static void *idle(void *arg)
{
	while (pause() < 0)
		;
	return arg;
}

static int one_thread(long i)
{
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	(void)i;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 16384);
	r = pthread_create(&thread, &attr, idle, NULL);
	errno = r;
	return r == 0 ? 0 : -1;
}

/* ---- memory, one MiB at a time or what comes closest ---- */

static int one_anon(long i)
{
	char *p = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return -1;
	memset(p, (int)i | 1, CHUNK);
	return 0;
}

static int one_write(int fd)
{
	return write(fd, chunk, CHUNK) == CHUNK ? 0 : -1;
}

static int one_tmpfs(long i)
{
	static int fd = -1;

	if (i == 0)
		fd = open("/dev/shm/hoard", O_WRONLY | O_CREAT | O_APPEND, 0600);
	return one_write(fd);
}

static int one_memfd(long i)
{
	static int fd = -1;

	if (i == 0)
		fd = (int)syscall(SYS_memfd_create, "hoard", 0);
	return one_write(fd);
}

static int one_sysv(long i)
{
	int id = shmget(IPC_PRIVATE, CHUNK, IPC_CREAT | 0600);
	char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	if (p == (char *)-1)
		return -1;
	memset(p, (int)i | 1, CHUNK);
	return shmdt(p);
}

/* Those that the host has set aside. */
static int one_huge(long i)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB;
	int fd = (int)syscall(SYS_memfd_create, "huge", 4 /* MFD_HUGETLB */);

	(void)i;
	if (fd >= 0)
		return 0;
	if (shmget(IPC_PRIVATE, 2 * CHUNK, IPC_CREAT | SHM_HUGETLB | 0600) >= 0)
		return 0;
	return mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

/* 16 of 64 KiB each */
static int one_pipes(long i)
{
	(void)i;
	for (int n = 0; n < 16; n++) {
		int fds[2];

		if (pipe2(fds, O_NONBLOCK) < 0)
			return -1;
		while (write(fds[1], chunk, 65536) > 0)
			;
	}
	return 0;
}

static int one_sockets(long i)
{
	(void)i;
	for (int n = 0; n < 4; n++) {
		int fds[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) < 0)
			return -1;
		while (write(fds[1], chunk, 65536) > 0)
			;
	}
	return 0;
}

/* Connections to oneself that nobody reads, until there have been 200 of them. Each has a right to
 * a packet, whatever the limit. */
static int one_tcp(long i)
{
	static struct sockaddr_in at = { .sin_family = AF_INET };
	static int listener = -1, from = -1, n;
	socklen_t len = sizeof(at);
	ssize_t left = CHUNK;

	if (i == 0) {
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		listener = socket(AF_INET, SOCK_STREAM, 0);
		if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 8) < 0 ||
		    getsockname(listener, (struct sockaddr *)&at, &len) < 0)
			return -1;
	}
	while (left > 0) {
		ssize_t sent = from < 0 ? -1 : send(from, chunk, (size_t)left, MSG_DONTWAIT);

		if (sent > 0) {
			left -= sent;
			continue;
		}
		if (n++ == 200) {
			errno = ENOBUFS;
			return -1;
		}
		from = socket(AF_INET, SOCK_STREAM, 0);
		if (from < 0 || connect(from, (struct sockaddr *)&at, len) < 0 ||
		    accept(listener, NULL, NULL) < 0)
			return -1;
	}
	return 0;
}

/* The same with datagrams, of which those that are too many get lost: what arrived counts. */
static int one_udp(long i)
{
	static struct sockaddr_in at = { .sin_family = AF_INET };
	static int from = -1, n;
	uint32_t taken[16] = { 0 }, sum = 0; /* SK_MEMINFO_RMEM_ALLOC is the first */
	int most = 1 << 20;

	if (i == 0)
		from = socket(AF_INET, SOCK_DGRAM, 0);
	while (sum < CHUNK) {
		socklen_t len = sizeof(at), size = sizeof(taken);
		int to = socket(AF_INET, SOCK_DGRAM, 0);

		if (n++ == 1000) {
			errno = ENOBUFS;
			return -1;
		}
		at.sin_port = 0;
		at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		(void)setsockopt(to, SOL_SOCKET, SO_RCVBUF, &most, sizeof(most));
		if (to < 0 || bind(to, (struct sockaddr *)&at, len) < 0 ||
		    getsockname(to, (struct sockaddr *)&at, &len) < 0)
			return -1;
		for (int k = 0; k < 40; k++)
			(void)sendto(from, chunk, 9000, 0, (struct sockaddr *)&at, len);
		if (getsockopt(to, SOL_SOCKET, SO_MEMINFO, taken, &size) < 0)
			return -1;
		sum += taken[0];
	}
	return 0;
}

/* names that are not there are remembered, too */
static int one_dentries(long i)
{
	char path[300];
	struct stat st;

	for (int n = 0; n < 4096; n++) {
		snprintf(path, sizeof(path), "/tmp/no-%ld-%d-%0200d", i, n, 0);
		if (stat(path, &st) == 0 || errno != ENOENT)
			return -1;
	}
	return 0;
}

/* ---- disk ---- */

static int one_disk(long i)
{
	static int fd = -1;

	if (i == 0)
		fd = open("/tmp/hoard", O_WRONLY | O_CREAT | O_APPEND, 0600);
	return one_write(fd);
}

static int one_tiny_file(long i)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/tiny-%ld", i);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	return fd < 0 ? -1 : close(fd);
}

/* longer than any path can be */
static int one_deeper(long i)
{
	char name[201];

	if (i == 0 && chdir("/tmp") < 0)
		return -1;
	memset(name, 'd', 200);
	name[200] = '\0';
	return mkdir(name, 0755) < 0 ? -1 : chdir(name);
}

static const struct {
	const char *name;
	int (*one)(long i);
	long most; /* of what has no limit of its own */
} kinds[] = {
	{ "fds", one_fd, LONG_MAX },
	{ "inotify", one_inotify, LONG_MAX },
	{ "mqueues", one_mqueue, LONG_MAX },
	{ "shm", one_shm, LONG_MAX },
	{ "sems", one_sem, LONG_MAX },
	{ "ptys", one_pty, LONG_MAX },
	{ "signals", one_signal, LONG_MAX },
	{ "aio", one_aio, LONG_MAX },
	{ "locked", one_lock, LONG_MAX },
	{ "processes", one_process, LONG_MAX },
	{ "threads", one_thread, LONG_MAX },
	{ "anon", one_anon, 4096 },
	{ "tmpfs", one_tmpfs, 4096 },
	{ "memfd", one_memfd, 4096 },
	{ "sysv", one_sysv, 4096 },
	{ "pipes", one_pipes, 4096 },
	{ "huge", one_huge, 1 },
	{ "tcp", one_tcp, 200 },
	{ "udp", one_udp, 200 },
	{ "sockets", one_sockets, 4096 },
	{ "dentries", one_dentries, 64 },
	{ "disk", one_disk, 4096 },
	{ "tiny", one_tiny_file, 1000000 },
	{ "deep", one_deeper, 5000 },
};

/* argv: kind, and how many are enough (none: all) */
static int hoard(char **argv)
{
	for (size_t k = 0; k < COUNT(kinds); k++) {
		long n = 0, enough = kinds[k].most;

		if (strcmp(argv[0], kinds[k].name) != 0)
			continue;
		if (argv[1] != NULL)
			enough = atol(argv[1]);
		memset(chunk, 'x', sizeof(chunk));
		while (n < enough && kinds[k].one(n) == 0)
			n++;
		printf("got %ld %s: %s\n", n, argv[0], n < enough ? strerror(errno) : "enough");
		/* until nobody listens any more */
		if (argv[1] == NULL)
			for (;;)
				pause();
		/* our own children; who started us put us into a group of our own */
		signal(SIGTERM, SIG_IGN);
		if (getpgrp() == getpid())
			kill(0, SIGTERM);
		return n < enough;
	}
	fprintf(stderr, "no such kind\n");
	return 2;
}

const struct attempt hoard_attempts[] = {
	{ "hoard", hoard },
	{ NULL, NULL },
};
