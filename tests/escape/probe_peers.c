/* Others: sockets of the host, metadata services, what a former tenant left. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* argv: names; '@' in front means abstract */
static int e41(char **argv)
{
	static const char *const usual[] = {
		"/var/run/docker.sock",
		"/run/docker.sock",
		"/run/containerd/containerd.sock",
		"/run/podman/podman.sock",
		"/run/crio/crio.sock",
		"/run/systemd/private",
		"/run/dbus/system_bus_socket",
		"/run/opensandbox/runner.sock",
	};
	int bad = 0;

	for (size_t i = 0;; i++) {
		size_t n_usual = sizeof(usual) / sizeof(usual[0]);
		const char *name = i < n_usual ? usual[i] : argv[i - n_usual];
		struct sockaddr_un a = { .sun_family = AF_UNIX };
		socklen_t len = sizeof(a);
		char what[200];
		int fd;

		if (name == NULL)
			break;
		snprintf(what, sizeof(what), "connect %s", name);
		snprintf(a.sun_path, sizeof(a.sun_path), "%s", name);
		if (name[0] == '@') {
			a.sun_path[0] = '\0';
			len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
		}
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		bad |= refused(what, connect(fd, (struct sockaddr *)&a, len));
		close(fd);
	}
	return bad;
}

/* argv: addresses and ports in turn */
static int e42(char **argv)
{
	int bad = 0;

	for (; argv[0] != NULL; argv += 2) {
		struct sockaddr_in v4 = { .sin_family = AF_INET };
		struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
		bool six = strchr(argv[0], ':') != NULL;
		int fd = socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0),
		    error = 0;
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		socklen_t len = sizeof(error);
		char what[200];
		int r;

		snprintf(what, sizeof(what), "connect %s port %s", argv[0], argv[1]);
		v4.sin_port = v6.sin6_port = htons((uint16_t)atoi(argv[1]));
		inet_pton(AF_INET, argv[0], &v4.sin_addr);
		inet_pton(AF_INET6, argv[0], &v6.sin6_addr);
		r = six ? connect(fd, (struct sockaddr *)&v6, sizeof(v6))
			: connect(fd, (struct sockaddr *)&v4, sizeof(v4));
		if (r < 0 && errno == EINPROGRESS) {
			if (poll(&p, 1, 20000) <= 0)
				error = ETIMEDOUT;
			else
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
			errno = error;
			r = error != 0 ? -1 : 0;
		}
		bad |= refused(what, r);
		close(fd);
	}
	return bad;
}

/* E31: families that reach past the network namespace */
static int e31(char **argv)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} kinds[] = {
		{ "AF_PACKET", AF_PACKET, SOCK_RAW, 0x0300 },
		{ "AF_VSOCK", AF_VSOCK, SOCK_STREAM, 0 },
		{ "AF_ALG", AF_ALG, SOCK_SEQPACKET, 0 },
		{ "AF_BLUETOOTH", AF_BLUETOOTH, SOCK_RAW, 0 },
		{ "AF_XDP", 44, SOCK_RAW, 0 },
		{ "AF_KEY", AF_KEY, SOCK_RAW, 2 },
		{ "raw ICMP", AF_INET, SOCK_RAW, 1 },
		{ "raw IP", AF_INET, SOCK_RAW, 255 },
		{ "raw ICMPv6", AF_INET6, SOCK_RAW, 58 },
		{ "netlink netfilter", AF_NETLINK, SOCK_RAW, 12 },
		{ "netlink uevent", AF_NETLINK, SOCK_RAW, 15 },
		{ "netlink audit", AF_NETLINK, SOCK_RAW, 9 },
		{ "netlink generic", AF_NETLINK, SOCK_RAW, 16 },
		{ "netlink xfrm", AF_NETLINK, SOCK_RAW, 6 },
	};
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		bad |= refused(kinds[i].name,
			       socket(kinds[i].family, kinds[i].type, kinds[i].protocol));
	return bad;
}

/* A process that does everything not to be found: E63 starts it, the host looks for it. */
static int survivor(char **argv)
{
	(void)argv;
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid > 0)
			return 0;
		setsid();
	}
	for (int sig = 1; sig < 65; sig++)
		signal(sig, SIG_IGN);
	if (write(1, "hiding\n", 7) < 0)
		return 1;
	close_range(0, ~0U, 0);
	for (;;)
		pause();
}

#define POISON_KEY 0x6f7362

/* E65: leave something everywhere / look for it */
static int poison(char **argv)
{
	static const char *const files[] = { "/tmp/poison", "/dev/shm/poison", "/var/tmp/poison",
					     "/home/sandbox/poison", "/run/lock/poison" };
	int made = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int fd = open(files[i], O_WRONLY | O_CREAT, 0644);

		if (fd >= 0 && write(fd, "poison", 6) == 6)
			made++;
	}
	if (shmget(POISON_KEY, 4096, IPC_CREAT | 0666) >= 0)
		made++;
	printf("left %d things\n", made);
	return made < 4;
}

static int e65(char **argv)
{
	int bad = 0;

	(void)argv;
	bad |= cannot_open("/tmp/poison", O_RDONLY);
	bad |= cannot_open("/dev/shm/poison", O_RDONLY);
	bad |= cannot_open("/var/tmp/poison", O_RDONLY);
	bad |= cannot_open("/home/sandbox/poison", O_RDONLY);
	bad |= cannot_open("/run/lock/poison", O_RDONLY);
	bad |= refused("shared memory of the last tenant", shmget(POISON_KEY, 0, 0));
	for (int pid = 2; pid < 400; pid++)
		if (pid != getpid() && kill(pid, 0) == 0)
			bad |= refused("a process of the last tenant", 0);
	return bad;
}

const struct attempt peer_attempts[] = {
	{ "E31", e31 },           { "E41", e41 },       { "E42", e42 }, { "E65", e65 },
	{ "survivor", survivor }, { "poison", poison }, { NULL, NULL },
};
