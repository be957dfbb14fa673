#include "driver/native/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/util.h"
#include "sys/imsg.h"

#define PATIENCE_MS 2000 /* with a runner whose connection is gone: it leaves by itself */

/* --- the other process; nothing here allocates --- */

static void set_signal(int signum, void (*what)(int))
{
	const struct sigaction sa = { .sa_handler = what };

	(void)sigaction(signum, &sa, NULL);
}

static void end_runner(int *pidfd)
{
	struct pollfd p = { .fd = *pidfd, .events = POLLIN };

	if (*pidfd < 0)
		return;
	if (poll(&p, 1, PATIENCE_MS) == 0) {
		(void)syscall(SYS_pidfd_send_signal, *pidfd, SIGKILL, NULL, 0);
		(void)poll(&p, 1, -1);
	}
	fd_close(pidfd);
}

static _Noreturn void exec_runner(const char *const *args, int sock)
{
	char *const *argv;

	memcpy(&argv, &args, sizeof(argv)); /* execv does not write there */
	set_signal(SIGCHLD, SIG_DFL);
	set_signal(SIGTERM, SIG_DFL);
	set_signal(SIGINT, SIG_DFL);
	/* received close-on-exec, and perhaps in the right place already */
	if (sock == KEEPER_RUNNER_FD ? fcntl(sock, F_SETFD, 0) == 0
				     : dup2(sock, KEEPER_RUNNER_FD) == KEEPER_RUNNER_FD)
		(void)execv(argv[0], argv);
	_exit(127);
}

static int start_runner(const char *const *args, int sock)
{
	pid_t pid = fork();

	if (pid == 0)
		exec_runner(args, sock);
	return pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
}

static _Noreturn void keep(int fd, const char *const *args)
{
	int runner = -EBADF;

	set_signal(SIGCHLD, SIG_IGN); /* reaped by the kernel; a pidfd still tells the end */
	set_signal(SIGTERM, SIG_IGN); /* it ends with the server, not before */
	set_signal(SIGINT, SIG_IGN);
	(void)prctl(PR_SET_NAME, "osb-keeper");
	for (;;) {
		char order;
		int sock = -EBADF;
		size_t n_fds = 1;
		ssize_t n = imsg_recv(fd, &order, sizeof(order), &sock, &n_fds);

		if (n <= 0)
			break;
		end_runner(&runner);
		if (n_fds == 1) {
			runner = start_runner(args, sock);
			(void)close(sock);
		}
	}
	end_runner(&runner);
	_exit(0);
}

/* --- the server's side --- */

int keeper_start(const char *const *args, struct keeper *ret, struct err *e)
{
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socket pair for the runner's keeper");
	pid = fork();
	if (pid < 0) {
		(void)close(pair[0]);
		(void)close(pair[1]);
		return err_sys(e, "fork the runner's keeper");
	}
	if (pid == 0) {
		/* out of the way of descriptor 3, and nothing else of the server's */
		int fd = dup2(pair[1], KEEPER_RUNNER_FD + 1);

		(void)close(KEEPER_RUNNER_FD);
		(void)syscall(SYS_close_range, (unsigned)fd + 1, ~0u, 0);
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
		keep(fd, args);
	}
	(void)close(pair[1]);
	*ret = (struct keeper){ pair[0], pid };
	return 0;
}

int keeper_runner(int keeper_fd, int *ret_fd, struct err *e)
{
	int pair[2], r;
	char order = 1;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "socket pair for the runner");
	r = imsg_send(keeper_fd, &order, sizeof(order), &pair[1], 1);
	(void)close(pair[1]);
	if (r < 0) {
		(void)close(pair[0]);
		return err_code(e, r, "ask for a runner");
	}
	*ret_fd = pair[0];
	return 0;
}

void keeper_end(struct keeper *k)
{
	if (k->fd < 0)
		return;
	fd_close(&k->fd);
	while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
		;
}
