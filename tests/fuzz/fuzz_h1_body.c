/* The input is a chunked body and what follows it; the same bytes are also read by length. */
#include "check.h"

#include "base/buf.h"
#include "codec/h1.h"

struct outcome {
	struct buf payload;
	ptrdiff_t error; /* 0 or -reason */
	size_t used;
	bool done;
};

/* Feed a body; `seed` != 0 cuts the input into pieces. */
static void feed(struct h1_body *b, const char *in, size_t size, uint64_t seed, struct outcome *out)
{
	size_t have = 0;

	*out = (struct outcome){ .payload = BUF_INIT(MIB(64)) };
	do {
		have += seed != 0 ? check_piece(&seed, size - have) : size - have;
		for (;;) {
			autofree char *piece = check_copy(in + out->used, have - out->used);
			struct span data = { NULL, 0 };
			bool was_done = b->done;
			ptrdiff_t n = h1_body_next(b, piece, have - out->used, &data);

			if (n < 0) {
				out->error = n;
				/* refused for good */
				CHECK(h1_body_next(b, "0\r\n\r\n", 5, &data) == n);
				CHECK(!b->done && !h1_body_eof_ok(b));
				return;
			}
			CHECK((size_t)n <= have - out->used);
			CHECK(!was_done || n == 0);
			CHECK(check_within(data, piece, (size_t)n));
			(void)buf_add_span(&out->payload, data);
			out->used += (size_t)n;
			if (n == 0)
				break;
		}
		/* nothing is left lying but what is behind the end */
		CHECK(b->done || out->used == have);
	} while (have < size && !b->done);
	out->done = b->done;
	CHECK(!buf_failed(&out->payload));
}

/* The same, as a plain reading of RFC 9112 7.1 has it: bytes used, 0 if more is needed, -1. */
static ptrdiff_t model(struct span in, struct buf *payload)
{
	const char *start = in.p;

	for (;;) {
		size_t digits = 0;
		uint64_t size = 0;

		while (digits < in.len && digits < 17 &&
		       strspn((char[]){ in.p[digits], '\0' }, "0123456789abcdefABCDEF") == 1)
			digits++;
		if (digits > 16)
			return -1;
		if (digits > 0)
			CHECK(span_hex_u64(span_first(in, digits), &size));
		if (size > INT64_MAX)
			return -1;
		in = span_skip(in, digits);
		if (in.len == 0)
			return 0;
		if (digits == 0 || in.p[0] != '\r')
			return -1;
		if (in.len == 1)
			return 0;
		if (in.p[1] != '\n')
			return -1;
		in = span_skip(in, 2);
		(void)buf_add_span(payload, span_first(in, MIN(in.len, size)));
		if (in.len <= size && size > 0)
			return 0;
		in = span_skip(in, size);
		if (in.len == 0)
			return 0;
		if (in.p[0] != '\r')
			return -1;
		if (in.len == 1)
			return 0;
		if (in.p[1] != '\n')
			return -1;
		in = span_skip(in, 2);
		if (size == 0)
			return in.p - start;
	}
}

static void check_chunked(const char *in, size_t size, uint64_t seed)
{
	struct outcome whole, pieces, again;
	struct buf want = BUF_INIT(MIB(64)), coded = BUF_INIT(MIB(64));
	struct h1_body b = { .kind = H1_BODY_CHUNKED };
	ptrdiff_t n;

	feed(&b, in, size, 0, &whole);
	CHECK(h1_body_eof_ok(&b) == whole.done);
	b = (struct h1_body){ .kind = H1_BODY_CHUNKED };
	feed(&b, in, size, seed, &pieces);
	CHECK(whole.error == pieces.error && whole.done == pieces.done &&
	      (whole.error != 0 || whole.used == pieces.used));
	CHECK(span_eq(buf_span(&whole.payload), buf_span(&pieces.payload)));

	n = model(span_of(in, size), &want);
	CHECK((n < 0) == (whole.error != 0) && (n > 0) == whole.done);
	CHECK(n <= 0 || whole.used == (size_t)n);
	CHECK(span_eq(buf_span(&whole.payload), buf_span(&want)));

	/* written again in other chunks, the same payload comes out */
	for (size_t at = 0; at < want.len;) {
		size_t len = check_piece(&seed, want.len - at);
		char head[H1_CHUNK_HEAD_SIZE];

		(void)buf_add(&coded, head, h1_chunk_head(head, len));
		(void)buf_add(&coded, want.data + at, len);
		(void)buf_add_str(&coded, "\r\n");
		at += len;
	}
	(void)buf_add_str(&coded, "0\r\n\r\n");
	n = (ptrdiff_t)coded.len;
	(void)buf_add_str(&coded, "GET");
	CHECK(!buf_failed(&coded));
	b = (struct h1_body){ .kind = H1_BODY_CHUNKED };
	feed(&b, coded.data, coded.len, seed, &again);
	CHECK(again.done && again.used == (size_t)n);
	CHECK(span_eq(buf_span(&again.payload), buf_span(&want)));

	buf_free(&whole.payload);
	buf_free(&pieces.payload);
	buf_free(&again.payload);
	buf_free(&want);
	buf_free(&coded);
}

/* What is decided for a prefix is decided. */
static void check_prefixes(const char *in, size_t size, uint64_t seed)
{
	struct outcome last = { 0 }, now;

	for (size_t have = 0; have <= size; have += size < 64 ? 1 : check_piece(&seed, 32)) {
		struct h1_body b = { .kind = H1_BODY_CHUNKED };

		feed(&b, in, have, 0, &now);
		if (last.error != 0)
			CHECK(now.error == last.error);
		if (last.done)
			CHECK(now.done && now.used == last.used);
		CHECK(now.payload.len >= last.payload.len);
		buf_free(&last.payload);
		last = now;
	}
	buf_free(&last.payload);
}

static void check_by_length(const char *in, size_t size, uint64_t seed)
{
	uint64_t length = check_random(&seed) % (size + 2);
	struct h1_head head = { .has_length = true, .length = length };
	struct h1_body b;
	struct outcome o;

	h1_body_init_request(&b, &head);
	feed(&b, in, size, seed, &o);
	CHECK(o.error == 0 && o.used == MIN(size, length) && o.payload.len == o.used);
	CHECK(o.done == (length <= size) && h1_body_eof_ok(&b) == o.done);
	CHECK(o.used == 0 || memcmp(o.payload.data, in, o.used) == 0);
	buf_free(&o.payload);

	b = (struct h1_body){ .kind = H1_BODY_UNTIL_CLOSE };
	feed(&b, in, size, seed, &o);
	CHECK(o.error == 0 && o.used == size && o.payload.len == size && !o.done);
	CHECK(h1_body_eof_ok(&b));
	buf_free(&o.payload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *in = NULL;
	uint64_t seed;

	if (size > 4096)
		return 0;
	in = check_copy(data, size);
	seed = check_seed(in, size);
	check_chunked(in, size, seed);
	check_prefixes(in, size, seed);
	check_by_length(in, size, seed);
	return 0;
}
