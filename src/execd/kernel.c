#include "execd/kernel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/log.h"
#include "codec/utf8.h"
#include "execd/kernel_template.h"
#include "execd/oom.h"
#include "sys/fsat.h"

/* Between the end of the control socket and the end of the process. */
#define EXIT_GRACE_MS 2000

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
	kernel_frames_free(&k->in);
	buf_free(&k->out);
	ring_free(&k->between);
	free(k);
}

static bool full(struct kernel *k)
{
	return k->ops != NULL && k->ops->full(k);
}

/* --- the end --- */

static void control_closed(struct stream *s)
{
	release(CONTAINER_OF(s, struct kernel, control));
}

static void outlet_closed(struct stream *s)
{
	release(CONTAINER_OF(s, struct kernel_outlet, stream)->kernel);
}

static void outlet_close(struct kernel_outlet *o)
{
	if (!o->open)
		return;
	o->open = false;
	o->left = 0;
	stream_close(&o->stream, outlet_closed);
}

static void control_close(struct kernel *k)
{
	if (!k->control_open)
		return;
	k->control_open = false;
	stream_close(&k->control, control_closed);
}

static void timer_closed(struct io_timer *t)
{
	release(CONTAINER_OF(t, struct kernel, timer));
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

/* A kernel that never was ready: what it printed last says why, as a rule. */
static void add_last_output(const struct kernel *k, char *words, size_t size)
{
	const struct ring *r = &k->between;
	uint64_t at = MAX(r->start, r->end - MIN(r->end, (uint64_t)KERNEL_LAST_OUTPUT));
	size_t len = strlen(words);
	unsigned char channel;
	struct span piece;

	if (r->data == NULL || k->was_ready)
		return;
	len += (size_t)snprintf(words + len, size - len, ": ");
	while (len < size && ring_get(r, at, size - len - 1, &piece, &channel)) {
		memcpy(words + len, piece.p, piece.len);
		len += piece.len;
		at += piece.len;
		words[len] = '\0';
	}
}

/* Everything it said has been passed on. */
static void tell_end(struct kernel *k)
{
	const struct kernel_ops *ops = TAKE(k->ops);
	char status[64], words[sizeof(k->why) + 96 + KERNEL_LAST_OUTPUT];
	bool oom = WIFSIGNALED(k->wait_status) && WTERMSIG(k->wait_status) == SIGKILL &&
		   oom_kills(k->x) > k->oom_kills;

	if (k->state < KERNEL_ENDING)
		enter(k, KERNEL_ENDING);
	enter(k, KERNEL_ENDED);
	proc_status_text(k->wait_status, status, sizeof(status));
	if (k->why[0] != '\0')
		(void)snprintf(words, sizeof(words), "%s", k->why);
	else
		(void)snprintf(words, sizeof(words), "%s%s", status, oom ? ", out of memory" : "");
	add_last_output(k, words, sizeof(words));
	proc_kill(&k->proc); /* what it has left */
	control_close(k);
	for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++)
		outlet_close(&k->outlets[i]);
	io_timer_close(&k->timer, timer_closed);
	if (ops != NULL)
		ops->ended(k, words);
}

/* --- output --- */

static void deliver(struct kernel_outlet *o, struct span data)
{
	struct kernel *k = o->kernel;

	if (data.len == 0)
		return;
	if (k->state == KERNEL_BUSY || (k->state == KERNEL_ENDING && k->was_ready)) {
		if (k->ops != NULL)
			k->ops->text(k, o->type, data);
		return;
	}
	if (k->between.data == NULL && ring_init(&k->between, KERNEL_BETWEEN) < 0)
		return;
	ring_add(&k->between, (unsigned char)(o - k->outlets), data);
}

/* A character cut in two by a read waits for its rest, unless nothing can follow. */
static void pass_on(struct kernel_outlet *o, char *data, size_t len, bool last)
{
	size_t tail;

	if (o->tail_len > 0) { /* there is room for it in front of what was read */
		data -= o->tail_len;
		len += o->tail_len;
		memcpy(data, o->tail, o->tail_len);
		o->tail_len = 0;
	}
	tail = last ? 0 : utf8_tail(span_of(data, len));
	deliver(o, span_of(data, len - tail));
	memcpy(o->tail, data + len - tail, tail);
	o->tail_len = (unsigned char)tail;
}

/* At most `max` bytes. False: there were none. */
static bool outlet_read(struct kernel_outlet *o, size_t max)
{
	char *buf = o->kernel->x->loop.read_buf + sizeof(o->tail);
	ssize_t n;

	if (!o->open)
		return false;
	n = stream_read(&o->stream, buf, MIN(max, IO_READ_SIZE - sizeof(o->tail)));
	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		outlet_close(o);
		return false;
	}
	o->left -= MIN(o->left, (size_t)n);
	pass_on(o, buf, (size_t)n, false);
	return true;
}

/* What lies in the pipes now was printed before. */
static void drain_begin(struct kernel *k)
{
	for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++) {
		struct kernel_outlet *o = &k->outlets[i];
		int pending = 0;

		if (o->open && ioctl(o->stream.fd, FIONREAD, &pending) == 0)
			o->left = (size_t)MAX(pending, 0);
	}
}

/* False: the owner has to be waited for. */
static bool drain(struct kernel *k)
{
	char none[sizeof(k->outlets[0].tail) + 1];

	for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++) {
		struct kernel_outlet *o = &k->outlets[i];

		while (o->left > 0) {
			if (full(k))
				return false;
			if (!outlet_read(o, o->left))
				o->left = 0;
		}
		pass_on(o, none + sizeof(none) - 1, 0, true);
	}
	return true;
}

static void give_between(struct kernel *k)
{
	struct ring *r = &k->between;
	uint64_t at = r->start;
	unsigned char channel;
	struct span piece;

	if (r->data == NULL)
		return;
	if (at > 0)
		k->ops->text(k, "stderr",
			     SPAN_LIT("(output before this was dropped: nothing was running)\n"));
	while (ring_get(r, at, IO_READ_SIZE, &piece, &channel)) {
		k->ops->text(k, k->outlets[channel & 1].type, piece);
		at += piece.len;
	}
	ring_free(r);
	*r = (struct ring){ 0 };
}

/* --- frames --- */

static int put_frame(struct kernel *k, const char *op, struct span code, int64_t n)
{
	AUTO(buf_free) struct buf *body = &BUF_INIT(KERNEL_FRAME_MAX);
	struct jw w = JW_INIT(body);

	jw_object(&w);
	jw_field_cstr(&w, "op", op);
	if (code.p != NULL)
		jw_field_str(&w, "code", code);
	if (n > 0)
		jw_field_i64(&w, "n", n);
	jw_end(&w);
	return buf_failed(body) ? -EMSGSIZE : kernel_frames_put(&k->out, buf_span(body));
}

static void control_write(struct kernel *k)
{
	while (k->control_open && k->out.len > 0) {
		struct iovec iov = { k->out.data, k->out.len };
		ssize_t n = stream_writev(&k->control, &iov, 1);

		if (n == -EAGAIN)
			return;
		if (n < 0) { /* it is about to end; its last words may still be read */
			buf_free(&k->out);
			return;
		}
		buf_consume(&k->out, (size_t)n);
	}
	if (k->out.len == 0)
		buf_free(&k->out);
}

static void take_ready(struct kernel *k)
{
	io_timer_stop(&k->timer);
	k->was_ready = true;
	enter(k, KERNEL_IDLE);
	if (k->ops != NULL)
		k->ops->ready(k);
}

static void take_done(struct kernel *k, const json_t *frame)
{
	int64_t count = 0;

	(void)json_get_i64(frame, "count", JSON_MAY, &count, NULL);
	io_timer_stop(&k->timer);
	enter(k, KERNEL_IDLE);
	if (k->ops != NULL)
		k->ops->done(k, count);
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
		k->ops->frame(k, op, frame);
	if (json_get_i64(frame, "ack", JSON_MAY, &n, NULL) > 0 &&
	    put_frame(k, "ack", span_of(NULL, 0), n) == 0)
		control_write(k);
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
	struct err e = ERR_INIT;

	if (k->state >= KERNEL_ENDING)
		return; /* it has been judged already */
	if (json_parse(body, &limits, &frame, &e) < 0 || !json_is_object(frame) ||
	    !take_frame(k, frame))
		fail(k, "something other than its driver wrote to its control socket");
}

/* False: nothing came. */
static bool control_read(struct kernel *k)
{
	ssize_t n;

	if (!k->control_open)
		return false;
	n = stream_read(&k->control, k->x->loop.read_buf, IO_READ_SIZE);
	if (n == -EAGAIN)
		return false;
	if (n > 0 && kernel_frames_add(&k->in, span_of(k->x->loop.read_buf, (size_t)n)) == 0)
		return true;
	if (n > 0)
		fail(k, "its message does not fit into memory");
	control_close(k);
	if (!k->exited && k->state < KERNEL_ENDING) { /* it ends, or a cell has closed it */
		enter(k, KERNEL_ENDING);
		io_timer_start(&k->timer, EXIT_GRACE_MS, 0);
	}
	return false;
}

static void arm(struct kernel *k)
{
	bool wait = full(k);
	unsigned read = wait ? 0 : STREAM_READABLE, write = k->out.len > 0 ? STREAM_WRITABLE : 0;

	if (k->control_open)
		stream_want(&k->control, read | write);
	for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++)
		if (k->outlets[i].open)
			stream_want(&k->outlets[i].stream, read);
}

/* Act on the frame that is there, after the output before it. False: none is. */
static bool next_frame(struct kernel *k)
{
	struct span body;
	int r = kernel_frames_first(&k->in, &body);

	if (r < 0) {
		fail(k, "something other than its driver wrote to its control socket");
		control_close(k);
		kernel_frames_free(&k->in);
	}
	if (r <= 0)
		return false;
	if (!k->frame_waits) {
		k->frame_waits = true;
		drain_begin(k);
	}
	if (!drain(k))
		return true;
	k->frame_waits = false;
	act(k, body);
	kernel_frames_drop(&k->in);
	return true;
}

/* Go on as far as possible. */
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
		if ((may_read || k->exited) && control_read(k)) {
			may_read = false;
			continue;
		}
		if (!k->exited)
			break;
		if (!k->last_words) {
			k->last_words = true;
			drain_begin(k);
		}
		if (drain(k))
			tell_end(k);
	}
	k->stepping = false;
	if (k->state != KERNEL_ENDED)
		arm(k);
}

static void outlet_ready(struct stream *s, unsigned events)
{
	struct kernel_outlet *o = CONTAINER_OF(s, struct kernel_outlet, stream);
	struct kernel *k = o->kernel;

	(void)events;
	if (!full(k) && !k->frame_waits && !k->last_words)
		(void)outlet_read(o, IO_READ_SIZE);
	step(k);
}

static void control_ready(struct stream *s, unsigned events)
{
	struct kernel *k = CONTAINER_OF(s, struct kernel, control);

	if ((events & STREAM_WRITABLE) != 0)
		control_write(k);
	step(k);
}

/* --- the process --- */

static void on_failed(struct proc *p, const struct err *e)
{
	struct kernel *k = CONTAINER_OF(p, struct kernel, proc);

	if (k->state < KERNEL_ENDING)
		enter(k, KERNEL_ENDING);
	if (k->why[0] == '\0')
		(void)snprintf(k->why, sizeof(k->why), "it could not be started: %.150s", e->msg);
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
	release(CONTAINER_OF(p, struct kernel, proc));
}

/* --- what the owner asks for --- */

/* For drivers that cannot read frames: the text, and a NUL as its end. */
static int put_text(struct kernel *k, struct span code)
{
	if (memchr(code.p, '\0', code.len) != NULL)
		return -EINVAL;
	if (buf_add_span(&k->out, code) < 0 || buf_add_char(&k->out, '\0') < 0)
		return -EMSGSIZE;
	return 0;
}

int kernel_run(struct kernel *k, struct span code)
{
	int r;

	assert(k->state == KERNEL_IDLE);
	r = k->lang->text_cells ? put_text(k, code) : put_frame(k, "run", code, 0);
	if (r < 0)
		return r;
	enter(k, KERNEL_BUSY);
	k->oom_kills = oom_kills(k->x);
	give_between(k);
	control_write(k);
	arm(k);
	return 0;
}

void kernel_interrupt(struct kernel *k, uint64_t grace_ms)
{
	if (k->state != KERNEL_BUSY)
		return;
	if (!k->lang->text_cells && put_frame(k, "interrupt", span_of(NULL, 0), 0) == 0)
		control_write(k);
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
	if (k->state == KERNEL_IDLE && k->control_open) { /* it may tidy up and leave */
		control_close(k);
		enter(k, KERNEL_ENDING);
		io_timer_start(&k->timer, EXIT_GRACE_MS, 0);
	} else {
		fail(k, "dropped");
	}
	step(k);
}

/* --- the beginning --- */

/* The driver's text where an interpreter can read it. */
static int driver_fd(const struct kernel_program *driver, struct err *e)
{
	autofd int fd = memfd_create("kernel", MFD_CLOEXEC);

	if (fd < 0 || fsat_write_all(fd, driver->text, driver->len) < 0 ||
	    lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(e, "driver of the kernel");
	return TAKE_FD(fd);
}

/* Its own process, with its warden. */
static int start_process(struct kernel *k, struct env *env, const char *cwd, const char *path,
			 int control, const int *outs, struct err *e)
{
	const struct kernel_program *driver = code_language_driver(k->lang);
	autofd int text = driver_fd(driver, e);
	struct proc_spec spec = {
		.path = path,
		.envp = env->vars,
		.cwd = cwd,
		.fds = { -EBADF, outs[0], outs[1], control, text },
		.n_fds = 5,
	};
	const char *argv[ARRAY_LEN(k->lang->argv) + 2], *slash = strrchr(path, '/');
	size_t n = 0;

	if (text < 0)
		return -errno;
	argv[n++] = slash != NULL ? slash + 1 : path;
	for (size_t i = 0; i < ARRAY_LEN(k->lang->argv) && k->lang->argv[i] != NULL; i++)
		argv[n++] = strcmp(k->lang->argv[i], "%s") == 0 ? driver->text : k->lang->argv[i];
	argv[n] = NULL;
	spec.argv = (char *const *)(uintptr_t)argv;
	return proc_start(k->x, &k->proc, &spec, e);
}

static int open_pipes(struct kernel *k, int *outs, struct err *e)
{
	static const char *const types[] = { "stdout", "stderr" };

	for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++) {
		struct kernel_outlet *o = &k->outlets[i];
		int fds[2], r;

		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_sys(e, "pipe");
		outs[i] = fds[1];
		o->kernel = k;
		o->type = types[i];
		r = stream_open(&k->x->loop, &o->stream, fds[0], &stream_plain_ops, outlet_ready,
				e);
		if (r < 0)
			return r;
		o->open = true;
		k->holds++;
	}
	return 0;
}

static int open_control(struct kernel *k, int *ret_theirs, struct err *e)
{
	int fds[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, "socket pair");
	*ret_theirs = fds[1];
	r = stream_open(&k->x->loop, &k->control, fds[0], &stream_plain_ops, control_ready, e);
	if (r < 0)
		return r;
	k->control_open = true;
	k->holds++;
	return 0;
}

static int start(struct kernel *k, struct env *env, const char *cwd, bool template, struct err *e)
{
	autofd int control = -EBADF, out = -EBADF, err = -EBADF;
	autofree char *path = NULL;
	int outs[2] = { -EBADF, -EBADF }, r;

	r = code_language_locate(k->lang, env, &path, e);
	if (r < 0)
		return r;
	if (env_set(env, SPAN_LIT("OSB_KERNEL"), span_str(k->lang->name)) < 0)
		return err_code(e, ENOMEM, "environment");
	r = open_pipes(k, outs, e);
	out = outs[0];
	err = outs[1];
	if (r == 0)
		r = open_control(k, &control, e);
	if (r < 0)
		return r;
	k->proc.failed = on_failed;
	k->proc.exited = on_exited;
	k->proc.gone = on_gone;
	k->proc.user = k;
	if (template && k->lang->from_python &&
	    kernel_template_spawn(k->x, &k->proc, env, path, cwd, (int[]){ control, out, err }) ==
		    0) {
		k->from_template = true;
		return 0;
	}
	return start_process(k, env, cwd, path, control, outs, e);
}

int kernel_start(struct execd *x, const struct code_language *lang, struct env *env,
		 const char *cwd, bool template, const struct kernel_ops *ops, void *user,
		 struct kernel **ret, struct err *e)
{
	struct kernel *k = calloc(1, sizeof(*k));
	int r;

	if (k == NULL)
		return err_code(e, ENOMEM, "kernel");
	k->x = x;
	k->lang = lang;
	k->out = BUF_INIT(KERNEL_FRAME_MAX + KIB(64));
	kernel_frames_init(&k->in);
	io_timer_init(&x->loop, &k->timer, on_timer);
	k->holds = 1; /* the timer's */
	r = start(k, env, cwd, template, e);
	if (r < 0) {
		k->state = KERNEL_ENDED;
		control_close(k);
		for (unsigned i = 0; i < ARRAY_LEN(k->outlets); i++)
			outlet_close(&k->outlets[i]);
		io_timer_close(&k->timer, timer_closed);
		return r;
	}
	k->holds++; /* the process's */
	k->ops = ops;
	k->user = user;
	k->oom_kills = oom_kills(x);
	io_timer_start(&k->timer, KERNEL_START_MS, 0);
	arm(k);
	*ret = k;
	return 0;
}
