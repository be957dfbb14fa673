#include "execd/kernel.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "execd/kernel_process.h"
#include "execd/kernel_template.h"
#include "execd/oom.h"

/* Until a kernel is ready. A first one may have to compile itself. */
#define START_MS 300000
/* Until one that the template forks is: a moment, unless somebody has stopped the template. */
#define FORK_MS 10000
/* Between the end of the control socket and the end of the process. */
#define EXIT_GRACE_MS 2000
/* Told of a kernel that could not be started. */
#define LAST_OUTPUT 400
/* Why a kernel ends whose cell has played with the driver's descriptors. */
#define NOT_OURS "something other than its driver wrote to its control socket"
#define TOO_MUCH "its message does not fit into memory"

static void enter(struct kernel *k, enum kernel_state to)
{
	static const unsigned edges[] = {
		[KERNEL_STARTING] = 1u << KERNEL_IDLE | 1u << KERNEL_ENDING,
		[KERNEL_IDLE] = 1u << KERNEL_BUSY | 1u << KERNEL_ENDING,
		[KERNEL_BUSY] = 1u << KERNEL_IDLE | 1u << KERNEL_ENDING,
		[KERNEL_ENDING] = 1u << KERNEL_ENDED,
		[KERNEL_ENDED] = 0,
	};

	assert((edges[k->state] & 1u << to) != 0);
	k->state = to;
}

static void release(struct kernel *k)
{
	if (--k->holds > 0)
		return;
	kernel_control_free(&k->control);
	free(k);
}

static bool full(const struct kernel *k)
{
	return k->ops != NULL && k->ops->full(k->user);
}

/* --- the end --- */

static void timer_closed(struct io_timer *t)
{
	release(CONTAINER_OF(t, struct kernel, timer));
}

/* Nothing more is read or waited for; the memory goes when all of it is closed. */
static void shut(struct kernel *k)
{
	kernel_control_close(&k->control);
	kernel_output_close(&k->output);
	io_timer_close(&k->timer, timer_closed);
}

/* End it for a reason of ours, which is what the owner will be told. */
static void fail(struct kernel *k, const char *why)
{
	if (k->state < KERNEL_ENDING)
		enter(k, KERNEL_ENDING);
	if (k->why[0] == '\0' && !k->exited)
		(void)snprintf(k->why, sizeof(k->why), "%s", why);
	proc_kill(&k->proc);
}

static void on_timer(struct io_timer *t)
{
	struct kernel *k = CONTAINER_OF(t, struct kernel, timer);

	switch (k->state) {
	case KERNEL_STARTING:
		if (k->from_template) /* or what was sent to it would be under way for good */
			kernel_template_give_up(k->x);
		fail(k, "it was not ready in time");
		break;
	case KERNEL_BUSY:
		if (k->asked_again) {
			fail(k, "it did not react to the interrupt and was killed");
			break;
		}
		/* the first may have come when its driver was not listening yet */
		k->asked_again = true;
		proc_signal(&k->proc, SIGINT, false);
		io_timer_start(&k->timer, k->grace_ms / 2, 0);
		break;
	case KERNEL_ENDING:
		fail(k, "it closed its control socket");
		break;
	case KERNEL_IDLE:
	case KERNEL_ENDED:
		break;
	}
}

/* How it ended, in words. If it never was ready, what it printed last says why, as a rule. */
static void describe_end(const struct kernel *k, char *words, size_t size)
{
	bool oom = WIFSIGNALED(k->wait_status) && WTERMSIG(k->wait_status) == SIGKILL &&
		   oom_kills(k->x) > k->oom_kills;
	char status[64], last[LAST_OUTPUT + 1] = "";

	proc_status_text(k->wait_status, status, sizeof(status));
	if (!k->was_ready)
		kernel_output_last(&k->output, last, sizeof(last));
	(void)snprintf(words, size, "%s%s%s%s", k->why[0] != '\0' ? k->why : status,
		       k->why[0] == '\0' && oom ? ", out of memory" : "",
		       last[0] != '\0' ? ": " : "", last);
}

/* Everything it said has been passed on. */
static void tell_end(struct kernel *k)
{
	const struct kernel_ops *ops = TAKE(k->ops);
	char words[sizeof(k->why) + 96 + LAST_OUTPUT];

	if (k->state < KERNEL_ENDING)
		enter(k, KERNEL_ENDING);
	enter(k, KERNEL_ENDED);
	describe_end(k, words, sizeof(words));
	proc_kill(&k->proc); /* what it has left */
	shut(k);
	if (ops != NULL)
		ops->ended(k->user, words);
}

/* --- frames --- */

static void take_ready(struct kernel *k)
{
	io_timer_stop(&k->timer);
	k->was_ready = true;
	enter(k, KERNEL_IDLE);
	if (k->ops != NULL)
		k->ops->ready(k->user);
}

static void take_done(struct kernel *k, const json_t *frame)
{
	int64_t count = 0;

	(void)json_get_i64(frame, "count", JSON_MAY, &count, NULL);
	io_timer_stop(&k->timer);
	enter(k, KERNEL_IDLE);
	k->output.live = false;
	if (k->ops != NULL)
		k->ops->done(k->user, count);
}

/* False: a frame that has no place here. */
static bool take_frame(struct kernel *k, const json_t *frame)
{
	const char *op = NULL;
	int64_t n = 0;

	if (json_get_str(frame, "op", JSON_MUST, &op, NULL) < 0)
		return false;
	if (strcmp(op, "ready") == 0 && k->state == KERNEL_STARTING) {
		take_ready(k);
		return true;
	}
	if (strcmp(op, "done") == 0 && k->state == KERNEL_BUSY) {
		take_done(k, frame);
		return true;
	}
	if (strcmp(op, "display") != 0 && strcmp(op, "result") != 0 && strcmp(op, "error") != 0)
		return false;
	/* a thread that a cell has left may show things between cells: to nobody */
	if (k->state == KERNEL_BUSY && k->ops != NULL)
		k->ops->frame(k->user, op, frame);
	if (json_get_i64(frame, "ack", JSON_MAY, &n, NULL) > 0 &&
	    kernel_control_send(&k->control, "ack", span_of(NULL, 0), n) < 0)
		fail(k, "the answer it waits for does not fit into memory");
	return k->state == KERNEL_BUSY || k->state == KERNEL_IDLE;
}

static void act(struct kernel *k, struct span body)
{
	static const struct json_limits limits = {
		.max_bytes = KERNEL_FRAME_MAX,
		.max_depth = 8,
		.max_values = 64 << 10,
		.allow_nul = true,
	};
	AUTO(json_decref) json_t *frame = NULL;
	int r;

	if (k->state >= KERNEL_ENDING)
		return; /* it has been judged already */
	r = json_parse(body, &limits, &frame, NULL);
	if (r == -ENOMEM)
		fail(k, TOO_MUCH);
	else if (r < 0 || !json_is_object(frame) || !take_frame(k, frame))
		fail(k, NOT_OURS);
}

/* Act on the frame that is there, after the output before it. False: none is, or it is early: until
 * its warden has told of it, what the kernel starts would not end with it, so it gets no cell. */
static bool next_frame(struct kernel *k)
{
	struct span body;
	int r;

	if (k->proc.state == PROC_STARTING)
		return false;
	r = kernel_frames_first(&k->control.in, &body);
	if (r < 0) {
		fail(k, NOT_OURS);
		kernel_control_close(&k->control);
		kernel_frames_free(&k->control.in);
	}
	if (r <= 0)
		return false;
	if (!k->frame_waits) {
		k->frame_waits = true;
		kernel_output_mark(&k->output);
	}
	if (!kernel_output_drain(&k->output))
		return true;
	k->frame_waits = false;
	act(k, body);
	kernel_frames_drop(&k->control.in);
	return true;
}

/* False: nothing came. */
static bool read_control(struct kernel *k)
{
	int r = kernel_control_read(&k->control);

	if (r == -EPIPE && !k->exited && k->state < KERNEL_ENDING) {
		/* it ends, or a cell has closed it */
		enter(k, KERNEL_ENDING);
		io_timer_start(&k->timer, EXIT_GRACE_MS, 0);
	} else if (r < 0 && r != -EPIPE) {
		fail(k, TOO_MUCH);
	}
	return r > 0;
}

/* --- going on --- */

static void arm(struct kernel *k)
{
	bool read = !full(k);

	kernel_control_want(&k->control, read);
	kernel_output_want(&k->output, read);
}

/* As far as possible. */
static void step(struct kernel *k)
{
	bool may_read = true;

	if (k->stepping)
		return;
	k->stepping = true;
	while (k->state != KERNEL_ENDED && !full(k)) {
		if (next_frame(k))
			continue;
		/* one read each time, so that nobody waits for a kernel that never pauses; what
		 * a dead one left is limited */
		if ((may_read || k->exited) && read_control(k)) {
			may_read = false;
			continue;
		}
		if (!k->exited)
			break;
		if (!k->last_words) {
			k->last_words = true;
			kernel_output_mark(&k->output);
		}
		if (kernel_output_drain(&k->output))
			tell_end(k);
	}
	k->stepping = false;
	if (k->state != KERNEL_ENDED)
		arm(k);
}

static void on_control(struct kernel_control *c)
{
	step(CONTAINER_OF(c, struct kernel, control));
}

static void on_control_closed(struct kernel_control *c)
{
	release(CONTAINER_OF(c, struct kernel, control));
}

static struct kernel *of_output(struct kernel_output *o)
{
	return CONTAINER_OF(o, struct kernel, output);
}

static void on_text(struct kernel_output *o, const char *type, struct span text)
{
	struct kernel *k = of_output(o);

	if (k->ops != NULL)
		k->ops->text(k->user, type, text);
}

static bool on_full(struct kernel_output *o)
{
	return full(of_output(o));
}

static void on_output(struct kernel_output *o)
{
	step(of_output(o));
}

static void on_output_closed(struct kernel_output *o)
{
	release(of_output(o));
}

static const struct kernel_output_ops output_ops = {
	.text = on_text,
	.full = on_full,
	.ready = on_output,
	.closed = on_output_closed,
};

/* --- the process --- */

static void on_started(struct proc *p)
{
	step(CONTAINER_OF(p, struct kernel, proc));
}

static void on_failed(struct proc *p, const struct err *e)
{
	struct kernel *k = CONTAINER_OF(p, struct kernel, proc);

	if (k->state < KERNEL_ENDING)
		enter(k, KERNEL_ENDING);
	if (k->why[0] == '\0')
		(void)snprintf(k->why, sizeof(k->why), "%s%.150s",
			       p->ran || k->was_ready ? "" : "it could not be started: ", e->msg);
	k->exited = true;
	step(k);
}

static void on_exited(struct proc *p, int wait_status)
{
	struct kernel *k = CONTAINER_OF(p, struct kernel, proc);

	k->exited = true;
	k->wait_status = wait_status;
	step(k);
}

static void on_gone(struct proc *p)
{
	struct kernel *k = CONTAINER_OF(p, struct kernel, proc);

	kernel_scratch_remove(TAKE(k->scratch));
	release(k);
}

/* --- what the owner asks for --- */

int kernel_run(struct kernel *k, struct span code)
{
	int r;

	assert(k->state == KERNEL_IDLE);
	r = k->lang->text_cells ? kernel_control_send_text(&k->control, code)
				: kernel_control_send(&k->control, "run", code, 0);
	if (r < 0)
		return r;
	enter(k, KERNEL_BUSY);
	k->oom_kills = oom_kills(k->x);
	kernel_output_begin(&k->output);
	arm(k);
	return 0;
}

void kernel_interrupt(struct kernel *k, uint64_t grace_ms)
{
	if (k->state != KERNEL_BUSY)
		return;
	if (!k->lang->text_cells)
		(void)kernel_control_send(&k->control, "interrupt", span_of(NULL, 0), 0);
	proc_signal(&k->proc, SIGINT, false);
	k->asked_again = false;
	k->grace_ms = grace_ms;
	if (grace_ms > 0)
		io_timer_start(&k->timer, grace_ms - grace_ms / 2, 0);
	arm(k);
}

void kernel_resume(struct kernel *k)
{
	step(k);
}

void kernel_drop(struct kernel *k)
{
	k->ops = NULL;
	if (k->state == KERNEL_IDLE && k->control.open) { /* it may tidy up and leave */
		kernel_control_close(&k->control);
		enter(k, KERNEL_ENDING);
		io_timer_start(&k->timer, EXIT_GRACE_MS, 0);
	} else {
		fail(k, "dropped");
	}
	step(k);
}

/* --- the beginning --- */

static int start(struct kernel *k, struct env *env, const char *path, const char *cwd,
		 bool template, struct err *e)
{
	autofd int control = -EBADF, out = -EBADF, err = -EBADF;
	int outs[2] = { -EBADF, -EBADF }, fds[3], r;

	k->control.ready = on_control;
	k->control.closed = on_control_closed;
	r = kernel_output_open(k->x, &k->output, &output_ops, outs, e);
	out = fds[1] = outs[0];
	err = fds[2] = outs[1];
	if (r == 0)
		r = kernel_control_open(k->x, &k->control, &control, e);
	if (r < 0)
		return r;
	k->holds++; /* the control socket's */
	fds[0] = control;
	k->proc.started = on_started;
	k->proc.failed = on_failed;
	k->proc.exited = on_exited;
	k->proc.gone = on_gone;
	r = -EAGAIN;
	if (template && k->lang->from_python)
		r = kernel_template_spawn(k->x, &k->proc, k->lang, env, path, cwd, fds, e);
	if (r == -EAGAIN)
		return kernel_process_start(k->x, &k->proc, k->lang, env, path, cwd, fds,
					    &k->scratch, e);
	k->from_template = r == 0;
	return r;
}

int kernel_start(struct execd *x, const struct code_language *lang, struct env *env,
		 const char *cwd, bool template, const struct kernel_ops *ops, void *user,
		 struct kernel **ret, struct err *e)
{
	autofree char *path = NULL;
	struct kernel *k;
	int r;

	r = code_language_locate(lang, env, &path, e);
	if (r < 0)
		return r;
	k = calloc(1, sizeof(*k));
	if (k == NULL)
		return err_code(e, ENOMEM, "kernel");
	k->x = x;
	k->lang = lang;
	io_timer_init(&x->loop, &k->timer, on_timer);
	k->holds = 2; /* the timer's and the output's */
	r = start(k, env, path, cwd, template, e);
	if (r < 0) {
		kernel_scratch_remove(TAKE(k->scratch));
		k->state = KERNEL_ENDED;
		shut(k);
		return r;
	}
	k->holds++; /* the process's */
	k->ops = ops;
	k->user = user;
	k->oom_kills = oom_kills(x);
	io_timer_start(&k->timer, k->from_template ? FORK_MS : START_MS, 0);
	arm(k);
	*ret = k;
	return 0;
}

void kernel_adopt(struct kernel *k, const struct kernel_ops *ops, void *user)
{
	k->ops = ops;
	k->user = user;
}
