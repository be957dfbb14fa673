/* The input is a stream of frames; its first byte says whether they come from a client. The same
 * bytes then serve as text, as a key and as base64. */
#include "check.h"

#include "base/buf.h"
#include "codec/base64.h"
#include "codec/sha1.h"
#include "codec/ws.h"

#define MAX_LEN 1000000

/* The length of one frame's head, or 0, or -code; it may not depend on what follows. */
static ptrdiff_t check_head(const char *buf, size_t size, bool from_client, struct ws_frame *ret)
{
	ptrdiff_t whole = ws_frame_parse(buf, size, from_client, MAX_LEN, ret);

	for (size_t have = 0; have <= MIN(size, (size_t)WS_HEAD_MAX); have++) {
		autofree char *copy = check_copy(buf, have);
		struct ws_frame f;
		ptrdiff_t n = ws_frame_parse(copy, have, from_client, MAX_LEN, &f);

		CHECK(n == 0 || n == whole);
		CHECK(whole <= 0 || (n == 0) == (have < (size_t)whole));
	}
	CHECK(whole >= 0 || whole == -1002 || whole == -1009);
	return whole;
}

static void check_frames(const char *buf, size_t size, bool from_client)
{
	struct ws_order order = { 0 };

	while (size > 0) {
		char head[WS_HEAD_MAX];
		struct ws_frame f;
		ptrdiff_t n = check_head(buf, size, from_client, &f);
		bool was_in_message = order.in_message;

		if (n <= 0)
			return;
		/* lengths have one form only: the same head comes out */
		CHECK(ws_frame_head(head, f.fin, f.opcode, f.len, f.masked ? f.mask : NULL) ==
		      (size_t)n);
		CHECK(memcmp(head, buf, (size_t)n) == 0);
		CHECK(f.masked == from_client && f.len <= MAX_LEN);
		if (f.opcode >= WS_CLOSE)
			CHECK(f.fin && f.len <= 125);
		if (ws_order_check(&order, &f) < 0)
			return;
		if (f.opcode >= WS_CLOSE)
			CHECK(order.in_message == was_in_message);
		else
			CHECK((f.opcode == WS_CONTINUATION) == was_in_message);
		buf += n;
		size -= (size_t)n;
		if (f.len > size)
			return;
		buf += f.len;
		size -= (size_t)f.len;
	}
}

static void check_mask(const char *buf, size_t size, uint64_t seed)
{
	autofree char *whole = check_copy(buf, size), *pieces = check_copy(buf, size);
	uint64_t bits = check_random(&seed), offset = check_random(&seed) >> 1;
	unsigned char mask[4];

	memcpy(mask, &bits, sizeof(mask));
	ws_mask(whole, size, mask, offset);
	for (size_t at = 0; at < size;) {
		size_t n = check_piece(&seed, size - at);

		ws_mask(pieces + at, n, mask, offset + at);
		at += n;
	}
	CHECK(memcmp(whole, pieces, size) == 0);
	for (size_t i = 0; i < size; i++)
		CHECK((unsigned char)whole[i] == ((unsigned char)buf[i] ^ mask[(offset + i) % 4]));
	ws_mask(whole, size, mask, offset);
	CHECK(memcmp(whole, buf, size) == 0);
}

/* By the numbers: decode, then ask what the number may be. 1: whole, 0: cut, -1: wrong. */
static int model_utf8(const unsigned char *p, size_t size)
{
	static const uint32_t smallest[] = { 0, 0x80, 0x800, 0x10000 };

	while (size > 0) {
		unsigned more = p[0] < 0x80   ? 0
				: p[0] < 0xc0 ? 9
				: p[0] < 0xe0 ? 1
				: p[0] < 0xf0 ? 2
					      : 3;
		uint32_t low = p[0], high;

		if (more == 9 || p[0] >= 0xf8)
			return -1;
		if (more > 0)
			low &= 0x3fu >> more;
		high = low;
		for (unsigned i = 1; i <= more; i++) {
			unsigned char c = i < size ? p[i] : 0;

			if (i < size && (c & 0xc0) != 0x80)
				return -1;
			/* of a character that is cut, all that it might still become */
			low = low << 6 | (i < size ? c & 0x3fu : 0);
			high = high << 6 | (i < size ? c & 0x3fu : 0x3fu);
		}
		if (high < smallest[more] || low > 0x10ffff || (low >= 0xd800 && high <= 0xdfff))
			return -1;
		if (more >= size)
			return 0;
		p += more + 1;
		size -= more + 1;
	}
	return 1;
}

static void check_utf8(const char *buf, size_t size, uint64_t seed)
{
	int want = model_utf8((const unsigned char *)buf, size);
	uint32_t whole = 0, state = 0;
	bool ok = true;

	CHECK(ws_utf8_feed(&whole, span_of(buf, size)) == (want >= 0));
	CHECK(ws_utf8_done(whole) == (want > 0));
	for (size_t at = 0; at < size;) {
		size_t n = check_piece(&seed, size - at);

		ok = ws_utf8_feed(&state, span_of(buf + at, n));
		at += n;
	}
	CHECK(ok == (want >= 0) && state == whole);
}

static void check_base64(const char *buf, size_t size)
{
	autofree char *coded = malloc(BASE64_LEN(size) + 1), *plain = malloc(size + 3);
	char accept[WS_ACCEPT_SIZE], key[WS_KEY_SIZE];
	unsigned char digest[SHA1_SIZE];
	ptrdiff_t n;

	CHECK(coded != NULL && plain != NULL);
	CHECK(base64_encode(span_of(buf, size), coded) == BASE64_LEN(size));
	CHECK(base64_decode(span_of(coded, BASE64_LEN(size)), plain, size) == (ptrdiff_t)size);
	CHECK(memcmp(plain, buf, size) == 0);
	/* and there is no second way to write the same bytes */
	n = base64_decode(span_of(buf, size), plain, size);
	if (n >= 0) {
		CHECK(base64_encode(span_of(plain, (size_t)n), coded) == size);
		CHECK(memcmp(coded, buf, size) == 0);
	}
	CHECK(ws_accept_key(span_of(buf, size), accept) == (size == 24 && n == 16));
	if (size >= 16) {
		ws_make_key((const unsigned char *)buf, key);
		CHECK(ws_accept_key(span_str(key), accept) && strlen(accept) == 28);
	}
	sha1(span_of(buf, size), digest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *buf = NULL;
	uint64_t seed;

	if (size == 0 || size > 4096)
		return 0;
	buf = check_copy(data + 1, size - 1);
	seed = check_seed(data, size);
	check_frames(buf, size - 1, (data[0] & 1) != 0);
	check_mask(buf, size - 1, seed);
	check_utf8(buf, size - 1, seed);
	check_base64(buf, size - 1);
	return 0;
}
