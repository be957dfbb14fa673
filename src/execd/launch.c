#include "execd/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "execd/copyfd.h"
#include "execd/isolate.h"

static void release(struct launch *l)
{
	if (--l->holds == 0)
		l->gone(l);
}

static void status_closed(struct stream *s)
{
	release(CONTAINER_OF(s, struct launch, status));
}

/* The status is at its end: no words mean that it runs, unless it has ended by now. */
static void tell(struct launch *l)
{
	bool died = l->exited && l->wait_status != 0;

	if (l->told)
		return;
	l->told = true;
	l->words[l->len] = '\0';
	if (l->len > 0)
		l->ready(l, l->words[0], l->words + 1);
	else if (died)
		l->ready(l, ISOLATE_DENIED, "it ended before it began");
	else
		l->ready(l, 0, "");
	if (l->exited && !died && l->ended != NULL)
		l->ended(l, l->wait_status);
}

static void read_status(struct launch *l)
{
	ssize_t n;

	while (l->status_open) {
		n = stream_read(&l->status, l->words + l->len, sizeof(l->words) - 1 - l->len);
		if (n == -EAGAIN)
			return;
		if (n > 0) {
			l->len += (size_t)n;
			continue;
		}
		l->status_open = false;
		stream_close(&l->status, status_closed);
	}
	tell(l);
}

static void status_ready(struct stream *s, unsigned events)
{
	(void)events;
	read_status(CONTAINER_OF(s, struct launch, status));
}

static void on_exited(struct proc *p, int wait_status)
{
	struct launch *l = p->user;

	l->exited = true;
	l->wait_status = wait_status;
	if (l->told && l->ended != NULL)
		l->ended(l, wait_status);
}

static void on_failed(struct proc *p, const struct err *e)
{
	struct launch *l = p->user;

	(void)snprintf(l->words, sizeof(l->words), "%c%s", ISOLATE_DENIED, e->msg);
	l->len = strlen(l->words);
}

/* Nobody is left who could write to the status. */
static void on_gone(struct proc *p)
{
	struct launch *l = p->user;

	read_status(l);
	if (l->status_open) {
		l->status_open = false;
		stream_close(&l->status, status_closed);
		tell(l);
	}
	release(l);
}

/* A text as a descriptor. */
static int text_fd(const char *name, struct span text, struct err *e)
{
	autofd int fd = memfd_create(name, MFD_CLOEXEC);
	int r;

	if (fd < 0)
		return err_sys(e, "make a memory file");
	r = copyfd_write(fd, text.p, text.len, e);
	return r < 0 ? r : TAKE_FD(fd);
}

int launch_start(struct execd *x, struct launch *l, struct span plan, struct span spec,
		 int listen_fd, struct err *e)
{
	static char name[] = ISOLATE_NAME;
	char *argv[] = { name, NULL }, *envp[] = { NULL };
	autofd int plan_fd = text_fd("plan", plan, e), spec_fd = text_fd("spec", spec, e);
	autofd int status_fd = -EBADF;
	int pipe_fds[2], r;

	if (plan_fd < 0 || spec_fd < 0)
		return -e->code;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return err_sys(e, "make a pipe");
	status_fd = pipe_fds[1];
	r = stream_open(&x->loop, &l->status, pipe_fds[0], &stream_plain_ops, status_ready, e);
	if (r < 0)
		return r;
	l->status_open = true;
	l->holds = 2;
	l->proc.user = l;
	l->proc.started = NULL;
	l->proc.failed = on_failed;
	l->proc.exited = on_exited;
	l->proc.gone = on_gone;
	r = proc_start(
		x, &l->proc,
		&(struct proc_spec){
			.path = "/proc/self/exe",
			.argv = argv,
			.envp = envp,
			.fds = { -EBADF, -EBADF, -EBADF, plan_fd, listen_fd, spec_fd, status_fd },
			.n_fds = ISOLATE_N_FDS,
		},
		e);
	stream_want(&l->status, STREAM_READABLE);
	if (r < 0) { /* as if it had started and gone, so that there is one way out */
		on_failed(&l->proc, e);
		fd_close(&status_fd);
		on_gone(&l->proc);
	}
	return 0;
}

void launch_kill(struct launch *l)
{
	proc_kill(&l->proc);
}
