/* WebSocket frames, and the SHA-1 and base64 of their handshake. */
#include "codec/ws.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "codec/base64.h"
#include "codec/sha1.h"

#define TEXT(lit)                    \
	{                            \
		lit, sizeof(lit) - 1 \
	}

#define MAX_LEN 100000

static void test_parse(void **state)
{
	static const struct {
		const char *name;
		struct span in;
		bool from_client;
		ptrdiff_t want;
		uint64_t len;
	} cases[] = {
		{ "text", TEXT("\x81\x05"), false, 2, 5 },
		{ "masked", TEXT("\x81\x85\1\2\3\4"), true, 6, 5 },
		{ "empty", TEXT("\x82\x00"), false, 2, 0 },
		{ "125", TEXT("\x82\x7d"), false, 2, 125 },
		{ "126", TEXT("\x82\x7e\0\x7e"), false, 4, 126 },
		{ "65535", TEXT("\x82\x7e\xff\xff"), false, 4, 65535 },
		{ "65536", TEXT("\x82\x7f\0\0\0\0\0\1\0\0"), false, 10, 65536 },
		{ "65536 masked", TEXT("\x82\xff\0\0\0\0\0\1\0\0\1\2\3\4"), true, 14, 65536 },
		{ "largest", TEXT("\x82\x7f\0\0\0\0\0\1\x86\xa0"), false, 10, 100000 },
		{ "fragment", TEXT("\x01\x01"), false, 2, 1 },
		{ "continuation", TEXT("\x00\x01"), false, 2, 1 },
		{ "close", TEXT("\x88\x02"), false, 2, 2 },
		{ "close without code", TEXT("\x88\x00"), false, 2, 0 },
		{ "ping", TEXT("\x89\x7d"), false, 2, 125 },
		{ "pong", TEXT("\x8a\x00"), false, 2, 0 },

		{ "nothing", TEXT(""), false, 0, 0 },
		{ "one byte", TEXT("\x81"), false, 0, 0 },
		{ "mask missing", TEXT("\x81\x85\1\2\3"), true, 0, 0 },
		{ "length missing", TEXT("\x82\x7f\0\0\0\0\0\1\0"), false, 0, 0 },

		{ "client without mask", TEXT("\x81\x05"), true, -1002, 0 },
		{ "server with mask", TEXT("\x81\x85\1\2\3\4"), false, -1002, 0 },
		{ "RSV1", TEXT("\xc1\x05"), false, -1002, 0 },
		{ "RSV2", TEXT("\xa1\x05"), false, -1002, 0 },
		{ "RSV3", TEXT("\x91\x05"), false, -1002, 0 },
		{ "opcode 3", TEXT("\x83\x05"), false, -1002, 0 },
		{ "opcode 7", TEXT("\x87\x05"), false, -1002, 0 },
		{ "opcode 11", TEXT("\x8b\x05"), false, -1002, 0 },
		{ "opcode 15", TEXT("\x8f\x05"), false, -1002, 0 },
		{ "ping of 126", TEXT("\x89\x7e\0\x7e"), false, -1002, 0 },
		{ "ping in pieces", TEXT("\x09\x00"), false, -1002, 0 },
		{ "close of one byte", TEXT("\x88\x01"), false, -1002, 0 },
		{ "125 in two bytes", TEXT("\x82\x7e\0\x7d"), false, -1002, 0 },
		{ "0 in two bytes", TEXT("\x82\x7e\0\0"), false, -1002, 0 },
		{ "65535 in eight bytes", TEXT("\x82\x7f\0\0\0\0\0\0\xff\xff"), false, -1002, 0 },
		{ "top bit", TEXT("\x82\x7f\x80\0\0\0\0\1\0\0"), false, -1002, 0 },
		{ "too big", TEXT("\x82\x7f\0\0\0\0\0\1\x86\xa1"), false, -1009, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct ws_frame f = { .len = 7 };
		ptrdiff_t n = 0;

		/* as it grows, in a buffer that ends where the bytes do */
		for (size_t have = 0; have <= cases[i].in.len && n == 0; have++) {
			autofree char *copy = malloc(MAX(have, (size_t)1));

			assert_non_null(copy);
			memcpy(copy, cases[i].in.p, have);
			n = ws_frame_parse(copy, have, cases[i].from_client, MAX_LEN, &f);
		}
		if (n != cases[i].want)
			fail_msg("%s: %td instead of %td", cases[i].name, n, cases[i].want);
		assert_int_equal(f.len, n > 0 ? cases[i].len : 7);
		if (n <= 0)
			continue;
		assert_int_equal(f.masked, cases[i].from_client);
		assert_int_equal(f.fin, (cases[i].in.p[0] & 0x80) != 0);
		assert_int_equal(f.opcode, cases[i].in.p[0] & 15);
		if (f.masked)
			assert_memory_equal(f.mask, "\1\2\3\4", 4);
	}
}

static void test_head_round_trip(void **state)
{
	static const uint64_t lens[] = { 0, 1, 125, 126, 127, 65535, 65536, 1u << 20, INT64_MAX };
	static const unsigned char mask[4] = { 9, 8, 7, 6 };
	static const size_t head_len[] = { 2, 2, 2, 4, 4, 4, 10, 10, 10 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		for (int masked = 0; masked < 2; masked++) {
			char out[WS_HEAD_MAX];
			struct ws_frame f;
			size_t n = ws_frame_head(out, i % 2 == 0, WS_BINARY, lens[i],
						 masked ? mask : NULL);

			assert_int_equal(n, head_len[i] + (masked ? 4 : 0));
			assert_int_equal(ws_frame_parse(out, n, masked, UINT64_MAX, &f), n);
			assert_int_equal(f.len, lens[i]);
			assert_int_equal(f.fin, i % 2 == 0);
			assert_int_equal(f.opcode, WS_BINARY);
			if (masked)
				assert_memory_equal(f.mask, mask, 4);
		}
	}
}

/* A message as a string: T, B, C start or continue, a small letter is not final, P is a ping. */
static int order(const char *frames)
{
	struct ws_order o = { 0 };

	for (; *frames != '\0'; frames++) {
		struct ws_frame f = { .fin = *frames < 'a' };
		char kind = (char)(*frames & ~0x20);
		int r;

		f.opcode = kind == 'T'   ? WS_TEXT
			   : kind == 'B' ? WS_BINARY
			   : kind == 'C' ? WS_CONTINUATION
					 : WS_PING;
		r = ws_order_check(&o, &f);
		if (r < 0)
			return r;
	}
	return o.in_message ? 1 : 0;
}

static void test_order(void **state)
{
	struct ws_order o = { 0 };

	(void)state;
	assert_int_equal(order(""), 0);
	assert_int_equal(order("TBT"), 0);
	assert_int_equal(order("tcC"), 0);
	assert_int_equal(order("tPcPPC"), 0);
	assert_int_equal(order("tCbC"), 0);
	assert_int_equal(order("t"), 1);
	assert_int_equal(order("C"), -1002);
	assert_int_equal(order("c"), -1002);
	assert_int_equal(order("TC"), -1002);
	assert_int_equal(order("tT"), -1002);
	assert_int_equal(order("tb"), -1002);
	assert_int_equal(order("tCC"), -1002);
	/* the kind of message is known to its last frame */
	assert_int_equal(ws_order_check(&o, &(struct ws_frame){ .opcode = WS_BINARY }), 0);
	assert_int_equal(ws_order_check(&o, &(struct ws_frame){ .opcode = WS_PING, .fin = true }),
			 0);
	assert_int_equal(
		ws_order_check(&o, &(struct ws_frame){ .opcode = WS_CONTINUATION, .fin = true }),
		0);
	assert_int_equal(o.opcode, WS_BINARY);
}

static void test_mask(void **state)
{
	static const unsigned char mask[4] = { 0x37, 0xfa, 0x21, 0x3d };
	char hello[] = "\x7f\x9f\x4d\x51\x58"; /* RFC 6455 5.7 */
	char data[40], want[40];

	(void)state;
	ws_mask(hello, 5, mask, 0);
	assert_memory_equal(hello, "Hello", 5);
	for (size_t len = 0; len <= sizeof(data); len++) {
		for (uint64_t offset = 0; offset < 9; offset++) {
			for (size_t i = 0; i < sizeof(data); i++) {
				data[i] = (char)(i * 7);
				want[i] = data[i];
				if (i < len)
					want[i] = (char)(want[i] ^ (char)mask[(offset + i) % 4]);
			}
			ws_mask(data, len, mask, offset);
			assert_memory_equal(data, want, sizeof(data));
		}
	}
}

static void test_utf8(void **state)
{
	static const struct {
		struct span in;
		bool ok;    /* may still become valid */
		bool whole; /* is valid as it stands */
	} cases[] = {
		{ TEXT(""), true, true },
		{ TEXT("plain ASCII that is longer than a word or two"), true, true },
		{ TEXT("\xc2\x80 \xdf\xbf"), true, true },
		{ TEXT("\xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf"), true, true },
		{ TEXT("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf"), true, true },
		{ TEXT("a NUL \0 is a character"), true, true },
		{ TEXT("cut \xc2"), true, false },
		{ TEXT("cut \xe2\x82"), true, false },
		{ TEXT("cut \xf0\x9f\x98"), true, false },
		{ TEXT("\x80"), false, false },
		{ TEXT("\xc0\x80"), false, false },
		{ TEXT("\xc1\xbf"), false, false },
		{ TEXT("\xe0\x9f\xbf"), false, false },
		{ TEXT("\xed\xa0\x80"), false, false },
		{ TEXT("\xf0\x8f\xbf\xbf"), false, false },
		{ TEXT("\xf4\x90\x80\x80"), false, false },
		{ TEXT("\xf5\x80\x80\x80"), false, false },
		{ TEXT("\xff"), false, false },
		{ TEXT("\xe2\x82 "), false, false },
		{ TEXT("\xe2\xc2\x80"), false, false },
		{ TEXT("sixteen letters, and then \xfe some more"), false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t at = 0; at <= cases[i].in.len; at++) {
			uint32_t s = 0;
			bool ok = ws_utf8_feed(&s, span_first(cases[i].in, at));

			ok = ws_utf8_feed(&s, span_skip(cases[i].in, at)) && ok;
			if (ok != cases[i].ok || ws_utf8_done(s) != cases[i].whole)
				fail_msg("case %zu cut at %zu", i, at);
			if (!ok) /* for good */
				assert_false(ws_utf8_feed(&s, SPAN_LIT("a")));
		}
	}
}

static void test_close_codes(void **state)
{
	static const unsigned good[] = {
		1000, 1001, 1002, 1003, 1007, 1011, 1014, 3000, 4001, 4999
	};
	static const unsigned bad[] = { 0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(ws_close_code_ok(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(ws_close_code_ok(bad[i]));
}

static void test_handshake(void **state)
{
	static const unsigned char zeros[16];
	char out[WS_ACCEPT_SIZE] = "untouched", key[WS_KEY_SIZE];

	(void)state;
	/* RFC 6455 1.3 */
	assert_true(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZQ=="), out));
	assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	assert_false(ws_accept_key(SPAN_LIT(""), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZQ="), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZQ= "), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZR=="), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZQAA"), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZSBub25jZQA="), out));
	assert_false(ws_accept_key(SPAN_LIT("dGhlIHNhbXBsZ!Bub25jZQ=="), out));
	assert_string_equal(out, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ws_make_key(zeros, key);
	assert_string_equal(key, "AAAAAAAAAAAAAAAAAAAAAA==");
	assert_true(ws_accept_key(span_str(key), out));
}

static void assert_sha1(struct span in, const char *hex)
{
	unsigned char out[SHA1_SIZE];

	sha1(in, out);
	for (size_t i = 0; i < SHA1_SIZE; i++) {
		assert_int_equal("0123456789abcdef"[out[i] >> 4], hex[2 * i]);
		assert_int_equal("0123456789abcdef"[out[i] & 15], hex[2 * i + 1]);
	}
}

static void test_sha1(void **state)
{
	char many[119];

	(void)state;
	memset(many, 'a', sizeof(many));
	assert_sha1(SPAN_LIT(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
	assert_sha1(SPAN_LIT("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
	assert_sha1(SPAN_LIT("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
		    "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
	/* around the places where the padding needs another block */
	assert_sha1(span_of(many, 55), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
	assert_sha1(span_of(many, 56), "c2db330f6083854c99d4b5bfb6e8f29f201be699");
	assert_sha1(span_of(many, 63), "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
	assert_sha1(span_of(many, 64), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
	assert_sha1(span_of(many, 119), "ee971065aaa017e0632a8ca6c77bb3bf8b1dfc56");
}

static void test_base64(void **state)
{
	static const struct {
		const char *plain, *coded;
	} cases[] = {
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xfb\xff\xbf", "+/+/" },
	};
	static const char *const bad[] = { "Z",      "Zg",       "Zg=",  "Zh==", "Zm9=",
					   "Zm9v\n", "Zg==Zg==", "====", "Z===", "=Zg=",
					   "Z=g=",   "Zm-_",     " Zm9", "Zm9v=" };
	char out[16];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct span plain = span_str(cases[i].plain), coded = span_str(cases[i].coded);

		assert_int_equal(BASE64_LEN(plain.len), coded.len);
		assert_int_equal(base64_encode(plain, out), coded.len);
		assert_memory_equal(out, coded.p, coded.len);
		assert_int_equal(base64_decode(coded, out, sizeof(out)), plain.len);
		assert_memory_equal(out, plain.p, plain.len);
		assert_int_equal(base64_decode(coded, out, plain.len), plain.len);
		if (plain.len > 0)
			assert_int_equal(base64_decode(coded, out, plain.len - 1), -ENOBUFS);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (base64_decode(span_str(bad[i]), out, sizeof(out)) != -EINVAL)
			fail_msg("'%s' accepted", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),     cmocka_unit_test(test_head_round_trip),
		cmocka_unit_test(test_order),     cmocka_unit_test(test_mask),
		cmocka_unit_test(test_utf8),      cmocka_unit_test(test_close_codes),
		cmocka_unit_test(test_handshake), cmocka_unit_test(test_sha1),
		cmocka_unit_test(test_base64),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
