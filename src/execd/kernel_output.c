#include "execd/kernel_output.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>

#include "codec/utf8.h"

/* --- opening and closing --- */

static void release(struct kernel_output *o)
{
	if (--o->holds > 0)
		return;
	ring_free(&o->between);
	o->ops->closed(o);
}

static void outlet_closed(struct stream *s)
{
	release(CONTAINER_OF(s, struct kernel_outlet, stream)->output);
}

static void outlet_close(struct kernel_outlet *out)
{
	if (!out->open)
		return;
	out->open = false;
	out->left = 0;
	stream_close(&out->stream, outlet_closed);
}

void kernel_output_close(struct kernel_output *o)
{
	for (unsigned i = 0; i < ARRAY_LEN(o->outlets); i++)
		outlet_close(&o->outlets[i]);
	release(o);
}

static void outlet_ready(struct stream *s, unsigned events);

int kernel_output_open(struct execd *x, struct kernel_output *o,
		       const struct kernel_output_ops *ops, int ret_theirs[2], struct err *e)
{
	static const char *const types[] = { "stdout", "stderr" };

	o->x = x;
	o->ops = ops;
	o->holds = 1;
	for (unsigned i = 0; i < ARRAY_LEN(o->outlets); i++) {
		struct kernel_outlet *out = &o->outlets[i];
		int fds[2], r;

		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_sys(e, "pipe");
		ret_theirs[i] = fds[1];
		out->output = o;
		out->type = types[i];
		r = stream_open(&x->loop, &out->stream, fds[0], &stream_plain_ops, outlet_ready, e);
		if (r < 0)
			return r;
		out->open = true;
		o->holds++;
	}
	return 0;
}

void kernel_output_want(struct kernel_output *o, bool read)
{
	for (unsigned i = 0; i < ARRAY_LEN(o->outlets); i++)
		if (o->outlets[i].open)
			stream_want(&o->outlets[i].stream, read ? STREAM_READABLE : 0);
}

/* --- reading --- */

static void deliver(struct kernel_outlet *out, struct span data)
{
	struct kernel_output *o = out->output;

	if (data.len == 0)
		return;
	if (o->live)
		o->ops->text(o, out->type, data);
	else if (o->between.data != NULL || ring_init(&o->between, KERNEL_OUTPUT_BETWEEN) == 0)
		ring_add(&o->between, (unsigned char)(out - o->outlets), data);
}

/* A character cut in two by a read waits for its rest, unless nothing can follow. There is room for
 * it in front of `data`. */
static void pass_on(struct kernel_outlet *out, char *data, size_t len, bool last)
{
	size_t tail;

	data -= out->tail_len;
	len += out->tail_len;
	memcpy(data, out->tail, out->tail_len);
	tail = last ? 0 : utf8_tail(span_of(data, len));
	deliver(out, span_of(data, len - tail));
	memcpy(out->tail, data + len - tail, tail);
	out->tail_len = (unsigned char)tail;
}

/* At most `max` bytes. False: there were none. */
static bool outlet_read(struct kernel_outlet *out, size_t max)
{
	char *buf = out->output->x->loop.read_buf + sizeof(out->tail);
	ssize_t n;

	if (!out->open)
		return false;
	n = stream_read(&out->stream, buf, MIN(max, IO_READ_SIZE - sizeof(out->tail)));
	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		outlet_close(out);
		return false;
	}
	out->left -= MIN(out->left, (size_t)n);
	pass_on(out, buf, (size_t)n, false);
	return true;
}

static void outlet_ready(struct stream *s, unsigned events)
{
	struct kernel_outlet *out = CONTAINER_OF(s, struct kernel_outlet, stream);
	struct kernel_output *o = out->output;

	(void)events;
	/* one that is being drained is read by that alone, up to the mark */
	if (!o->ops->full(o) && o->outlets[0].left == 0 && o->outlets[1].left == 0)
		(void)outlet_read(out, IO_READ_SIZE);
	o->ops->ready(o);
}

void kernel_output_mark(struct kernel_output *o)
{
	for (unsigned i = 0; i < ARRAY_LEN(o->outlets); i++) {
		struct kernel_outlet *out = &o->outlets[i];
		int pending = 0;

		if (out->open && ioctl(out->stream.fd, FIONREAD, &pending) == 0)
			out->left = (size_t)MAX(pending, 0);
	}
}

bool kernel_output_drain(struct kernel_output *o)
{
	char none[sizeof(o->outlets[0].tail)];

	for (unsigned i = 0; i < ARRAY_LEN(o->outlets); i++) {
		struct kernel_outlet *out = &o->outlets[i];

		while (out->left > 0) {
			if (o->ops->full(o))
				return false;
			if (!outlet_read(out, out->left))
				out->left = 0;
		}
		pass_on(out, none + sizeof(none), 0, true);
	}
	return true;
}

/* --- between cells --- */

void kernel_output_begin(struct kernel_output *o)
{
	struct ring *r = &o->between;
	uint64_t at = r->start;
	unsigned char channel;
	struct span piece;

	o->live = true;
	if (r->data == NULL)
		return;
	if (at > 0)
		o->ops->text(o, "stderr",
			     SPAN_LIT("(output before this was dropped: nothing was running)\n"));
	while (ring_get(r, at, IO_READ_SIZE, &piece, &channel)) {
		o->ops->text(o, o->outlets[channel & 1].type, piece);
		at += piece.len;
	}
	ring_free(r);
	*r = (struct ring){ 0 };
}

void kernel_output_last(const struct kernel_output *o, char *out, size_t size)
{
	const struct ring *r = &o->between;
	uint64_t at = MAX(r->start, r->end - MIN(r->end, (uint64_t)size - 1));
	unsigned char channel;
	struct span piece;
	size_t len = 0;

	while (r->data != NULL && ring_get(r, at, size - 1 - len, &piece, &channel)) {
		memcpy(out + len, piece.p, piece.len);
		len += piece.len;
		at += piece.len;
	}
	out[len] = '\0';
}
