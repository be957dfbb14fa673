/* HTTP/1.1 bodies: what frames them, and chunks taken apart and put together. */
#include "codec/h1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"

#define TEXT(lit)                    \
	{                            \
		lit, sizeof(lit) - 1 \
	}
#define HOST "Host: a\r\n"
#define assert_span(s, text) \
	assert_true(span_is(s, text) || (fprintf(stderr, "got '%.*s'\n", SPAN_FMT(s)), false))

typedef enum h1_reason parse_fn(const char *, size_t, const struct h1_limits *, struct h1_head *);

static void parse(const char *text, parse_fn *fn, struct h1_head *head)
{
	assert_int_equal(fn(text, strlen(text), &h1_default_limits, head), H1_OK);
}

/* How a response's body ends, and whether another may follow. */
static void test_response_framing(void **state)
{
	static const struct {
		const char *text;
		bool to_head;
		enum h1_body_kind kind;
		bool done, keep_alive;
	} cases[] = {
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, H1_BODY_LENGTH, false,
		  true },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, H1_BODY_LENGTH, true,
		  true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", false, H1_BODY_CHUNKED,
		  false, true },
		{ "HTTP/1.1 200 OK\r\n\r\n", false, H1_BODY_UNTIL_CLOSE, false, false },
		{ "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", false, H1_BODY_UNTIL_CLOSE,
		  false, false },
		{ "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\n", false,
		  H1_BODY_LENGTH, false, true },
		{ "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", false, H1_BODY_LENGTH, false,
		  false },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", true, H1_BODY_NONE, true, true },
		{ "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", true, H1_BODY_NONE, true,
		  true },
		{ "HTTP/1.1 204 \r\n\r\n", false, H1_BODY_NONE, true, true },
		{ "HTTP/1.1 204 \r\nContent-Length: 5\r\n\r\n", false, H1_BODY_NONE, true, false },
		{ "HTTP/1.1 204 \r\nTransfer-Encoding: chunked\r\n\r\n", false, H1_BODY_NONE, true,
		  false },
		{ "HTTP/1.1 304 \r\nContent-Length: 5\r\n\r\n", false, H1_BODY_NONE, true, true },
		{ "HTTP/1.1 304 \r\n\r\n", false, H1_BODY_NONE, true, true },
		{ "HTTP/1.1 100 Continue\r\n\r\n", false, H1_BODY_NONE, true, true },
		{ "HTTP/1.1 101 \r\nConnection: upgrade\r\nUpgrade: a\r\n\r\n", false, H1_BODY_NONE,
		  true, true },
	};
	static struct h1_head h;
	struct h1_body b;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		parse(cases[i].text, h1_parse_response, &h);
		h1_body_init_response(&b, &h, cases[i].to_head);
		if (b.kind != cases[i].kind || b.done != cases[i].done ||
		    h.keep_alive != cases[i].keep_alive)
			fail_msg("wrong for %s", cases[i].text);
		assert_int_equal(h1_body_eof_ok(&b),
				 cases[i].done || cases[i].kind == H1_BODY_UNTIL_CLOSE);
	}
	parse("HTTP/1.1 404 Not Found\r\n\r\n", h1_parse_response, &h);
	assert_int_equal(h.status, 404);
	assert_span(h.reason, "Not Found");
	parse("HTTP/1.1 404\r\n\r\n", h1_parse_response, &h);
	assert_int_equal(h.reason.len, 0);
}

static void test_request_framing(void **state)
{
	static struct h1_head h;
	struct h1_body b;
	struct span data;

	(void)state;
	parse("GET / HTTP/1.1\r\n" HOST "\r\n", h1_parse_request, &h);
	h1_body_init_request(&b, &h);
	assert_true(b.done);
	assert_int_equal(b.kind, H1_BODY_NONE);
	assert_int_equal(h1_body_next(&b, "GET", 3, &data), 0);

	parse("PUT / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n", h1_parse_request, &h);
	h1_body_init_request(&b, &h);
	assert_int_equal(h1_body_next(&b, "ab", 2, &data), 2);
	assert_span(data, "ab");
	assert_false(b.done);
	assert_false(h1_body_eof_ok(&b));
	assert_int_equal(h1_body_next(&b, "cdeGET", 6, &data), 3);
	assert_span(data, "cde");
	assert_true(b.done);
	assert_int_equal(h1_body_next(&b, "GET", 3, &data), 0);
	assert_int_equal(data.len, 0);
}

/* The payload of a chunked body fed in pieces of `step`, or -reason. `ret_used`: bytes consumed. */
static ptrdiff_t unchunk(struct span in, size_t step, char *out, bool *ret_done, size_t *ret_used)
{
	struct h1_body b = { .kind = H1_BODY_CHUNKED };
	size_t used = 0, have = 0, n_out = 0;

	while (have < in.len && !b.done) {
		have = MIN(have + step, in.len);
		for (;;) {
			struct span data;
			ptrdiff_t n = h1_body_next(&b, in.p + used, have - used, &data);

			if (n < 0) {
				/* and it stays refused */
				assert_int_equal(h1_body_next(&b, "\r\n", 2, &data), n);
				assert_false(h1_body_eof_ok(&b));
				return n;
			}
			if (n == 0)
				break;
			memcpy(out + n_out, data.p, data.len);
			n_out += data.len;
			used += (size_t)n;
		}
	}
	assert_int_equal(b.done, h1_body_eof_ok(&b));
	*ret_done = b.done;
	*ret_used = used;
	return (ptrdiff_t)n_out;
}

static void test_chunks(void **state)
{
	static const struct {
		const char *name;
		struct span in;
		const char *out; /* NULL: refused */
		bool done;
	} cases[] = {
		{ "empty", TEXT("0\r\n\r\n"), "", true },
		{ "many zeros", TEXT("0000000000000000\r\n\r\n"), "", true },
		{ "one", TEXT("3\r\nabc\r\n0\r\n\r\n"), "abc", true },
		{ "two, hexadecimal in both cases",
		  TEXT("A\r\n0123456789\r\n00b\r\n0123456789x\r\n0\r\n\r\n"),
		  "01234567890123456789x", true },
		{ "payload that looks like framing", TEXT("5\r\n0\r\n\r\n\r\n0\r\n\r\n"),
		  "0\r\n\r\n", true },
		{ "followed by a request", TEXT("1\r\na\r\n0\r\n\r\nGET / HTTP/1.1"), "a", true },
		{ "cut in the size", TEXT("1"), "", false },
		{ "cut in the payload", TEXT("5\r\nabc"), "abc", false },
		{ "cut before the end", TEXT("1\r\na\r\n0\r\n\r"), "a", false },
		{ "many", TEXT("1\r\na\r\n1\r\nb\r\n000001\r\nc\r\n000000000001\r\nd\r\n0\r\n\r\n"),
		  "abcd", true },
		{ "no size", TEXT("\r\na"), NULL, false },
		{ "no size, but an end", TEXT("\r\n\r\n"), NULL, false },
		{ "no size the second time", TEXT("1\r\na\r\n\r\n\r\n"), NULL, false },
		{ "extension", TEXT("1;a=b\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "blank behind", TEXT("1 \r\na\r\n0\r\n\r\n"), NULL, false },
		{ "blank before", TEXT(" 1\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "tab behind", TEXT("1\t\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "sign", TEXT("+1\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "minus", TEXT("-1\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "0x", TEXT("0x1\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "not hexadecimal", TEXT("g\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "NUL", TEXT("1\0\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "bare LF", TEXT("1\na\r\n0\r\n\r\n"), NULL, false },
		{ "CR without LF", TEXT("1\ra\r\n0\r\n\r\n"), NULL, false },
		{ "payload too long", TEXT("1\r\nab\r\n0\r\n\r\n"), NULL, false },
		{ "payload too short", TEXT("3\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "bare LF behind the payload", TEXT("1\r\na\n0\r\n\r\n"), NULL, false },
		{ "trailer", TEXT("0\r\nA: b\r\n\r\n"), NULL, false },
		{ "bare LF at the end", TEXT("0\r\n\n"), NULL, false },
		{ "17 digits", TEXT("00000000000000001\r\na\r\n0\r\n\r\n"), NULL, false },
		{ "2^63", TEXT("8000000000000000\r\na"), NULL, false },
		{ "2^64", TEXT("10000000000000000\r\na"), NULL, false },
		{ "all ones", TEXT("ffffffffffffffff\r\na"), NULL, false },
		{ "largest", TEXT("7fffffffffffffff\r\na"), "a", false },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t step = 1; step <= cases[i].in.len; step++) {
			ptrdiff_t want = cases[i].out != NULL ? (ptrdiff_t)strlen(cases[i].out)
							      : -(ptrdiff_t)H1_BAD_CHUNK;
			bool done = false;
			size_t used = 0;
			ptrdiff_t n = unchunk(cases[i].in, step, out, &done, &used);

			if (n != want || done != cases[i].done)
				fail_msg("%s: %td instead of %td", cases[i].name, n, want);
			if (n > 0)
				assert_memory_equal(out, cases[i].out, (size_t)n);
			if (strcmp(cases[i].name, "followed by a request") == 0)
				assert_int_equal(used, 11);
		}
	}
}

static void test_chunk_head(void **state)
{
	static const struct {
		uint64_t size;
		const char *text;
	} cases[] = {
		{ 0, "0\r\n" },   { 1, "1\r\n" },         { 15, "f\r\n" },
		{ 16, "10\r\n" }, { 0x1a2b, "1a2b\r\n" }, { UINT64_MAX, "ffffffffffffffff\r\n" },
	};
	char out[H1_CHUNK_HEAD_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_span(span_of(out, h1_chunk_head(out, cases[i].size)), cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_response_framing),
		cmocka_unit_test(test_request_framing),
		cmocka_unit_test(test_chunks),
		cmocka_unit_test(test_chunk_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
