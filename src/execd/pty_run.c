#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "execd/env.h"
#include "execd/pty.h"

#define INPUT_MAX  MIB(4)
#define INPUT_SOFT KIB(64)
#define FIRST_COLS 80
#define FIRST_ROWS 24

/* --- the ends --- */

static void run_release(struct pty_run *run)
{
	struct pty *p = run->pty;

	if (--run->holds > 0)
		return;
	list_remove(&run->link);
	if (p->run != run) {
		buf_free(&run->input);
		free(run);
	} /* else: it is kept for its exit code, until another takes its place */
	pty_settle(p);
}

static void end_closed(struct stream *s)
{
	run_release(CONTAINER_OF(s, struct pty_end, stream)->run);
}

static void end_close(struct pty_end *end)
{
	if (!end->open)
		return;
	end->open = false;
	stream_close(&end->stream, end_closed);
}

/* One read; false when there is nothing (more). */
static bool take_output(struct pty_end *end)
{
	struct io_loop *l = stream_loop(&end->stream);
	ssize_t n = stream_read(&end->stream, l->read_buf, IO_READ_SIZE);

	if (n > 0) {
		ring_add(&end->run->pty->ring, end->channel, span_of(l->read_buf, (size_t)n));
		return true;
	}
	if (n != -EAGAIN) /* the end; a terminal that nobody has open says EIO */
		end_close(end);
	return false;
}

static void output_ready(struct stream *s, unsigned events)
{
	struct pty_end *end = CONTAINER_OF(s, struct pty_end, stream);
	struct pty *p = end->run->pty;

	(void)events;
	(void)take_output(end);
	pty_client_step(p);
}

static void flush_input(struct pty_run *run)
{
	struct buf *b = &run->input;

	while (b->len > 0 && run->in.open) {
		struct iovec iov = { b->data, b->len };
		ssize_t n = stream_writev(&run->in.stream, &iov, 1);

		if (n == -EAGAIN)
			break;
		if (n < 0) {
			buf_clear(b);
			end_close(&run->in);
			return;
		}
		buf_consume(b, (size_t)n);
	}
	if (run->in.open)
		stream_want(&run->in.stream, b->len > 0 ? STREAM_WRITABLE : 0);
	if (b->len == 0)
		buf_free(b);
}

static void input_ready(struct stream *s, unsigned events)
{
	struct pty_run *run = CONTAINER_OF(s, struct pty_end, stream)->run;

	(void)events;
	flush_input(run);
	if (run->input.len < INPUT_SOFT)
		pty_client_input_drained(run->pty);
}

int pty_run_input(struct pty_run *run, struct span data)
{
	if (!run->in.open || run->state == PTY_RUN_ENDED)
		return -EPIPE;
	if (buf_add_span(&run->input, data) < 0)
		return -EPIPE;
	flush_input(run);
	if (!run->in.open)
		return -EPIPE;
	return run->input.len >= INPUT_SOFT;
}

/* --- control --- */

void pty_run_signal(struct pty_run *run, int signum)
{
	pid_t group = run->pipe || !run->out.open ? -1 : tcgetpgrp(run->out.stream.fd);

	if (run->state == PTY_RUN_ENDED)
		return;
	if (group > 1 && kill(-group, signum) == 0)
		return;
	proc_signal(&run->proc, signum, false);
}

void pty_run_resize(struct pty_run *run, unsigned cols, unsigned rows)
{
	struct winsize size = { .ws_col = (unsigned short)MIN(cols, 65535u),
				.ws_row = (unsigned short)MIN(rows, 65535u) };

	if (!run->pipe && run->out.open)
		(void)ioctl(run->out.stream.fd, TIOCSWINSZ, &size);
}

/* --- the process --- */

static void on_started(struct proc *proc)
{
	struct pty_run *run = proc->user;

	run->state = PTY_RUN_RUNNING;
	pty_client_step(run->pty);
}

static void ended(struct pty_run *run, int exit_code)
{
	/* All that was written before the end is there to be read; what others who still have the
	 * terminal write meanwhile need not be waited for. */
	size_t budget = run->pty->ring.size / IO_READ_SIZE * 4;

	run->state = PTY_RUN_ENDED;
	run->exit_code = exit_code;
	for (; budget > 0 && run->out.open && take_output(&run->out); budget--)
		;
	for (; budget > 0 && run->err.open && take_output(&run->err); budget--)
		;
	end_close(&run->in);
	end_close(&run->out);
	end_close(&run->err);
}

static void on_failed(struct proc *proc, const struct err *e)
{
	struct pty_run *run = proc->user;
	struct pty *p = run->pty;

	ended(run, -1);
	p->exit_told = true;
	pty_client_failed(p, e);
}

static void on_exited(struct proc *proc, int wait_status)
{
	struct pty_run *run = proc->user;

	ended(run, proc_exit_code(wait_status));
	pty_client_step(run->pty);
}

static void on_gone(struct proc *proc)
{
	run_release(proc->user);
}

/* --- starting --- */

/* A terminal: *ret_master is ours, *ret_slave the shell's. */
static int open_terminal(int *ret_master, int *ret_slave, struct err *e)
{
	struct winsize size = { .ws_col = FIRST_COLS, .ws_row = FIRST_ROWS };
	autofd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	autofd int slave = -EBADF;
	struct termios t;
	int unlock = 0;

	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return err_sys(e, "open a terminal");
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) { /* Linux before 4.13, gVisor */
		unsigned number = 0;
		char name[32];

		if (ioctl(master, TIOCGPTN, &number) < 0)
			return err_sys(e, "open a terminal");
		(void)snprintf(name, sizeof(name), "/dev/pts/%u", number);
		slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	}
	if (slave < 0)
		return err_sys(e, "open a terminal");
	(void)ioctl(slave, TIOCSWINSZ, &size);
	if (tcgetattr(slave, &t) == 0) { /* erasing takes away whole characters */
		t.c_iflag |= IUTF8;
		(void)tcsetattr(slave, TCSANOW, &t);
	}
	*ret_master = TAKE_FD(master);
	*ret_slave = TAKE_FD(slave);
	return 0;
}

static int end_open(struct pty_run *run, struct pty_end *end, int fd, unsigned char channel,
		    struct io_loop *l, struct err *e)
{
	int r = stream_open(l, &end->stream, fd, &stream_plain_ops,
			    channel != 0 ? output_ready : input_ready, e);

	if (r < 0)
		return r;
	end->run = run;
	end->channel = channel;
	end->open = true;
	run->holds++;
	if (channel != 0)
		stream_want(&end->stream, STREAM_READABLE);
	return 0;
}

/* Our ends, and in `theirs` what the shell gets as 0, 1 and 2. Of a terminal these are one. */
static int open_terminal_ends(struct pty_run *run, struct io_loop *l, int theirs[3], struct err *e)
{
	int master = -EBADF, again, r;

	r = open_terminal(&master, &theirs[0], e);
	if (r < 0)
		return r;
	theirs[1] = theirs[2] = theirs[0];
	again = fcntl(master, F_DUPFD_CLOEXEC, 3); /* to be polled for itself */
	r = again < 0 ? err_sys(e, "open a terminal") : 0;
	if (r == 0)
		r = end_open(run, &run->in, again, 0, l, e);
	if (r == 0)
		return end_open(run, &run->out, master, PTY_STDOUT, l, e);
	(void)close(master);
	return r;
}

static int open_pipe_ends(struct pty_run *run, struct io_loop *l, int theirs[3], struct err *e)
{
	struct pty_end *const ends[] = { &run->in, &run->out, &run->err };
	static const unsigned char channels[] = { 0, PTY_STDOUT, PTY_STDERR };

	for (int i = 0; i < 3; i++) {
		int fds[2], r;

		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_sys(e, "make a pipe");
		theirs[i] = fds[i != 0];
		r = end_open(run, ends[i], fds[i == 0], channels[i], l, e);
		if (r < 0)
			return r;
	}
	return 0;
}

static int start_shell(struct execd *x, struct pty_run *run, const int theirs[3], struct err *e)
{
	const struct pty *p = run->pty;
	autofree char *shell = NULL;
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	static char norc[] = "--norc", noprofile[] = "--noprofile", dash_c[] = "-c";
	char *argv[8];
	size_t n = 0;
	bool bash;
	int r;

	r = proc_shell(x, &shell, &bash, e);
	if (r < 0)
		return r;
	env_init(env);
	r = env_for_process(x, env, e);
	if (r == 0 && !run->pipe)
		r = env_set(env, SPAN_LIT("TERM"), SPAN_LIT("xterm-256color"));
	if (r < 0)
		return r;
	argv[n++] = shell;
	if (bash) {
		argv[n++] = norc;
		argv[n++] = noprofile;
	}
	if (p->command != NULL) {
		argv[n++] = dash_c;
		argv[n++] = p->command;
	}
	argv[n] = NULL;
	return proc_start(x, &run->proc,
			  &(struct proc_spec){
				  .path = shell,
				  .argv = argv,
				  .envp = env->vars,
				  .cwd = p->cwd,
				  .fds = { theirs[0], theirs[1], theirs[2] },
				  .n_fds = 3,
				  .tty = !run->pipe,
			  },
			  e);
}

int pty_run_start(struct execd *x, struct pty *p, bool pipe, struct err *e)
{
	int theirs[3] = { -EBADF, -EBADF, -EBADF }, r;
	struct pty_run *run = calloc(1, sizeof(*run)), *before = p->run;

	if (run == NULL)
		return err_code(e, ENOMEM, "start a shell");
	run->pty = p;
	run->pipe = pipe;
	run->restarted = before != NULL;
	run->input = BUF_INIT(INPUT_MAX);
	run->proc.user = run;
	run->proc.started = on_started;
	run->proc.failed = on_failed;
	run->proc.exited = on_exited;
	run->proc.gone = on_gone;
	run->holds = 1; /* ours, for the time of starting */
	list_push_front(&p->runs, &run->link);
	r = p->ring.data == NULL ? ring_init(&p->ring, MIB(1)) : 0;
	if (r < 0)
		(void)err_code(e, r, "start a shell");
	if (r == 0)
		r = pipe ? open_pipe_ends(run, &x->loop, theirs, e)
			 : open_terminal_ends(run, &x->loop, theirs, e);
	if (r == 0)
		r = start_shell(x, run, theirs, e);
	for (int i = 0; i < (pipe ? 3 : 1); i++)
		fd_close(&theirs[i]);
	if (r < 0) {
		end_close(&run->in);
		end_close(&run->out);
		end_close(&run->err);
		run_release(run);
		return r;
	}
	/* the hold is the process's from here on */
	p->run = run;
	p->exit_told = false;
	if (before != NULL && before->holds == 0) {
		buf_free(&before->input);
		free(before);
	}
	return 0;
}
