/* Others: their namespaces and sockets, what a former tenant left. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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

/* Every namespace that can be named, entered by its file and by its process. */
static int e39(char **argv)
{
	static const char *const kinds[] = { "user", "mnt", "pid",    "net",
					     "ipc",  "uts", "cgroup", "time" };
	char path[64], what[100];
	int bad = 0, tried = 0;

	(void)argv;
	for (int pid = 1; pid < 200; pid++) {
		int fd = (int)syscall(SYS_pidfd_open, pid, 0);

		if (fd < 0)
			continue;
		snprintf(what, sizeof(what), "all namespaces of %d", pid);
		bad |= refused(what, setns(fd, 0x7e020000));
		close(fd);
		for (size_t i = 0; i < COUNT(kinds); i++) {
			snprintf(path, sizeof(path), "/proc/%d/ns/%s", pid, kinds[i]);
			fd = open(path, O_RDONLY);
			snprintf(what, sizeof(what), "setns %s", path);
			tried++;
			bad |= refused(what, fd < 0 ? -1 : setns(fd, 0));
			if (fd >= 0)
				close(fd);
		}
	}
	return bad | (tried == 0);
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
	{ "E39", e39 },           { "E41", e41 },       { "E65", e65 },
	{ "survivor", survivor }, { "poison", poison }, { NULL, NULL },
};
