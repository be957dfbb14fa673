#include "execd/run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "execd/oom.h"

/* Between SIGTERM and SIGKILL. */
#define INTERRUPT_GRACE_MS 3000

static void enter(struct run *run, enum run_state to)
{
	static const unsigned edges[] = {
		[RUN_STARTING] = 1u << RUN_RUNNING | 1u << RUN_DRAINING,
		[RUN_RUNNING] = 1u << RUN_DRAINING,
		[RUN_DRAINING] = 1u << RUN_FINISHED,
		[RUN_FINISHED] = 0,
	};

	assert((edges[run->state] & 1u << to) != 0);
	run->state = to;
}

static void release(struct run *run)
{
	if (--run->holds == 0)
		run->gone(run);
}

/* --- output --- */

static void outlet_closed(struct stream *s)
{
	struct run_outlet *o = CONTAINER_OF(s, struct run_outlet, stream);

	release(o->run);
}

static void outlet_close(struct run_outlet *o)
{
	if (!o->open)
		return;
	o->open = false;
	o->left = 0;
	stream_close(&o->stream, outlet_closed);
}

static bool streams(const struct run *run)
{
	return run->log == NULL && run->events.req != NULL;
}

/* Pass lines on until the client is to be waited for; the rest is carried over. */
static void outlet_emit(struct run_outlet *o, struct span data)
{
	struct run *run = o->run;
	struct span text;
	int r = 0, n = 0;

	while (r == 0 && (n = lines_next(&o->lines, &data, &text)) > 0) {
		events_text(&run->events, o->type, text);
		if (events_batch_full(&run->events))
			r = events_flush(&run->events);
	}
	if (n < 0) {
		events_abort(&run->events); /* no memory for the line: not to be passed over */
		return;
	}
	if (r == 0)
		(void)events_flush(&run->events);
	/* `data` may lie in the carry itself */
	if (data.len > 0 && streams(run)) {
		if (o->carry.len > 0)
			buf_consume(&o->carry, o->carry.len - data.len);
		else if (buf_add_span(&o->carry, data) < 0)
			events_abort(&run->events); /* as above */
	} else {
		buf_free(&o->carry);
	}
}

static void outlet_wait(struct run_outlet *o)
{
	const struct run *run = o->run;
	bool wait = streams(run) && run->events.full;

	/* a survivor's output has to wait until the leader's has been passed on */
	wait = wait || (run->state == RUN_DRAINING && o->left == 0);
	if (o->open)
		stream_want(&o->stream, wait ? 0 : STREAM_READABLE);
}

static void finish_if_drained(struct run *run);

static void outlet_data(struct run_outlet *o, struct span data)
{
	struct run *run = o->run;

	if (run->state == RUN_DRAINING)
		o->left -= MIN(o->left, data.len);
	if (run->log != NULL)
		logbuf_add(run->log, data);
	else if (streams(run))
		outlet_emit(o, data);
}

static void outlet_read(struct run_outlet *o)
{
	struct io_loop *l = &o->run->x->loop;
	size_t want = o->run->state == RUN_DRAINING ? MIN(o->left, IO_READ_SIZE) : IO_READ_SIZE;
	ssize_t n;

	if (want == 0 || o->carry.len > 0)
		return; /* what comes now waits for the end of the run, or for the client */
	n = stream_read(&o->stream, l->read_buf, want);
	if (n == -EAGAIN)
		return;
	if (n <= 0)
		outlet_close(o);
	else
		outlet_data(o, span_of(l->read_buf, (size_t)n));
}

static void outlet_ready(struct stream *s, unsigned events)
{
	struct run_outlet *o = CONTAINER_OF(s, struct run_outlet, stream);
	struct run *run = o->run;

	(void)events;
	outlet_read(o);
	if (run->state == RUN_DRAINING)
		finish_if_drained(run);
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++) /* they share the client */
		outlet_wait(&run->outlets[i]);
}

/* The client takes more: first what was carried over. */
static void go_on(struct run *run)
{
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++) {
		struct run_outlet *o = &run->outlets[i];

		if (o->carry.len > 0 && !run->events.full)
			outlet_emit(o, buf_span(&o->carry));
	}
	if (run->state == RUN_DRAINING)
		finish_if_drained(run);
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		outlet_wait(&run->outlets[i]);
}

static void on_drained(struct events *ev)
{
	go_on(CONTAINER_OF(ev, struct run, events));
}

static void on_left(struct events *ev)
{
	struct run *run = CONTAINER_OF(ev, struct run, events);

	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		buf_free(&run->outlets[i].carry);
	if (run->cancel_on_leave && run->state < RUN_DRAINING)
		run_kill(run, RUN_CANCELLED);
	go_on(run);
}

/* --- the end --- */

static void timer_closed(struct io_timer *t)
{
	release(CONTAINER_OF(t, struct run, timer));
}

static void timer_close(struct run *run)
{
	if (!run->timer_open)
		return;
	run->timer_open = false;
	io_timer_close(&run->timer, timer_closed);
}

static void outlet_finish(struct run_outlet *o)
{
	struct span text;

	if (streams(o->run) && lines_finish(&o->lines, &text))
		events_text(&o->run->events, o->type, text);
	lines_free(&o->lines);
}

static void finish(struct run *run)
{
	enter(run, RUN_FINISHED);
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		outlet_finish(&run->outlets[i]);
	if (streams(run))
		(void)events_flush(&run->events);
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		if (run->proc_gone)
			outlet_close(&run->outlets[i]);
	run->finished(run);
}

/* Read what is left of the leader's output; all of it read and taken: finished. */
static void finish_if_drained(struct run *run)
{
	bool blocked = streams(run) && run->events.full;

	for (unsigned i = 0; i < ARRAY_LEN(run->outlets) && !blocked; i++) {
		struct run_outlet *o = &run->outlets[i];

		while (o->open && o->left > 0 && !blocked) {
			size_t before = o->left;

			outlet_read(o);
			if (o->open && o->left == before)
				o->left = 0; /* somebody else read it */
			blocked = streams(run) && run->events.full;
		}
	}
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		if (run->outlets[i].left > 0 || run->outlets[i].carry.len > 0)
			return;
	if (run->state == RUN_DRAINING) /* a client that was lost on the way has finished it */
		finish(run);
}

static void begin_draining(struct run *run)
{
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++) {
		struct run_outlet *o = &run->outlets[i];
		int pending = 0;

		if (o->open && ioctl(o->stream.fd, FIONREAD, &pending) == 0)
			o->left = (size_t)MAX(pending, 0);
	}
	run->finished_ms = clock_mono_ms();
	if (run->end != RUN_INTERRUPTED) /* then it still guards what the leader left */
		timer_close(run);
	enter(run, RUN_DRAINING);
	if (run->ended != NULL)
		run->ended(run);
	finish_if_drained(run);
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		outlet_wait(&run->outlets[i]);
}

static void on_started(struct proc *p)
{
	struct run *run = CONTAINER_OF(p, struct run, proc);

	enter(run, RUN_RUNNING);
	if (run->started != NULL)
		run->started(run);
}

static void on_failed(struct proc *p, const struct err *e)
{
	struct run *run = CONTAINER_OF(p, struct run, proc);

	run->end = RUN_NOT_STARTED;
	run->error = *e;
	begin_draining(run);
}

static void on_exited(struct proc *p, int wait_status)
{
	struct run *run = CONTAINER_OF(p, struct run, proc);
	bool killed = WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL;
	bool child_killed = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 128 + SIGKILL;

	run->wait_status = wait_status;
	if ((killed || child_killed) && run->end == RUN_BY_ITSELF)
		run->oom = oom_kills(run->x) > run->oom_kills;
	begin_draining(run);
}

static void on_gone(struct proc *p)
{
	struct run *run = CONTAINER_OF(p, struct run, proc);

	/* Whoever holds the pipes now is none of ours; nobody does, as a rule. */
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		if (run->state == RUN_FINISHED)
			outlet_close(&run->outlets[i]);
	timer_close(run);
	run->proc_gone = true;
	if (run->dead != NULL)
		run->dead(run);
	release(run);
}

/* --- ending it --- */

static void on_timer(struct io_timer *t)
{
	struct run *run = CONTAINER_OF(t, struct run, timer);

	run_kill(run, RUN_TIMED_OUT);
}

void run_kill(struct run *run, enum run_end why)
{
	if (run->proc_gone)
		return;
	if (run->end == RUN_BY_ITSELF && run->state < RUN_DRAINING)
		run->end = why;
	proc_kill(&run->proc);
}

static void timer_set(struct run *run, uint64_t after_ms)
{
	if (!run->timer_open) {
		io_timer_init(&run->x->loop, &run->timer, on_timer);
		run->timer_open = true;
		run->holds++;
	}
	io_timer_start(&run->timer, after_ms, 0);
}

void run_interrupt(struct run *run)
{
	if (run->proc_gone || run->end != RUN_BY_ITSELF)
		return;
	if (run->state < RUN_DRAINING)
		run->end = RUN_INTERRUPTED;
	proc_signal(&run->proc, SIGTERM, true);
	timer_set(run, INTERRUPT_GRACE_MS);
}

/* --- the beginning --- */

static int outlet_open(struct run *run, struct run_outlet *o, const char *type, int *ret_write_fd,
		       struct err *e)
{
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	o->type = type;
	lines_init(&o->lines, EVENTS_MAX_TEXT);
	o->carry = BUF_INIT(IO_READ_SIZE);
	r = stream_open(&run->x->loop, &o->stream, fds[0], &stream_plain_ops, outlet_ready, e);
	if (r < 0) {
		(void)close(fds[1]);
		return r;
	}
	o->open = true;
	run->holds++;
	stream_want(&o->stream, STREAM_READABLE);
	*ret_write_fd = fds[1];
	return 0;
}

/* It could not even be tried. Told later, like everything else. */
static void give_up(struct io_defer *d)
{
	struct run *run = CONTAINER_OF(d, struct run, give_up);

	begin_draining(run);
	on_gone(&run->proc);
}

void run_start(struct execd *x, struct run *run, struct proc_spec *spec)
{
	autofd int out = -EBADF, err = -EBADF;
	struct err e = ERR_INIT;
	int r;

	run->x = x;
	run->state = RUN_STARTING;
	run->end = RUN_BY_ITSELF;
	run->events.drained = on_drained;
	run->events.left = on_left;
	run->proc.started = on_started;
	run->proc.failed = on_failed;
	run->proc.exited = on_exited;
	run->proc.gone = on_gone;
	run->holds = 1; /* ours, until the process is gone */
	run->started_ms = clock_mono_ms();
	for (unsigned i = 0; i < ARRAY_LEN(run->outlets); i++)
		run->outlets[i].run = run;
	run->oom_kills = oom_kills(x);
	r = outlet_open(run, &run->outlets[0], "stdout", &out, &e);
	if (r == 0 && run->log == NULL)
		r = outlet_open(run, &run->outlets[1], "stderr", &err, &e);
	if (r == 0) {
		spec->fds[1] = out;
		spec->fds[2] = err >= 0 ? err : out; /* in a log their order is what counts */
		r = proc_start(x, &run->proc, spec, &e);
	}
	if (r < 0) { /* one way to end: as if the process had failed and gone */
		run->end = RUN_NOT_STARTED;
		run->error = e;
		io_defer_init(&run->give_up, give_up);
		io_defer_add(&x->loop, &run->give_up);
	} else if (run->timeout_ms > 0) {
		timer_set(run, run->timeout_ms);
	}
}

/* --- words --- */

/* "90s", "1.5s", "250ms" */
static void duration(uint64_t ms, char *out, size_t size)
{
	if (ms < 1000)
		(void)snprintf(out, size, "%llums", (unsigned long long)ms);
	else if (ms % 1000 == 0)
		(void)snprintf(out, size, "%llus", (unsigned long long)ms / 1000);
	else
		(void)snprintf(out, size, "%.3gs", (double)ms / 1000);
}

int run_exit_code(const struct run *run)
{
	return run->end == RUN_NOT_STARTED ? 255 : proc_exit_code(run->wait_status);
}

/* Why it ended as it did, if that is known; "" otherwise. */
static void reason(const struct run *run, char *out, size_t size)
{
	char after[32];

	out[0] = '\0';
	switch (run->end) {
	case RUN_TIMED_OUT:
		duration(run->timeout_ms, after, sizeof(after));
		(void)snprintf(out, size, "timeout after %s", after);
		break;
	case RUN_INTERRUPTED:
		(void)snprintf(out, size, "interrupted");
		break;
	case RUN_CANCELLED:
		(void)snprintf(out, size, "cancelled: the client disconnected");
		break;
	case RUN_BY_ITSELF:
		if (run->oom)
			(void)snprintf(out, size, "out of memory");
		break;
	case RUN_NOT_STARTED:
		(void)snprintf(out, size, "%s", run->error.msg);
		break;
	}
}

void run_words(const struct run *run, char *out, size_t size)
{
	char status[64], why[256];

	out[0] = '\0';
	if (run->end != RUN_NOT_STARTED && run->wait_status == 0)
		return;
	proc_status_text(run->wait_status, status, sizeof(status));
	reason(run, why, sizeof(why));
	if (run->end == RUN_NOT_STARTED || why[0] == '\0')
		(void)snprintf(out, size, "%s", why[0] != '\0' ? why : status);
	else
		(void)snprintf(out, size, "%s: %s", why, status);
}

void run_tell(struct run *run)
{
	char code[16], status[64], why[256], number[48];
	const char *lines[3];
	unsigned n = 0;

	reason(run, why, sizeof(why));
	if (run->end == RUN_NOT_STARTED) {
		lines[n++] = why;
		events_error(&run->events, "CommandExecError", why, lines, n);
	} else if (run->wait_status == 0) {
		events_complete(&run->events, run->finished_ms - run->started_ms);
	} else {
		(void)snprintf(code, sizeof(code), "%d", proc_exit_code(run->wait_status));
		proc_status_text(run->wait_status, status, sizeof(status));
		if (why[0] != '\0')
			lines[n++] = why;
		lines[n++] = status;
		if (WIFSIGNALED(run->wait_status)) {
			(void)snprintf(number, sizeof(number), "killed by signal %d",
				       WTERMSIG(run->wait_status));
			lines[n++] = number;
		}
		events_error(&run->events, "CommandExecError", code, lines, n);
	}
	events_close(&run->events);
}
