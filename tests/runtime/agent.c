/* A stand-in for execd: PID 1 of a sandbox under test.
 *
 * Started as `execd --listen-fd 3 --spec-fd 4`. Each connection brings one packet of text,
 * "UID\0ARG0\0ARG1\0...", and one or two descriptors: where the output goes, and a program to run
 * (without it ARG0 is looked up in PATH). When the command ends its wait status (4 bytes) is
 * written back and the connection closed. A UID of "-" answers about PID 1 itself: "spec" writes
 * the spec to the output. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_JOBS 256
#define MAX_ARGS 64

static struct {
	pid_t pid;
	int conn;
} jobs[MAX_JOBS];

static char *const clean_env[] = {
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
	"LANG=C.UTF-8", NULL
};

static void run(char **argv, const char *uid, const int *fds, int n_fds)
{
	unsigned id = (unsigned)strtoul(uid, NULL, 10);
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (setsid() < 0 || dup2(fds[0], 1) < 0 || dup2(fds[0], 2) < 0)
		_exit(125);
	if (id != 0 &&
	    (setgroups(0, NULL) < 0 || setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0))
		_exit(124);
	environ = (char **)clean_env;
	if (n_fds > 1) {
		/* out of the way of the close below */
		int program = fcntl(fds[1], F_DUPFD_CLOEXEC, 100);

		close_range(3, 99, 0);
		fexecve(program, argv, clean_env);
	} else {
		close_range(3, ~0U, 0);
		execvp(argv[0], argv);
	}
	dprintf(2, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

static void put_spec(int to)
{
	char buf[4096];
	ssize_t n;

	lseek(4, 0, SEEK_SET);
	while ((n = read(4, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)n) != n)
			break;
}

static void start(int conn)
{
	static char text[16384];
	char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec iov = { text, sizeof(text) - 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	char *argv[MAX_ARGS + 1] = { 0 };
	int fds[2], n_fds = 0, n_args = 0, job = 0;
	struct cmsghdr *c;
	ssize_t n;

	n = recvmsg(conn, &m, MSG_CMSG_CLOEXEC);
	c = CMSG_FIRSTHDR(&m);
	if (n <= 0 || c == NULL || c->cmsg_type != SCM_RIGHTS) {
		close(conn);
		return;
	}
	n_fds = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), (size_t)n_fds * sizeof(int));
	text[n] = '\0';
	for (char *p = text + strlen(text) + 1; p < text + n && n_args < MAX_ARGS;
	     p += strlen(p) + 1)
		argv[n_args++] = p;

	if (strcmp(text, "-") == 0) {
		put_spec(fds[0]);
		close(conn);
	} else {
		while (job < MAX_JOBS && jobs[job].pid != 0)
			job++;
		if (job == MAX_JOBS || n_args == 0 || (jobs[job].pid = fork()) < 0) {
			jobs[job % MAX_JOBS].pid = 0;
			close(conn);
		} else if (jobs[job].pid == 0) {
			run(argv, text, fds, n_fds);
		} else {
			jobs[job].conn = conn;
		}
	}
	for (int i = 0; i < n_fds; i++)
		close(fds[i]);
}

static void reap(int signals)
{
	struct signalfd_siginfo si;
	int status;
	pid_t pid;

	if (read(signals, &si, sizeof(si)) < 0)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < MAX_JOBS; i++)
			if (jobs[i].pid == pid) {
				if (write(jobs[i].conn, &status, sizeof(status)) < 0)
					perror("answer");
				close(jobs[i].conn);
				jobs[i].pid = 0;
			}
}

int main(void)
{
	struct pollfd p[2] = { { .fd = 3, .events = POLLIN }, { .events = POLLIN } };
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	p[1].fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	fcntl(3, F_SETFD, FD_CLOEXEC);
	fcntl(4, F_SETFD, FD_CLOEXEC);
	if (write(1, "ready\n", 6) < 0)
		errno = 0;
	for (;;) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			reap(p[1].fd);
		if (p[0].revents) {
			int conn = accept4(3, NULL, NULL, SOCK_CLOEXEC);

			if (conn >= 0)
				start(conn);
		}
	}
}
