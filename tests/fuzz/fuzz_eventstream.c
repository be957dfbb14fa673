/* Event streams: the first byte is the bound.
 *  - The same events and the same verdict come out however the bytes are cut.
 *  - No event is larger than the bound, no bare one has a line end in it.
 *  - Any data written as an event comes back, with its line ends made one. */
#include "check.h"

#include "base/buf.h"
#include "codec/eventstream.h"

static void add_field(struct buf *out, char tag, struct span s)
{
	(void)buf_add_char(out, tag);
	(void)buf_add_u64(out, s.len);
	(void)buf_add_char(out, ':');
	(void)buf_add_span(out, s);
}

static void add_event(struct buf *out, const struct eventstream_event *ev, size_t max)
{
	CHECK(ev->data.len <= max);
	CHECK(ev->type.len <= EVENTSTREAM_TYPE_MAX && ev->id.len <= EVENTSTREAM_ID_MAX);
	CHECK(!ev->bare || (ev->data.p[0] == '{' && lines_find_end(ev->data) == ev->data.len));
	add_field(out, ev->bare ? 'b' : 'd', ev->data);
	add_field(out, 't', ev->type);
	add_field(out, 'i', ev->id);
	if (ev->has_retry)
		(void)buf_add_u64(out, ev->retry_ms);
}

/* seed 0: all at once */
static int run(struct span in, size_t max, uint64_t seed, struct buf *out)
{
	struct eventstream_event ev;
	struct eventstream s;
	unsigned at_end = 0;
	int r = 0;

	eventstream_init(&s, max);
	while (r == 0 && in.len > 0) {
		size_t n = seed == 0 ? in.len : check_piece(&seed, in.len);
		char *copy = check_copy(in.p, n);
		struct span piece = span_of(copy, n);
		struct err e = ERR_INIT;

		while ((r = eventstream_next(&s, &piece, &ev, &e)) > 0)
			add_event(out, &ev, max);
		CHECK(r < 0 ? e.code == -r : piece.len == 0);
		free(copy);
		in = span_skip(in, n);
	}
	if (r == 0) {
		while ((r = eventstream_finish(&s, &ev, NULL)) > 0) {
			add_event(out, &ev, max);
			CHECK(++at_end <= 2);
		}
	}
	eventstream_free(&s);
	return r;
}

static void check_round_trip(struct span data)
{
	struct eventstream_event ev = { .type = SPAN_LIT("t"), .data = data };
	struct buf out = BUF_INIT(1 << 20), plain = BUF_INIT(1 << 20), text = BUF_INIT(1 << 20);
	struct buf expected = BUF_INIT(1 << 20);

	for (size_t i = 0; i < data.len; i++) {
		bool crlf = data.p[i] == '\r' && i + 1 < data.len && data.p[i + 1] == '\n';

		(void)buf_add_char(&plain, data.p[i] == '\r' ? '\n' : data.p[i]);
		i += crlf;
	}
	CHECK(eventstream_write(&out, &ev) == 0);
	eventstream_comment(&out, data);
	CHECK(run(buf_span(&out), 1 << 16, check_seed(data.p, data.len), &text) == 0);
	ev.data = buf_span(&plain);
	add_event(&expected, &ev, 1 << 16);
	CHECK(span_eq(buf_span(&text), buf_span(&expected)));
	buf_free(&out);
	buf_free(&plain);
	buf_free(&text);
	buf_free(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
	struct span in;
	size_t max;

	if (size < 1 || size > 4096)
		return 0;
	max = data[0];
	in = span_of(data + 1, size - 1);
	CHECK(run(in, max, 0, &whole) == run(in, max, check_seed(data, size), &pieces));
	CHECK(span_eq(buf_span(&whole), buf_span(&pieces)));
	check_round_trip(in);
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
