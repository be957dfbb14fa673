/* Bodies: what frames them, and the chunked coding taken apart. */
#include "codec/h1.h"

#include "base/util.h"
#include "codec/chars.h"

/* The chunk decoder waits for ... */
enum chunk_state {
	CHUNK_SIZE,    /* a hexadecimal digit, or CR after at least one */
	CHUNK_SIZE_LF, /* LF behind the size */
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_END_CR, /* the empty line behind the last chunk */
	CHUNK_END_LF,
	CHUNK_FAILED, /* nothing: refused once, refused for good */
};

#define CHUNK_MAX_DIGITS 16

void h1_body_init_request(struct h1_body *b, const struct h1_head *head)
{
	*b = (struct h1_body){ .kind = H1_BODY_NONE, .done = true };
	if (head->chunked)
		*b = (struct h1_body){ .kind = H1_BODY_CHUNKED, .state = CHUNK_SIZE };
	else if (head->has_length)
		*b = (struct h1_body){ .kind = H1_BODY_LENGTH,
				       .left = head->length,
				       .done = head->length == 0 };
}

void h1_body_init_response(struct h1_body *b, const struct h1_head *head, bool to_head)
{
	*b = (struct h1_body){ .kind = H1_BODY_NONE, .done = true };
	if (to_head || head->status < 200 || head->status == 204 || head->status == 304)
		return;
	if (head->chunked || head->has_length)
		h1_body_init_request(b, head);
	else
		*b = (struct h1_body){ .kind = H1_BODY_UNTIL_CLOSE };
}

/* Take one byte of framing; false if it cannot stand there. */
static bool chunk_byte(struct h1_body *b, char c)
{
	int digit;

	switch ((enum chunk_state)b->state) {
	case CHUNK_SIZE:
		if (c == '\r' && b->digits > 0) {
			b->state = CHUNK_SIZE_LF;
			return true;
		}
		digit = chars_hex(c);
		/* as with Content-Length, the upper half of the range is nobody's size */
		if (digit < 0 || b->digits == CHUNK_MAX_DIGITS || b->left > INT64_MAX >> 4)
			return false;
		b->left = b->left << 4 | (unsigned)digit;
		b->digits++;
		return true;
	case CHUNK_SIZE_LF:
		b->state = b->left > 0 ? CHUNK_DATA : CHUNK_END_CR;
		return c == '\n';
	case CHUNK_DATA_CR:
		b->state = CHUNK_DATA_LF;
		return c == '\r';
	case CHUNK_DATA_LF:
		b->state = CHUNK_SIZE;
		b->digits = 0;
		return c == '\n';
	case CHUNK_END_CR: /* anything else would begin a trailer */
		b->state = CHUNK_END_LF;
		return c == '\r';
	case CHUNK_END_LF:
		b->done = c == '\n';
		return c == '\n';
	case CHUNK_DATA:
	case CHUNK_FAILED:
		break;
	}
	return false;
}

/* Take up to `len` bytes of payload. */
static size_t take_payload(struct h1_body *b, const char *in, size_t len, struct span *ret_data)
{
	size_t n = b->left < len ? (size_t)b->left : len;

	*ret_data = span_of(in, n);
	b->left -= n;
	return n;
}

static ptrdiff_t next_chunked(struct h1_body *b, const char *in, size_t len, struct span *ret_data)
{
	size_t n = 0;

	while (n < len && !b->done) {
		if (b->state == CHUNK_DATA) {
			n += take_payload(b, in + n, len - n, ret_data);
			if (b->left == 0)
				b->state = CHUNK_DATA_CR;
			break;
		}
		if (!chunk_byte(b, in[n])) {
			b->state = CHUNK_FAILED;
			return -(ptrdiff_t)H1_BAD_CHUNK;
		}
		n++;
	}
	return (ptrdiff_t)n;
}

ptrdiff_t h1_body_next(struct h1_body *b, const char *in, size_t len, struct span *ret_data)
{
	size_t n;

	*ret_data = span_of(in, 0);
	if (b->done || len == 0)
		return 0;
	switch (b->kind) {
	case H1_BODY_CHUNKED:
		return next_chunked(b, in, len, ret_data);
	case H1_BODY_LENGTH:
		n = take_payload(b, in, len, ret_data);
		b->done = b->left == 0;
		return (ptrdiff_t)n;
	case H1_BODY_UNTIL_CLOSE:
		*ret_data = span_of(in, len);
		return (ptrdiff_t)len;
	case H1_BODY_NONE:
		break;
	}
	return 0;
}

bool h1_body_eof_ok(const struct h1_body *b)
{
	return b->done || b->kind == H1_BODY_UNTIL_CLOSE;
}

size_t h1_chunk_head(char out[H1_CHUNK_HEAD_SIZE], uint64_t size)
{
	int bits = size > 0 ? 64 - __builtin_clzll(size) : 1;
	size_t n = 0;

	for (int shift = (bits - 1) / 4 * 4; shift >= 0; shift -= 4)
		out[n++] = "0123456789abcdef"[size >> shift & 15];
	out[n++] = '\r';
	out[n++] = '\n';
	return n;
}
