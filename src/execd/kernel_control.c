#include "execd/kernel_control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "codec/json.h"

/* What may wait to be taken: one cell, and the short frames after it. */
#define MAX_OUT (KERNEL_FRAME_MAX + KERNEL_FRAME_HEAD + KIB(64))

static void on_closed(struct stream *s)
{
	struct kernel_control *c = CONTAINER_OF(s, struct kernel_control, stream);

	c->closed(c);
}

void kernel_control_close(struct kernel_control *c)
{
	if (!c->open)
		return;
	c->open = false;
	stream_close(&c->stream, on_closed);
}

void kernel_control_free(struct kernel_control *c)
{
	kernel_frames_free(&c->in);
	buf_free(&c->out);
}

/* As much as it takes now. */
static void flush(struct kernel_control *c)
{
	while (c->open && c->out.len > 0) {
		struct iovec iov = { c->out.data, c->out.len };
		ssize_t n = stream_writev(&c->stream, &iov, 1);

		if (n == -EAGAIN)
			return;
		if (n < 0) /* it is about to end; its last words may still be read */
			break;
		buf_consume(&c->out, (size_t)n);
	}
	buf_free(&c->out);
}

static void on_ready(struct stream *s, unsigned events)
{
	struct kernel_control *c = CONTAINER_OF(s, struct kernel_control, stream);

	if ((events & STREAM_WRITABLE) != 0)
		flush(c);
	c->ready(c);
}

int kernel_control_open(struct execd *x, struct kernel_control *c, int *ret_theirs, struct err *e)
{
	int fds[2], r;

	c->x = x;
	c->out = BUF_INIT(MAX_OUT);
	kernel_frames_init(&c->in);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return err_sys(e, "socket pair");
	r = stream_open(&x->loop, &c->stream, fds[0], &stream_plain_ops, on_ready, e);
	if (r < 0) {
		fd_close(&fds[1]);
		return r;
	}
	*ret_theirs = fds[1];
	c->open = true;
	return 0;
}

void kernel_control_want(struct kernel_control *c, bool read)
{
	unsigned events = read ? STREAM_READABLE : 0;

	if (c->out.len > 0)
		events |= STREAM_WRITABLE;
	if (c->open)
		stream_want(&c->stream, events);
}

int kernel_control_send(struct kernel_control *c, const char *op, struct span code, int64_t n)
{
	AUTO(buf_free) struct buf *body = &BUF_INIT(KERNEL_FRAME_MAX);
	struct jw w = JW_INIT(body);
	int r;

	jw_object(&w);
	jw_field_cstr(&w, "op", op);
	if (code.p != NULL)
		jw_field_str(&w, "code", code);
	if (n != 0)
		jw_field_i64(&w, "n", n);
	jw_end(&w);
	r = buf_failed(body) ? buf_error(body) : kernel_frames_put(&c->out, buf_span(body));
	flush(c);
	return r;
}

int kernel_control_send_text(struct kernel_control *c, struct span text)
{
	int r;

	if (memchr(text.p, '\0', text.len) != NULL)
		return -EINVAL;
	if (text.len > KERNEL_FRAME_MAX)
		return -EMSGSIZE;
	r = buf_reserve(&c->out, text.len + 1);
	if (r < 0)
		return r;
	(void)buf_add_span(&c->out, text);
	(void)buf_add_char(&c->out, '\0');
	flush(c);
	return 0;
}

int kernel_control_read(struct kernel_control *c)
{
	char *buf = c->x->loop.read_buf;
	ssize_t n;
	int r;

	if (!c->open)
		return 0;
	n = stream_read(&c->stream, buf, IO_READ_SIZE);
	if (n == -EAGAIN)
		return 0;
	r = n > 0 ? kernel_frames_add(&c->in, span_of(buf, (size_t)n)) : -EPIPE;
	if (r == 0)
		return 1;
	kernel_control_close(c);
	return r;
}
