/* HTTP/1.1 heads: what is accepted, what is refused, and for which reason. */
#include "codec/h1.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"
#include "codec/chars.h"

#define TEXT(lit)                    \
	{                            \
		lit, sizeof(lit) - 1 \
	}
#define HOST "Host: a\r\n"
#define assert_span(s, text) \
	assert_true(span_is(s, text) || (fprintf(stderr, "got '%.*s'\n", SPAN_FMT(s)), false))

struct verdict_case {
	const char *name;
	struct span text;
	enum h1_reason why;
};

typedef enum h1_reason parse_fn(const char *, size_t, const struct h1_limits *, struct h1_head *);

/* Scan in pieces of `step` bytes, each time in a buffer that ends where the bytes do. */
static ptrdiff_t scan_in_steps(struct span text, size_t step)
{
	struct h1_scan s = { 0 };
	ptrdiff_t n = 0;

	for (size_t have = 0; n == 0 && have < text.len;) {
		have = MIN(have + step, text.len);
		autofree char *copy = malloc(have);

		assert_non_null(copy);
		memcpy(copy, text.p, have);
		n = h1_scan(&s, copy, have, &h1_default_limits);
	}
	return n;
}

/* Scan and parse; the same verdict must come out however the bytes arrive. */
static enum h1_reason judge(struct span text, parse_fn *parse, struct h1_head *head)
{
	struct h1_scan s = { 0 };
	ptrdiff_t n = h1_scan(&s, text.p, text.len, &h1_default_limits);

	for (size_t step = 1; step <= 7; step++)
		assert_int_equal(scan_in_steps(text, step), n);
	if (n < 0)
		return (enum h1_reason) - n;
	if (n == 0)
		return H1_REASON_COUNT; /* incomplete */
	return parse(text.p, (size_t)n, &h1_default_limits, head);
}

static void check_all(const struct verdict_case *cases, size_t n, parse_fn *parse)
{
	static struct h1_head head;

	for (size_t i = 0; i < n; i++) {
		enum h1_reason why = judge(cases[i].text, parse, &head);

		if (why != cases[i].why)
			fail_msg("%s: %s instead of %s", cases[i].name, h1_reason_text(why),
				 h1_reason_text(cases[i].why));
	}
}

#define INCOMPLETE H1_REASON_COUNT

static const struct verdict_case request_cases[] = {
	/* accepted */
	{ "plain", TEXT("GET / HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "no host in 1.0", TEXT("GET / HTTP/1.0\r\n\r\n"), H1_OK },
	{ "other method", TEXT("PROPFIND / HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "lower-case method is another one", TEXT("connect / HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "odd token method", TEXT("!#$%&'*+-.^_`|~1 / HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "asterisk", TEXT("OPTIONS * HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "all visible bytes",
	  TEXT("GET /!\"$%&'()*+,-./:;<=>?@[\\]^_`{|}~ HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "absolute", TEXT("GET http://h:1/p?q HTTP/1.1\r\n" HOST "\r\n"), H1_OK },
	{ "no value", TEXT("GET / HTTP/1.1\r\n" HOST "X:\r\n\r\n"), H1_OK },
	{ "blank value", TEXT("GET / HTTP/1.1\r\n" HOST "X: \t \r\n\r\n"), H1_OK },
	{ "obs-text", TEXT("GET / HTTP/1.1\r\n" HOST "X: \x80\xff\r\n\r\n"), H1_OK },
	{ "tab inside", TEXT("GET / HTTP/1.1\r\n" HOST "X: a\tb\r\n\r\n"), H1_OK },
	{ "colons in value", TEXT("GET / HTTP/1.1\r\n" HOST "X::: a:\r\n\r\n"), H1_OK },
	{ "length", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n"), H1_OK },
	{ "length without blank", TEXT("POST / HTTP/1.1\r\n" HOST "content-LENGTH:5\r\n\r\n"),
	  H1_OK },
	{ "largest length",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775807\r\n\r\n"), H1_OK },
	{ "chunked", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n"), H1_OK },
	{ "host with port", TEXT("GET / HTTP/1.1\r\nHost: a-b.c_d~:65535\r\n\r\n"), H1_OK },
	{ "host address", TEXT("GET / HTTP/1.1\r\nHost: [fe80::1]:80\r\n\r\n"), H1_OK },
	{ "expect", TEXT("PUT / HTTP/1.1\r\n" HOST "Expect: 100-Continue\r\n\r\n"), H1_OK },
	{ "upgrade",
	  TEXT("GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
	  H1_OK },
	{ "upgrade with empty body",
	  TEXT("GET / HTTP/1.1\r\n" HOST
	       "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n"),
	  H1_OK },
	{ "upgrade not asked for on this hop",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Upgrade: websocket\r\nContent-Length: 1\r\n\r\n"),
	  H1_OK },
	{ "h2c offered with a body",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
	       "HTTP2-Settings: AAEAAEAA\r\nContent-Length: 1\r\n\r\n"),
	  H1_OK },
	{ "empty connection options",
	  TEXT("GET / HTTP/1.1\r\n" HOST "Connection: ,, close ,\r\n\r\n"), H1_OK },

	/* line ends and control bytes */
	{ "bare LF", TEXT("GET / HTTP/1.1\n" HOST "\r\n"), H1_BAD_LINE_END },
	{ "bare LF in a field", TEXT("GET / HTTP/1.1\r\n" HOST "X: a\nY: b\r\n\r\n"),
	  H1_BAD_LINE_END },
	{ "LF alone at the end", TEXT("GET / HTTP/1.1\r\n" HOST "\n"), H1_BAD_LINE_END },
	{ "bare CR in a value", TEXT("GET / HTTP/1.1\r\n" HOST "X: a\rY: b\r\n\r\n"),
	  H1_BAD_LINE_END },
	{ "CR CR LF", TEXT("GET / HTTP/1.1\r\r\n" HOST "\r\n"), H1_BAD_LINE_END },
	{ "CR in the target", TEXT("GET /\r HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_LINE_END },
	{ "NUL in the method", TEXT("G\0T / HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_BYTE },
	{ "NUL in the target", TEXT("GET /\0 HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_BYTE },
	{ "NUL in a name", TEXT("GET / HTTP/1.1\r\nHo\0st: a\r\n\r\n"), H1_BAD_BYTE },
	{ "NUL in a value", TEXT("GET / HTTP/1.1\r\n" HOST "X: \0\r\n\r\n"), H1_BAD_BYTE },
	{ "escape byte", TEXT("GET / HTTP/1.1\r\n" HOST "X: \x1b[0m\r\n\r\n"), H1_BAD_BYTE },
	{ "DEL", TEXT("GET / HTTP/1.1\r\n" HOST "X: \x7f\r\n\r\n"), H1_BAD_BYTE },
	{ "vertical tab", TEXT("GET / HTTP/1.1\r\n" HOST "X:\va\r\n\r\n"), H1_BAD_BYTE },
	{ "TLS hello", TEXT("\x16\x03\x01\x02\x00\x01"), H1_BAD_BYTE },
	{ "bare CR before it is complete", TEXT("GET / HTTP/1.1\rX"), H1_BAD_LINE_END },
	{ "refused before it is complete", TEXT("GET / HTTP/1.1\r\nX: \x01"), H1_BAD_BYTE },

	/* request line */
	{ "empty line only", TEXT("\r\n"), H1_BAD_METHOD },
	{ "no method", TEXT(" / HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "method alone", TEXT("GET\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "method with a bracket", TEXT("G(T / HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "method and tab", TEXT("GET\t/ HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "CONNECT", TEXT("CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "TRACE", TEXT("TRACE / HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_METHOD },
	{ "two blanks before the target", TEXT("GET  / HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "two blanks behind the target", TEXT("GET /  HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "blank in the target", TEXT("GET /a b HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "blank at the end", TEXT("GET / HTTP/1.1 \r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "tab behind the target", TEXT("GET /\tHTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "fragment", TEXT("GET /#a HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "raw UTF-8", TEXT("GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "relative", TEXT("GET a HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "asterisk with GET", TEXT("GET * HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "asterisk and more", TEXT("OPTIONS *a HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "authority form", TEXT("GET a:80 HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "other scheme", TEXT("GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "no authority", TEXT("GET http:///a HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "query without a path", TEXT("GET http://a?b HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_TARGET },
	{ "user information", TEXT("GET http://u:p@a/ HTTP/1.1\r\n" HOST "\r\n"), H1_BAD_HOST },
	{ "no version", TEXT("GET /\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "empty version", TEXT("GET / \r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "HTTP/2.0", TEXT("GET / HTTP/2.0\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "HTTP/2 preface", TEXT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), H1_BAD_VERSION },
	{ "HTTP/1.2", TEXT("GET / HTTP/1.2\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "HTTP/0.9", TEXT("GET / HTTP/0.9\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "HTTP/1.10", TEXT("GET / HTTP/1.10\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "HTTP/01.1", TEXT("GET / HTTP/01.1\r\n" HOST "\r\n"), H1_BAD_VERSION },
	{ "lower-case version", TEXT("GET / http/1.1\r\n" HOST "\r\n"), H1_BAD_VERSION },

	/* field lines */
	{ "obs-fold", TEXT("GET / HTTP/1.1\r\n" HOST "X: a\r\n b\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "obs-fold with a tab", TEXT("GET / HTTP/1.1\r\n" HOST "X: a\r\n\tb\r\n\r\n"),
	  H1_BAD_FIELD_NAME },
	{ "first line folded", TEXT("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "blank before the colon", TEXT("GET / HTTP/1.1\r\nHost : a\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "tab before the colon", TEXT("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "no name", TEXT("GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "no colon", TEXT("GET / HTTP/1.1\r\n" HOST "X\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "bracket in a name", TEXT("GET / HTTP/1.1\r\n" HOST "X(a): b\r\n\r\n"),
	  H1_BAD_FIELD_NAME },
	{ "UTF-8 in a name", TEXT("GET / HTTP/1.1\r\n" HOST "X\xc3\xa4: b\r\n\r\n"),
	  H1_BAD_FIELD_NAME },
	{ "bad connection option", TEXT("GET / HTTP/1.1\r\n" HOST "Connection: a b\r\n\r\n"),
	  H1_BAD_FIELD_VALUE },

	/* Host */
	{ "no host", TEXT("GET / HTTP/1.1\r\n\r\n"), H1_BAD_HOST },
	{ "no host with absolute form", TEXT("GET http://a/ HTTP/1.1\r\n\r\n"), H1_BAD_HOST },
	{ "two hosts", TEXT("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), H1_BAD_HOST },
	{ "two equal hosts", TEXT("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), H1_BAD_HOST },
	{ "two hosts in 1.0", TEXT("GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"), H1_BAD_HOST },
	{ "empty host", TEXT("GET / HTTP/1.1\r\nHost:\r\n\r\n"), H1_BAD_HOST },
	{ "user in host", TEXT("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n"), H1_BAD_HOST },
	{ "path in host", TEXT("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), H1_BAD_HOST },
	{ "blank in host", TEXT("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), H1_BAD_HOST },
	{ "comma in host", TEXT("GET / HTTP/1.1\r\nHost: a,b\r\n\r\n"), H1_BAD_HOST },
	{ "backslash in host", TEXT("GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n"), H1_BAD_HOST },
	{ "percent in host", TEXT("GET / HTTP/1.1\r\nHost: a%2eb\r\n\r\n"), H1_BAD_HOST },
	{ "obs-text in host", TEXT("GET / HTTP/1.1\r\nHost: \xc3\xa4\r\n\r\n"), H1_BAD_HOST },
	{ "empty port", TEXT("GET / HTTP/1.1\r\nHost: a:\r\n\r\n"), H1_BAD_HOST },
	{ "port 0", TEXT("GET / HTTP/1.1\r\nHost: a:0\r\n\r\n"), H1_BAD_HOST },
	{ "port 65536", TEXT("GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n"), H1_BAD_HOST },
	{ "signed port", TEXT("GET / HTTP/1.1\r\nHost: a:+1\r\n\r\n"), H1_BAD_HOST },
	{ "port only", TEXT("GET / HTTP/1.1\r\nHost: :80\r\n\r\n"), H1_BAD_HOST },
	{ "open bracket", TEXT("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n"), H1_BAD_HOST },
	{ "not an address", TEXT("GET / HTTP/1.1\r\nHost: [1:2]\r\n\r\n"), H1_BAD_HOST },
	{ "zone", TEXT("GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n"), H1_BAD_HOST },

	/* framing */
	{ "length and chunked",
	  TEXT("POST / HTTP/1.1\r\n" HOST
	       "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  H1_LENGTH_AND_CHUNKED },
	{ "chunked and length",
	  TEXT("POST / HTTP/1.1\r\n" HOST
	       "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"),
	  H1_LENGTH_AND_CHUNKED },
	{ "two lengths",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "two equal lengths",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\ncontent-length: 5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "list of lengths", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "positive sign", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "negative", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "hexadecimal", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "blank within", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "empty length", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "fraction", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 5.0\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "quoted", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: \"5\"\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "2^63", TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775808\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "2^64 + 5",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551621\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "gzip", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "gzip, chunked",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "chunked, chunked",
	  TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "chunked twice",
	  TEXT("POST / HTTP/1.1\r\n" HOST
	       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "identity", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "xchunked", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "chunked;a=b", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked;a=b\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "empty coding", TEXT("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "chunked in 1.0", TEXT("POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "other expectation", TEXT("PUT / HTTP/1.1\r\n" HOST "Expect: 200-ok\r\n\r\n"),
	  H1_BAD_EXPECT },
	{ "two expectations", TEXT("PUT / HTTP/1.1\r\n" HOST "Expect: 100-continue, a\r\n\r\n"),
	  H1_BAD_EXPECT },
	{ "upgrade with a length",
	  TEXT("GET / HTTP/1.1\r\n" HOST
	       "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n\r\n"),
	  H1_BAD_UPGRADE },
	{ "upgrade with chunks",
	  TEXT("GET / HTTP/1.1\r\n" HOST
	       "Connection: a, upgrade\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  H1_BAD_UPGRADE },
	{ "upgrade twice",
	  TEXT("GET / HTTP/1.1\r\n" HOST
	       "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: websocket\r\n\r\n"),
	  H1_BAD_UPGRADE },

	/* not there yet */
	{ "nothing", TEXT(""), INCOMPLETE },
	{ "half a line", TEXT("GET / HT"), INCOMPLETE },
	{ "CR pending", TEXT("GET / HTTP/1.1\r"), INCOMPLETE },
	{ "no empty line", TEXT("GET / HTTP/1.1\r\n" HOST), INCOMPLETE },
	{ "half an empty line", TEXT("GET / HTTP/1.1\r\n" HOST "\r"), INCOMPLETE },
};

static void test_request_verdicts(void **state)
{
	(void)state;
	check_all(request_cases, ARRAY_LEN(request_cases), h1_parse_request);
}

#define OK_LINE "HTTP/1.1 200 OK\r\n"

static const struct verdict_case response_cases[] = {
	{ "plain", TEXT(OK_LINE "\r\n"), H1_OK },
	{ "1.0", TEXT("HTTP/1.0 404 Not Found\r\n\r\n"), H1_OK },
	{ "no words", TEXT("HTTP/1.1 200 \r\n\r\n"), H1_OK },
	{ "no words, no blank", TEXT("HTTP/1.1 200\r\n\r\n"), H1_OK },
	{ "words with obs-text", TEXT("HTTP/1.1 200 \xc3\xa4 \t x\r\n\r\n"), H1_OK },
	{ "100", TEXT("HTTP/1.1 100 \r\n\r\n"), H1_OK },
	{ "599", TEXT("HTTP/1.1 599 \r\n\r\n"), H1_OK },
	{ "strange host is no matter here", TEXT(OK_LINE "Host: a b\r\nHost: \r\n\r\n"), H1_OK },
	{ "strange expectation neither", TEXT(OK_LINE "Expect: a\r\n\r\n"), H1_OK },
	{ "upgrade with a length",
	  TEXT("HTTP/1.1 426 \r\nConnection: upgrade\r\nUpgrade: a\r\nContent-Length: 1\r\n\r\n"),
	  H1_OK },

	{ "status 99", TEXT("HTTP/1.1 099 \r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "status 600", TEXT("HTTP/1.1 600 \r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "two digits", TEXT("HTTP/1.1 20 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "four digits", TEXT("HTTP/1.1 2000 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "letters", TEXT("HTTP/1.1 2x0 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "signed", TEXT("HTTP/1.1 +20 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "two blanks", TEXT("HTTP/1.1  200 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "tab", TEXT("HTTP/1.1\t200 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "other protocol", TEXT("ICY 200 OK whatever\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "lower case", TEXT("http/1.1 200 OK\r\n\r\n"), H1_BAD_STATUS_LINE },
	{ "empty line", TEXT("\r\n"), H1_BAD_STATUS_LINE },
	{ "HTTP/2.0", TEXT("HTTP/2.0 200 OK\r\n\r\n"), H1_BAD_VERSION },
	{ "HTTP/1.2", TEXT("HTTP/1.2 200 OK\r\n\r\n"), H1_BAD_VERSION },
	{ "bare LF", TEXT("HTTP/1.1 200 OK\n\n"), H1_BAD_LINE_END },
	{ "NUL in words", TEXT("HTTP/1.1 200 O\0K\r\n\r\n"), H1_BAD_BYTE },
	{ "obs-fold", TEXT(OK_LINE "A: b\r\n c\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "blank before the colon", TEXT(OK_LINE "A : b\r\n\r\n"), H1_BAD_FIELD_NAME },
	{ "length and chunked",
	  TEXT(OK_LINE "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  H1_LENGTH_AND_CHUNKED },
	{ "two lengths", TEXT(OK_LINE "Content-Length: 1\r\nContent-Length: 2\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "two equal lengths", TEXT(OK_LINE "Content-Length: 1\r\nContent-Length: 1\r\n\r\n"),
	  H1_BAD_LENGTH },
	{ "gzip", TEXT(OK_LINE "Transfer-Encoding: gzip, chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
	{ "chunked in 1.0", TEXT("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
	  H1_BAD_TRANSFER_CODING },
};

static void test_response_verdicts(void **state)
{
	(void)state;
	check_all(response_cases, ARRAY_LEN(response_cases), h1_parse_response);
}

static void test_request_parts(void **state)
{
	static const char text[] =
		"POST /a/b%20c?x=1&y?z HTTP/1.1\r\nHost: h:80\r\nX-One:  1 \t\r\n"
		"Content-Length: 007\r\nx-one: 2\r\nConnection: close, X-Foo\r\n"
		"Expect: 100-continue\r\n\r\nbody";
	static struct h1_head h;
	const struct h1_field *f;

	(void)state;
	assert_int_equal(judge(span_of(text, sizeof(text) - 1), h1_parse_request, &h), H1_OK);
	assert_int_equal(h.method, H1_POST);
	assert_span(h.method_name, "POST");
	assert_span(h.target, "/a/b%20c?x=1&y?z");
	assert_span(h.path, "/a/b%20c");
	assert_span(h.query, "x=1&y?z");
	assert_span(h.host, "h:80");
	assert_int_equal(h.version_minor, 1);
	assert_true(h.has_length);
	assert_int_equal(h.length, 7);
	assert_false(h.chunked);
	assert_false(h.keep_alive);
	assert_false(h.upgrade);
	assert_true(h.expect_continue);
	assert_int_equal(h.n_fields, 6);
	f = h1_find(&h, "X-ONE");
	assert_non_null(f);
	assert_span(f->name, "X-One");
	assert_span(f->value, "1");
	f = h1_next(&h, f);
	assert_non_null(f);
	assert_span(f->value, "2");
	assert_null(h1_next(&h, f));
	assert_null(h1_find(&h, "X-On"));
	assert_true(h1_has_token(&h, "connection", "Close"));
	assert_true(h1_has_token(&h, "connection", "x-foo"));
	assert_false(h1_has_token(&h, "connection", "x"));
	assert_false(h1_has_token(&h, "connection", ""));
	assert_true(h1_is_hop_by_hop(&h, SPAN_LIT("X-FOO")));
	assert_true(h1_is_hop_by_hop(&h, SPAN_LIT("Transfer-Encoding")));
	assert_true(h1_is_hop_by_hop(&h, SPAN_LIT("te")));
	assert_false(h1_is_hop_by_hop(&h, SPAN_LIT("X-One")));
	assert_false(h1_is_hop_by_hop(&h, SPAN_LIT("")));
}

static void parse_ok(const char *text, struct h1_head *h)
{
	assert_int_equal(judge(span_str(text), h1_parse_request, h), H1_OK);
}

static void test_target_forms(void **state)
{
	static struct h1_head h;

	(void)state;
	parse_ok("GET /p HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.path, "/p");
	assert_null(h.query.p);
	parse_ok("GET /p? HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.path, "/p");
	assert_non_null(h.query.p);
	assert_int_equal(h.query.len, 0);
	parse_ok("GET //a HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.path, "//a");
	parse_ok("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.target, "*");
	assert_span(h.path, "*");
	/* absolute-form: its authority wins over the field, wherever that stands */
	parse_ok("GET HTTP://[::1]:8080/p/q?r HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.host, "[::1]:8080");
	assert_span(h.target, "/p/q?r");
	assert_span(h.path, "/p/q");
	assert_span(h.query, "r");
	assert_span(h1_find(&h, "host")->value, "a");
	parse_ok("GET https://b.c HTTP/1.1\r\n" HOST "\r\n", &h);
	assert_span(h.host, "b.c");
	assert_span(h.target, "/");
	assert_span(h.path, "/");
	parse_ok("GET http://b/ HTTP/1.0\r\n\r\n", &h);
	assert_span(h.host, "b");
	parse_ok("GET / HTTP/1.0\r\n\r\n", &h);
	assert_null(h.host.p);
}

static void test_connection(void **state)
{
	static const struct {
		const char *text;
		bool keep_alive, upgrade;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n" HOST "\r\n", true, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: CLOSE\r\n\r\n", false, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, close\r\n\r\n", false, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: a\r\nConnection: close\r\n\r\n", false,
		  false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: closed\r\n\r\n", true, false },
		{ "GET / HTTP/1.0\r\n\r\n", false, false },
		{ "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true, false },
		{ "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", false, false },
		{ "GET / HTTP/1.1\r\n" HOST
		  "Connection: keep-alive, Upgrade\r\nUpgrade: ws\r\n\r\n",
		  true, true },
		{ "GET / HTTP/1.1\r\n" HOST "Upgrade: ws\r\n\r\n", true, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\n\r\n", true, false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade:\r\n\r\n", true,
		  false },
		{ "GET / HTTP/1.1\r\n" HOST "Connection: Upgrade\r\nUpgrade: H2C\r\n\r\n", true,
		  false },
		{ "GET / HTTP/1.0\r\nConnection: Upgrade\r\nUpgrade: ws\r\n\r\n", false, false },
	};
	static struct h1_head h;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		parse_ok(cases[i].text, &h);
		if (h.keep_alive != cases[i].keep_alive || h.upgrade != cases[i].upgrade)
			fail_msg("wrong for %s", cases[i].text);
	}
}

static void test_expect(void **state)
{
	static struct h1_head h;

	(void)state;
	parse_ok("PUT / HTTP/1.1\r\n" HOST
		 "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
		 &h);
	assert_true(h.expect_continue);
	parse_ok("PUT / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 0\r\n\r\n", &h);
	assert_false(h.expect_continue);
	parse_ok("PUT / HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n\r\n", &h);
	assert_false(h.expect_continue);
	parse_ok("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", &h);
	assert_false(h.expect_continue);
}

static void test_methods(void **state)
{
	static struct h1_head h;
	char text[64];

	(void)state;
	for (int m = H1_GET; m < H1_OTHER_METHOD; m++) {
		(void)snprintf(text, sizeof(text), "%s / HTTP/1.0\r\n\r\n",
			       h1_method_name((enum h1_method)m));
		parse_ok(text, &h);
		assert_int_equal(h.method, m);
	}
	assert_string_equal(h1_method_name(H1_OTHER_METHOD), "");
	parse_ok("get / HTTP/1.0\r\n\r\n", &h);
	assert_int_equal(h.method, H1_OTHER_METHOD);
	assert_span(h.method_name, "get");
	parse_ok("GETS / HTTP/1.0\r\n\r\n", &h);
	assert_int_equal(h.method, H1_OTHER_METHOD);
}

static enum h1_reason judge_limited(struct span text, const struct h1_limits *limits)
{
	static struct h1_head head;
	struct h1_scan whole = { 0 }, bytes = { 0 };
	ptrdiff_t n = h1_scan(&whole, text.p, text.len, limits), m = 0;

	for (size_t i = 1; i <= text.len && m == 0; i++)
		m = h1_scan(&bytes, text.p, i, limits);
	assert_int_equal(n, m);
	if (n <= 0)
		return n == 0 ? INCOMPLETE : (enum h1_reason) - n;
	return h1_parse_request(text.p, (size_t)n, limits, &head);
}

static void test_limits(void **state)
{
	static const char text[] = "GET /45678 HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
	struct span t = { text, sizeof(text) - 1 };
	struct h1_limits l = { .max_target = 6, .max_head = t.len, .max_fields = 2 };

	(void)state;
	assert_int_equal(judge_limited(t, &l), H1_OK);
	l.max_target = 5;
	assert_int_equal(judge_limited(t, &l), H1_TARGET_TOO_LONG);
	l.max_target = 6;
	l.max_fields = 1;
	assert_int_equal(judge_limited(t, &l), H1_TOO_MANY_FIELDS);
	l.max_fields = 2;
	for (l.max_head = t.len - 1; l.max_head > 0; l.max_head--) {
		enum h1_reason want = l.max_head >= 21 ? H1_HEAD_TOO_LARGE : H1_TARGET_TOO_LONG;

		assert_int_equal(judge_limited(t, &l), want);
	}
	/* what comes behind the head does not count */
	l.max_head = t.len;
	assert_int_equal(
		judge_limited(
			span_of("GET /45678 HTTP/1.0\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n", 37), &l),
		H1_OK);
	/* the table is as large as it is, whatever the limit says */
	l = (struct h1_limits){ .max_target = 99, .max_head = 9999, .max_fields = 1000 };
	for (unsigned n = H1_MAX_FIELDS; n <= H1_MAX_FIELDS + 1; n++) {
		char many[2048];
		size_t len = (size_t)snprintf(many, sizeof(many), "GET / HTTP/1.0\r\n");

		for (unsigned i = 0; i < n; i++)
			len += (size_t)snprintf(many + len, sizeof(many) - len, "a: b\r\n");
		len += (size_t)snprintf(many + len, sizeof(many) - len, "\r\n");
		assert_int_equal(judge_limited(span_of(many, len), &l),
				 n <= H1_MAX_FIELDS ? H1_OK : H1_TOO_MANY_FIELDS);
	}
}

/* Handed other bytes than h1_scan would have chosen, the parser refuses. */
static void test_parse_alone(void **state)
{
	static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	static struct h1_head h;

	(void)state;
	for (size_t len = 0; len < sizeof(text) - 1; len++) {
		autofree char *copy = malloc(MAX(len, (size_t)1));

		assert_non_null(copy);
		memcpy(copy, text, len);
		assert_int_equal(h1_parse_request(copy, len, &h1_default_limits, &h),
				 H1_BAD_LINE_END);
	}
	assert_int_equal(h1_parse_request("GET / HTTP/1.0\r\n\r\n\r\n", 20, &h1_default_limits, &h),
			 H1_BAD_LINE_END);
}

static void test_skip_empty_lines(void **state)
{
	(void)state;
	assert_int_equal(h1_skip_empty_lines("", 0), 0);
	assert_int_equal(h1_skip_empty_lines("\r", 1), 0);
	assert_int_equal(h1_skip_empty_lines("\r\n", 2), 2);
	assert_int_equal(h1_skip_empty_lines("\r\n\r", 3), 2);
	assert_int_equal(h1_skip_empty_lines("\r\n\r\n\r\n", 6), 4);
	assert_int_equal(h1_skip_empty_lines("\nGET", 4), 0);
	assert_int_equal(h1_skip_empty_lines("GET", 3), 0);
}

static void test_head_move(void **state)
{
	static const char text[] = "GET http://x/y?z HTTP/1.1\r\nHost: a\r\nUpgrade: b\r\n\r\n";
	static struct h1_head h;
	autofree char *copy = malloc(sizeof(text));

	(void)state;
	assert_non_null(copy);
	memcpy(copy, text, sizeof(text));
	assert_int_equal(h1_parse_request(copy, sizeof(text) - 1, &h1_default_limits, &h), H1_OK);
	h1_head_move(&h, copy, text);
	memset(copy, '#', sizeof(text));
	assert_span(h.method_name, "GET");
	assert_span(h.target, "/y?z");
	assert_span(h.path, "/y");
	assert_span(h.query, "z");
	assert_span(h.host, "x");
	assert_span(h.upgrade_to, "b");
	assert_span(h.fields[0].name, "Host");
	assert_span(h.fields[1].value, "b");
	assert_null(h.reason.p);
}

static void test_words(void **state)
{
	(void)state;
	for (int r = H1_OK; r < H1_REASON_COUNT; r++)
		assert_true(strlen(h1_reason_text((enum h1_reason)r)) > 0);
	assert_int_equal(h1_reason_status(H1_BAD_METHOD), 400);
	assert_int_equal(h1_reason_status(H1_BAD_VERSION), 505);
	assert_int_equal(h1_reason_status(H1_BAD_TRANSFER_CODING), 501);
	assert_int_equal(h1_reason_status(H1_BAD_EXPECT), 417);
	assert_int_equal(h1_reason_status(H1_TARGET_TOO_LONG), 414);
	assert_int_equal(h1_reason_status(H1_HEAD_TOO_LARGE), 431);
	assert_int_equal(h1_reason_status(H1_TOO_MANY_FIELDS), 431);
	assert_string_equal(h1_status_text(100), "Continue");
	assert_string_equal(h1_status_text(200), "OK");
	assert_string_equal(h1_status_text(431), "Request Header Fields Too Large");
	assert_string_equal(h1_status_text(511), "Network Authentication Required");
	assert_string_equal(h1_status_text(299), "Unknown");
	assert_string_equal(h1_status_text(-1), "Unknown");
	assert_true(h1_is_token(SPAN_LIT("X-a_1")));
	assert_false(h1_is_token(SPAN_LIT("")));
	assert_false(h1_is_token(SPAN_LIT("a b")));
	assert_false(h1_is_token(SPAN_LIT("a:")));
	assert_true(h1_is_field_value(SPAN_LIT("")));
	assert_true(h1_is_field_value(SPAN_LIT("a\tb \xff, and more than sixteen bytes")));
	assert_false(h1_is_field_value(SPAN_LIT("a\r\nb")));
	assert_false(h1_is_field_value(SPAN_LIT("more than sixteen bytes and then \n")));
	assert_false(h1_is_field_value(SPAN_LIT("\0")));
}

/* The table of byte classes against the grammars, and the fast search against the table. */
static void test_chars(void **state)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
	char block[40];

	(void)state;
	for (int c = 0; c < 256; c++) {
		bool alnum = c != 0 && strchr(letters, c) != NULL;
		bool visible = c > 0x20 && c < 0x7f;
		bool unreserved = alnum || (c != 0 && strchr("-._~", c) != NULL);
		unsigned want = 0;

		if (alnum || (c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL))
			want |= CHARS_TOKEN;
		if (visible && c != '#')
			want |= CHARS_TARGET;
		if (unreserved)
			want |= CHARS_UNRESERVED;
		if (unreserved || (c != 0 && strchr("!$&'()*+,;=:@/", c) != NULL))
			want |= CHARS_PATH;
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			want |= CHARS_CTL;
		if (c != 0 && strchr("0123456789abcdefABCDEF:.", c) != NULL)
			want |= CHARS_ADDRESS;
		assert_int_equal(chars_table[c], want);
		for (size_t at = 0; at < sizeof(block); at++) {
			memset(block, 'x', sizeof(block));
			block[at] = (char)c;
			assert_int_equal(chars_find_ctl(block, sizeof(block)),
					 (want & CHARS_CTL) != 0 ? at : sizeof(block));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request_verdicts),
		cmocka_unit_test(test_response_verdicts),
		cmocka_unit_test(test_request_parts),
		cmocka_unit_test(test_target_forms),
		cmocka_unit_test(test_connection),
		cmocka_unit_test(test_expect),
		cmocka_unit_test(test_methods),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_parse_alone),
		cmocka_unit_test(test_skip_empty_lines),
		cmocka_unit_test(test_head_move),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_chars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
