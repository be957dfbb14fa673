/* Uploads as a stream. Every body is fed whole, byte by byte, and in pieces of every other size:
 * the events must be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/multipart.h"
#include "codec/param.h"

/* Events as text: (name|filename|content-type) data . for a part, END at the end. A part without a
 * file name has "-" there. */
static int run(struct span type, struct span body, const struct multipart_limits *limits,
	       size_t step, struct buf *out, struct err *e)
{
	struct multipart m;
	struct span data;
	int r;

	r = multipart_init(&m, type, limits, e);
	for (size_t at = 0; r >= 0 && at < body.len; at += step) {
		/* a copy of the piece alone, so that a sanitizer sees a byte too many */
		size_t len = MIN(step, body.len - at);
		char *copy = malloc(len);
		struct span piece = span_of(copy, len);

		assert_non_null(copy);
		memcpy(copy, body.p + at, len);
		while ((r = multipart_next(&m, &piece, &data, e)) > 0) {
			if (r == MULTIPART_PART) {
				(void)buf_add_char(out, '(');
				(void)buf_add_span(out, m.part.name);
				(void)buf_add_char(out, '|');
				(void)buf_add_span(out, m.part.has_filename ? m.part.filename
									    : SPAN_LIT("-"));
				(void)buf_add_char(out, '|');
				(void)buf_add_span(out, m.part.content_type);
				(void)buf_add_char(out, ')');
			} else if (r == MULTIPART_DATA) {
				assert_true(data.len > 0);
				(void)buf_add_span(out, data);
			} else {
				(void)buf_add_str(out, r == MULTIPART_PART_END ? "." : "END");
			}
		}
		if (r == 0)
			assert_int_equal(piece.len, 0);
		free(copy);
	}
	if (r >= 0)
		r = multipart_finish(&m, e);
	else if (step == 1)
		assert_true(multipart_next(&m, &(struct span){ "x", 1 }, &data, NULL) < 0);
	return r;
}

static void check(const char *type, struct span body, const struct multipart_limits *limits,
		  int result, const char *events)
{
	struct buf out = BUF_INIT(1 << 16);
	struct err e = ERR_INIT;

	for (size_t step = 1; step <= body.len + 1; step++) {
		buf_clear(&out);
		int r = run(span_str(type), body, limits, step, &out, &e);

		if (r != result)
			fail_msg("step %zu: %d (%s) for %s", step, r, e.msg, body.p);
		assert_string_equal(buf_cstr(&out), events);
	}
	buf_free(&out);
}

#define TYPE "multipart/form-data; boundary=XX"
#define HEAD "Content-Disposition: form-data; name=\"f\"\r\n"

static const struct {
	struct span body;
	const char *events;
} good[] = {
	{ SPAN_LIT("--XX\r\n" HEAD "\r\ndata\r\n--XX--\r\n"), "(f|-|)data.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\ndata\r\n--XX--"), "(f|-|)data.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n\r\n--XX--"), "(f|-|).END" },
	/* the line end of the head serves the delimiter too */
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n--XX--"), "(f|-|).END" },
	{ SPAN_LIT("--XX--"), "END" },
	/* preamble and epilogue */
	{ SPAN_LIT("\r\n--XX\r\n" HEAD "\r\nd\r\n--XX--\r\n\r\nbye --XX\r\n--XX\r\n"),
	  "(f|-|)d.END" },
	{ SPAN_LIT("this is\r\na preamble --XX\r\n--XY\r\n--XX\r\n" HEAD "\r\nd\r\n--XX--"),
	  "(f|-|)d.END" },
	/* blanks behind a boundary */
	{ SPAN_LIT("--XX \t \r\n" HEAD "\r\nd\r\n--XX\r\n" HEAD "\r\ne\r\n--XX--"),
	  "(f|-|)d.(f|-|)e.END" },
	/* what looks like a delimiter for a while */
	{ SPAN_LIT("--XX\r\n" HEAD "\r\na\rb\r\nc\r\n-d\r\n--e\r\n--Xf\r\r\n\r\n\r\n--XX--"),
	  "(f|-|)a\rb\r\nc\r\n-d\r\n--e\r\n--Xf\r\r\n\r\n.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n--XY\r\n\r\n--\r\n--XX--"), "(f|-|)--XY\r\n\r\n--.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n-\r\n--XX--"), "(f|-|)-.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\nx--XX--\r\n--XX--"), "(f|-|)x--XX--.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n\r\r\n--XX--"), "(f|-|)\r.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "\r\n\n--XX\n\r\n--XX--"), "(f|-|)\n--XX\n.END" },
	/* two parts, as the SDKs send them */
	{ SPAN_LIT(
		  "--XX\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
		  "Content-Type: application/json\r\n\r\n{\"path\":\"/a\"}\r\n"
		  "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\n"
		  "Content-Type: application/octet-stream\r\nContent-Length: 3\r\n\r\nabc\r\n"
		  "--XX--\r\n"),
	  "(metadata|metadata|application/json){\"path\":\"/a\"}."
	  "(file|a.bin|application/octet-stream)abc.END" },
	/* bare values and both forms of the file name */
	{ SPAN_LIT("--XX\r\nContent-Type: text/plain; charset=utf-8\r\n"
		   "Content-Disposition: form-data; name=file; filename=a.txt; "
		   "filename*=utf-8''%e2%82%ac.txt\r\n\r\nx\r\n--XX--"),
	  "(file|\xe2\x82\xac.txt|text/plain; charset=utf-8)x.END" },
	{ SPAN_LIT(
		  "--XX\r\nContent-Disposition: form-data; filename*=UTF-8'en'%41; filename=\"b\"; "
		  "name=f\r\n\r\nx\r\n--XX--"),
	  "(f|A|)x.END" },
	/* any case, any blanks, raw UTF-8, protected characters, unknown things */
	{ SPAN_LIT(
		  "--XX\r\ncontent-DISPOSITION:form-data ;NAME = \"a b\" ; FileName=\"\xc3\xa9\"\r\n"
		  "X-Other: \tyes\r\n\r\nx\r\n--XX--"),
	  "(a b|\xc3\xa9|)x.END" },
	{ SPAN_LIT(
		  "--XX\r\nContent-Disposition: form-data; name=\xc3\xa9; filename=\xe2\x82\xac\r\n"
		  "\r\nx\r\n--XX--"),
	  "(\xc3\xa9|\xe2\x82\xac|)x.END" },
	{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=\"a\\\"b\\\\c\"; "
		   "filename=\"C:\\dir\\file;x=1\"; size=3;\r\n\r\nx\r\n--XX--"),
	  "(a\"b\\c|C:\\dir\\file;x=1|)x.END" },
	{ SPAN_LIT(
		  "--XX\r\nContent-Disposition: form-data; name=\"\"; filename=\"\"\r\n\r\nx\r\n--XX--"),
	  "(||)x.END" },
	{ SPAN_LIT("--XX\r\n" HEAD "Content-Transfer-Encoding: binary\r\n\r\nx\r\n--XX--"),
	  "(f|-|)x.END" },
};

static void accepted(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		check(TYPE, good[i].body, &multipart_default_limits, 0, good[i].events);
}

static void refused(void **state)
{
	static const struct {
		struct span body;
		const char *events;
	} cases[] = {
		/* cut off */
		{ SPAN_LIT(""), "" },
		{ SPAN_LIT("no boundary at all"), "" },
		{ SPAN_LIT("--XX"), "" },
		{ SPAN_LIT("--XX-"), "" },
		{ SPAN_LIT("--XX\r\n"), "" },
		{ SPAN_LIT("--XX\r\n" HEAD), "" },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\n"), "(f|-|)" },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nda\r\n--X"), "(f|-|)da" },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nda\r\n--XX"), "(f|-|)da." },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nda\r\n--XX\r\n"), "(f|-|)da." },
		/* line ends */
		{ SPAN_LIT("--XX\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\rX" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=f\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=f\rx\r\n\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=f\r\r\n\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\n" HEAD "\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\n\n" HEAD "\r\nx\r\n--XX--"), "" },
		/* a boundary that is not alone */
		{ SPAN_LIT("--XXY\r\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nx\r\n--XXX\r\n--XX--"), "(f|-|)x." },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nx\r\n--XX-\r\n--XX--"), "(f|-|)x." },
		{ SPAN_LIT("--XX\r\n" HEAD "\r\nx\r\n--XX --"), "(f|-|)x." },
		/* heads */
		{ SPAN_LIT("--XX\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Type: a/b\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: attachment; name=f\r\n\r\nx\r\n--XX--"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; filename=f\r\n\r\nx\r\n--XX--"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\nx\r\n"),
		  "" },
		{ SPAN_LIT("--XX\r\n" HEAD HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=\"f\r\n\r\nx\r\n--XX--"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=\"f\"x\r\n\r\nx\r\n"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=a b\r\n\r\nx\r\n--XX--"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=\r\n\r\nx\r\n--XX--"),
		  "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; =f\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nContent-Disposition: form-data; name=f; filename*=x\r\n\r\n"),
		  "" },
		{ SPAN_LIT(
			  "--XX\r\nContent-Disposition: form-data; name=f; filename*=utf-8''%\r\n\r\n"),
		  "" },
		{ SPAN_LIT(
			  "--XX\r\nContent-Disposition: form-data; name=f; filename*=utf-8''%00\r\n\r\n"),
		  "" },
		{ SPAN_LIT(
			  "--XX\r\nContent-Disposition: form-data; name=f; filename*=utf-8''%ff\r\n\r\n"),
		  "" },
		{ SPAN_LIT(
			  "--XX\r\nContent-Disposition: form-data; name=f; filename*=latin1''a\r\n\r\n"),
		  "" },
		{ SPAN_LIT("--XX\r\n" HEAD " folded\r\n\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nno colon\r\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\n: no name\r\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nX : blank\r\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\nX: nul \0\r\n" HEAD "\r\nx\r\n--XX--"), "" },
		{ SPAN_LIT("--XX\r\n" HEAD
			   "Content-Transfer-Encoding: base64\r\n\r\neA==\r\n--XX--"),
		  "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		check(TYPE, cases[i].body, &multipart_default_limits, -EINVAL, cases[i].events);
}

static void limits_hold(void **state)
{
	struct multipart_limits limits = { .max_head = 60, .max_parts = 2 };
	char preamble[62];

	(void)state;
	check(TYPE, SPAN_LIT("--XX\r\n" HEAD "\r\n\r\n--XX\r\n" HEAD "\r\n\r\n--XX--"), &limits, 0,
	      "(f|-|).(f|-|).END");
	check(TYPE,
	      SPAN_LIT("--XX\r\n" HEAD "\r\n\r\n--XX\r\n" HEAD "\r\n\r\n--XX\r\n" HEAD "\r\n"),
	      &limits, -EMSGSIZE, "(f|-|).(f|-|).");
	/* 60 bytes of head with the empty line, then 61 */
	check(TYPE, SPAN_LIT("--XX\r\n" HEAD "X: 0123456789a\r\n\r\n\r\n--XX--"), &limits, 0,
	      "(f|-|).END");
	check(TYPE, SPAN_LIT("--XX\r\n" HEAD "X: 0123456789ab\r\n\r\n\r\n--XX--"), &limits,
	      -EMSGSIZE, "");
	memset(preamble, 'p', sizeof(preamble));
	check(TYPE, span_of(preamble, 60), &limits, -EINVAL, "");
	check(TYPE, span_of(preamble, 61), &limits, -EMSGSIZE, "");
}

static void boundaries(void **state)
{
#define SEVENTY "0123456789012345678901234567890123456789012345678901234567890123456789"
	static const struct {
		const char *type, *boundary; /* NULL: refused */
	} cases[] = {
		{ "multipart/form-data; boundary=abc", "abc" },
		{ "multipart/form-data;boundary=abc", "abc" },
		{ "Multipart/Form-Data ; Boundary = abc ; x=y", "abc" },
		{ "multipart/form-data; boundary=\"abc\"", "abc" },
		{ "multipart/form-data; boundary=\"a b/c:d=?,(e)'+_-.f\"", "a b/c:d=?,(e)'+_-.f" },
		{ "multipart/form-data; charset=utf-8; boundary=abc", "abc" },
		{ "multipart/form-data; charset=\"x;boundary=no\"; boundary=abc;", "abc" },
		{ "multipart/form-data; boundary=" SEVENTY, SEVENTY },
		{ "multipart/form-data; boundary=----WebKitFormBoundaryAb1",
		  "----WebKitFormBoundaryAb1" },
		{ "multipart/form-data; boundary=" SEVENTY "x", NULL },
		{ "multipart/form-data", NULL },
		{ "multipart/form-data; boundary", NULL },
		{ "multipart/form-data; boundary=", NULL },
		{ "multipart/form-data; boundary=\"\"", NULL },
		{ "multipart/form-data; boundary=\"abc", NULL },
		{ "multipart/form-data; boundary=\"ab \"", NULL },
		{ "multipart/form-data; boundary=\"a\\\"b\"", NULL },
		{ "multipart/form-data; boundary=a@b", NULL },
		{ "multipart/form-data; boundary=\xc3\xa9", NULL },
		{ "multipart/form-data; boundary=a; boundary=b", NULL },
		{ "multipart/form-data; boundary=a b", NULL },
		{ "multipart/mixed; boundary=abc", NULL },
		{ "application/json", NULL },
		{ "", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		struct multipart m;
		int r = multipart_init(&m, span_str(cases[i].type), &multipart_default_limits, &e);

		if (cases[i].boundary == NULL) {
			assert_int_equal(r, -EINVAL);
			assert_true(strlen(e.msg) > 0);
			continue;
		}
		assert_int_equal(r, 0);
		assert_int_equal(m.delim_len, strlen(cases[i].boundary) + 4);
		assert_memory_equal(m.delim, "\r\n--", 4);
		assert_memory_equal(m.delim + 4, cases[i].boundary, m.delim_len - 4);
	}
}

/* A body that is all line ends or dashes must neither be slow nor come out in crumbs. */
static void big_pieces_stay_whole(void **state)
{
	static const char head[] = "--XX\r\n" HEAD "\r\n", tail[] = "\r\n--XX--";
	const char *fill[] = { "\r", "\r\n", "\r\n-", "\r\n--X", "-", "x" };
	size_t size = 1 << 20;
	char *body = malloc(size + sizeof(head) + sizeof(tail));

	(void)state;
	assert_non_null(body);
	for (size_t i = 0; i < ARRAY_LEN(fill); i++) {
		struct multipart m;
		struct span in, data;
		size_t unit = strlen(fill[i]), got = 0, events = 0, len = sizeof(head) - 1;
		int r;

		memcpy(body, head, len);
		/* begins with x, so that nothing in front of it can be part of the delimiter */
		body[len++] = 'x';
		for (size_t k = 1; k < size; k++)
			body[len++] = fill[i][k % unit];
		memcpy(body + len, tail, sizeof(tail) - 1);
		in = span_of(body, len + sizeof(tail) - 1);
		assert_int_equal(
			multipart_init(&m, SPAN_LIT(TYPE), &multipart_default_limits, NULL), 0);
		while ((r = multipart_next(&m, &in, &data, NULL)) > 0) {
			if (r != MULTIPART_DATA)
				continue;
			got += data.len;
			events++;
		}
		assert_int_equal(r, 0);
		assert_int_equal(got, size);
		assert_int_equal(events, 1);
		assert_int_equal(multipart_finish(&m, NULL), 0);
	}
	free(body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),
		cmocka_unit_test(refused),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(boundaries),
		cmocka_unit_test(big_pieces_stay_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
