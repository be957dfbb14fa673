/* The input is one direction of a WebSocket; its first byte says whose. What comes out may not
 * depend on how the bytes were cut, and keeps the promises of ws_reader.h. */
#include "check.h"

#include "base/buf.h"
#include "codec/utf8.h"
#include "http/ws_reader.h"

#define MAX_MESSAGE 600 /* small, so that the fuzzer meets it */
#define LEFT_MAX    (WS_HEAD_MAX + 125)

static void check_event(const struct ws_event *ev, const struct ws_reader *r)
{
	CHECK(r->message.cap <= MAX_MESSAGE);
	switch (ev->kind) {
	case WS_EVENT_MESSAGE:
		CHECK(ev->data.len <= MAX_MESSAGE);
		CHECK(ev->opcode == WS_TEXT || ev->opcode == WS_BINARY);
		CHECK(ev->opcode != WS_TEXT || utf8_valid(ev->data));
		break;
	case WS_EVENT_PING:
	case WS_EVENT_PONG:
		CHECK(ev->data.len <= 125);
		break;
	case WS_EVENT_CLOSE:
		CHECK(ev->code == 1005 ? ev->data.len == 0 : ws_close_code_ok(ev->code));
		CHECK(ev->data.len <= 123 && utf8_valid(ev->data));
		break;
	case WS_EVENT_ERROR:
		CHECK(ev->code == 1002 || ev->code == 1007 || ev->code == 1009);
		break;
	case WS_EVENT_NONE:
		CHECK(ev->data.len == 0);
		break;
	}
}

/* Everything that happened, as text to compare. */
static void note(struct buf *story, const struct ws_event *ev)
{
	(void)buf_printf(story, "%d %d %u %zu:", (int)ev->kind, (int)ev->opcode, ev->code,
			 ev->data.len);
	(void)buf_add_span(story, ev->data);
	CHECK(!buf_failed(story));
}

/* Offer bytes up to `next`, the first `*have` of them being what was left behind. */
static bool feed(struct ws_reader *r, char *copy, size_t have, size_t *ret_left, struct buf *story)
{
	struct ws_event ev;
	bool ended = false;
	size_t at = 0;

	do {
		size_t n = ws_reader_next(r, copy + at, have - at, &ev);

		CHECK(n <= have - at);
		CHECK(!ended || (ev.kind == WS_EVENT_NONE && n == have - at));
		at += n;
		check_event(&ev, r);
		if (ev.kind != WS_EVENT_NONE)
			note(story, &ev);
		ended |= ev.kind == WS_EVENT_CLOSE || ev.kind == WS_EVENT_ERROR;
	} while (ev.kind != WS_EVENT_NONE);
	*ret_left = have - at;
	CHECK(*ret_left < LEFT_MAX);
	return !ended;
}

static void run(const char *data, size_t size, bool from_client, uint64_t *seed, struct buf *story)
{
	struct ws_reader r;
	size_t at = 0, left = 0;
	bool open = true;

	ws_reader_init(&r, from_client, MAX_MESSAGE);
	while (at < size && open) {
		size_t fresh = seed != NULL ? check_piece(seed, size - at) : size - at;
		/* unmasked in place: what is taken is not offered again, what is left is intact */
		autofree char *copy = check_copy(data + at - left, left + fresh);

		at += fresh;
		open = feed(&r, copy, left + fresh, &left, story);
	}
	ws_reader_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(MIB(4)), pieces = BUF_INIT(MIB(4));
	bool from_client;
	uint64_t seed;

	if (size == 0 || size > 8192)
		return 0;
	from_client = (data[0] & 1) != 0;
	seed = check_seed(data, size);
	run((const char *)data + 1, size - 1, from_client, NULL, &whole);
	run((const char *)data + 1, size - 1, from_client, &seed, &pieces);
	CHECK(span_eq(buf_span(&whole), buf_span(&pieces)));
	buf_free(&whole);
	buf_free(&pieces);
	return 0;
}
