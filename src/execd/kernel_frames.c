#include "execd/kernel_frames.h"

#include <errno.h>
#include <stdint.h>

/* One read of the socket may bring the end of a frame and the beginning of the next. */
#define SLACK KIB(64)
/* What a quiet kernel keeps of the buffer. */
#define KEEP KIB(4)

void kernel_frames_init(struct kernel_frames *f)
{
	f->in = BUF_INIT(KERNEL_FRAME_MAX + KERNEL_FRAME_HEAD + SLACK);
}

void kernel_frames_free(struct kernel_frames *f)
{
	buf_free(&f->in);
}

int kernel_frames_add(struct kernel_frames *f, struct span data)
{
	return buf_add_span(&f->in, data);
}

static size_t body_len(const struct kernel_frames *f)
{
	const unsigned char *p = (const unsigned char *)f->in.data;

	return (size_t)p[0] << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3];
}

int kernel_frames_first(const struct kernel_frames *f, struct span *ret)
{
	size_t len;

	if (f->in.len < KERNEL_FRAME_HEAD)
		return 0;
	len = body_len(f);
	if (len == 0 || len > KERNEL_FRAME_MAX)
		return -EPROTO;
	/* text that somebody printed here is found out at once, not after megabytes of it */
	if (f->in.len > KERNEL_FRAME_HEAD && f->in.data[KERNEL_FRAME_HEAD] != '{')
		return -EPROTO;
	if (f->in.len < KERNEL_FRAME_HEAD + len)
		return 0;
	*ret = span_of(f->in.data + KERNEL_FRAME_HEAD, len);
	return 1;
}

void kernel_frames_drop(struct kernel_frames *f)
{
	buf_consume(&f->in, KERNEL_FRAME_HEAD + body_len(f));
	if (f->in.len == 0 && f->in.cap > KEEP)
		buf_free(&f->in);
}

int kernel_frames_put(struct buf *out, struct span body)
{
	uint32_t len = (uint32_t)body.len;
	char head[KERNEL_FRAME_HEAD] = { (char)(len >> 24), (char)(len >> 16), (char)(len >> 8),
					 (char)len };
	int r;

	if (body.len > KERNEL_FRAME_MAX)
		return -EMSGSIZE;
	r = buf_reserve(out, sizeof(head) + body.len);
	if (r < 0)
		return r;
	(void)buf_add(out, head, sizeof(head));
	return buf_add_span(out, body);
}
