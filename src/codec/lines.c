#include "codec/lines.h"

#include <errno.h>

#include "codec/swar.h"
#include "codec/utf8.h"

void lines_init(struct lines *l, size_t max_len)
{
	*l = (struct lines){ .tail = BUF_INIT(MAX(max_len, (size_t)4)) };
}

void lines_free(struct lines *l)
{
	buf_free(&l->tail);
	lines_init(l, l->tail.max);
}

/* Not two calls of memchr: one of them would run over the whole rest of the piece for every line
 * that ends in the other byte. */
size_t lines_find_end(struct span s)
{
	size_t i = 0;

	for (; s.len - i >= 8; i += 8) {
		uint64_t w = swar_load(s.p + i);
		uint64_t hits = swar_equal(w, '\n') | swar_equal(w, '\r');

		if (hits != 0)
			return i + swar_first(hits);
	}
	while (i < s.len && s.p[i] != '\n' && s.p[i] != '\r')
		i++;
	return i;
}

/* The longest beginning of s, at most max bytes, that does not end within a character. */
static size_t cut_point(struct span s, size_t max)
{
	return max - utf8_tail(span_first(s, max));
}

/* The kept part and `len` more bytes are more than a line may have: hand out what fits. */
static int hand_out_part(struct lines *l, struct span *in, struct span *ret_text)
{
	size_t max = l->tail.max, room = max - l->tail.len, n;

	l->cut = true;
	if (l->tail.len == 0) {
		n = cut_point(*in, max);
		*ret_text = span_first(*in, n);
		*in = span_skip(*in, n);
		return 1;
	}
	if (buf_add(&l->tail, in->p, room) < 0)
		return -ENOMEM;
	*in = span_skip(*in, room);
	l->used = cut_point(buf_span(&l->tail), max);
	*ret_text = span_first(buf_span(&l->tail), l->used);
	return 1;
}

int lines_next(struct lines *l, struct span *in, struct span *ret_text)
{
	size_t len;

	buf_consume(&l->tail, l->used);
	l->used = 0;
	l->cut = false;
	if (in->len == 0)
		return 0;
	if (l->skip_lf && in->p[0] == '\n')
		*in = span_skip(*in, 1);
	l->skip_lf = false;

	/* no further than it takes to know that the line is too long */
	len = lines_find_end(span_first(*in, MIN(in->len, l->tail.max - l->tail.len + 1)));
	if (len > l->tail.max - l->tail.len)
		return hand_out_part(l, in, ret_text);
	if (len == in->len) {
		if (buf_add(&l->tail, in->p, len) < 0)
			return -ENOMEM;
		*in = span_skip(*in, len);
		return 0;
	}
	if (l->tail.len > 0) {
		if (buf_add(&l->tail, in->p, len) < 0)
			return -ENOMEM;
		l->used = l->tail.len;
		*ret_text = buf_span(&l->tail);
	} else {
		*ret_text = len > 0 ? span_first(*in, len) : SPAN_LIT("\n");
	}
	l->skip_lf = in->p[len] == '\r';
	*in = span_skip(*in, len + 1);
	return 1;
}

bool lines_finish(struct lines *l, struct span *ret_text)
{
	buf_consume(&l->tail, l->used);
	l->used = l->tail.len;
	l->skip_lf = l->cut = false;
	if (l->tail.len == 0)
		return false;
	*ret_text = buf_span(&l->tail);
	return true;
}
