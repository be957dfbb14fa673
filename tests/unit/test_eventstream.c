/* Event streams. What is read is fed whole, byte by byte, and in pieces of every other size: the
 * events must be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/eventstream.h"
#include "codec/jsonw.h"

/* {data} for a bare line, <type|data|id|retry> for an ordinary event. */
static void add_event(struct buf *out, const struct eventstream_event *ev)
{
	if (ev->bare) {
		assert_int_equal(ev->type.len, 0);
		(void)buf_add_span(out, ev->data);
		return;
	}
	(void)buf_add_char(out, '<');
	(void)buf_add_span(out, ev->type);
	(void)buf_add_char(out, '|');
	(void)buf_add_span(out, ev->data);
	(void)buf_add_char(out, '|');
	(void)buf_add_span(out, ev->id);
	(void)buf_add_char(out, '|');
	if (ev->has_retry)
		(void)buf_add_u64(out, ev->retry_ms);
	(void)buf_add_char(out, '>');
}

static int read_all(struct span in, size_t max, size_t step, struct buf *out, struct err *e)
{
	struct eventstream s;
	struct eventstream_event ev;
	int r = 0;

	eventstream_init(&s, max);
	for (size_t at = 0; r == 0 && at < in.len; at += step) {
		struct span piece = span_of(in.p + at, MIN(step, in.len - at));

		while ((r = eventstream_next(&s, &piece, &ev, e)) > 0)
			add_event(out, &ev);
		if (r == 0)
			assert_int_equal(piece.len, 0);
	}
	if (r == 0)
		while ((r = eventstream_finish(&s, &ev, e)) > 0)
			add_event(out, &ev);
	else
		assert_true(eventstream_next(&s, &(struct span){ "x\n", 2 }, &ev, NULL) < 0);
	eventstream_free(&s);
	return r;
}

static void reading(void **state)
{
	static const struct {
		struct span in;
		const char *out;
	} cases[] = {
		{ SPAN_LIT(""), "" },
		/* the dialect of commands */
		{ SPAN_LIT("{\"a\":1}\n\n{\"b\":2}\n\n"), "{\"a\":1}{\"b\":2}" },
		{ SPAN_LIT("{\"a\":1}\r\n\r\n{\"b\":2}\r\r"), "{\"a\":1}{\"b\":2}" },
		{ SPAN_LIT("{\"a\":1}\n{\"b\":2}\n"), "{\"a\":1}{\"b\":2}" },
		{ SPAN_LIT("{\"a\":1}\n\n{\"code\":\"X\"}"), "{\"a\":1}{\"code\":\"X\"}" },
		{ SPAN_LIT(": ping\n\n{\"a\":1}\n\n:\n"), "{\"a\":1}" },
		{ SPAN_LIT("\xef\xbb\xbf{\"a\":1}\n\n"), "{\"a\":1}" },
		/* the ordinary one */
		{ SPAN_LIT("data: x\n\n"), "<|x||>" },
		{ SPAN_LIT("data:x\n\n"), "<|x||>" },
		{ SPAN_LIT("data:  x\n\n"), "<| x||>" },
		{ SPAN_LIT("data: {\"a\":1}\n\ndata: {\"b\":2}\n\n"),
		  "<|{\"a\":1}||><|{\"b\":2}||>" },
		{ SPAN_LIT("data: a\ndata: b\ndata\ndata:\n\n"), "<|a\nb\n\n||>" },
		{ SPAN_LIT("data\n\n"), "<|||>" },
		{ SPAN_LIT("event: tick\r\ndata: 1\r\nid: 7\r\n\r\ndata: 2\r\n\r\n"),
		  "<tick|1|7|><|2|7|>" },
		{ SPAN_LIT("id: 7\ndata: 1\n\nid\ndata: 2\n\n"), "<|1|7|><|2||>" },
		{ SPAN_LIT("retry: 1500\ndata: 1\n\ndata: 2\n\n"), "<|1||1500><|2||>" },
		{ SPAN_LIT("retry: 1x\ndata: 1\n\n"), "<|1||>" },
		{ SPAN_LIT("event: a\nevent: b\ndata: 1\n\n"), "<b|1||>" },
		/* an event without data is none, and leaves no type behind */
		{ SPAN_LIT("event: a\n\ndata: 1\n\n"), "<|1||>" },
		{ SPAN_LIT("\n\n\ndata: 1\n\n\n\n"), "<|1||>" },
		{ SPAN_LIT("other: x\nDATA: y\n data: z\nno colon\ndata: 1\n\n"), "<|1||>" },
		{ SPAN_LIT("id: a\0b\ndata: 1\n\n"), "<|1||>" },
		/* cut off */
		{ SPAN_LIT("data: 1"), "<|1||>" },
		{ SPAN_LIT("data: 1\n"), "<|1||>" },
		{ SPAN_LIT("event: x"), "" },
		{ SPAN_LIT("data: 1\n{\"a\":1}"), "{\"a\":1}<|1||>" },
		/* a mixture */
		{ SPAN_LIT("event: e\ndata: 1\n{\"a\":1}\n\n"), "{\"a\":1}<e|1||>" },
	};
	struct buf out = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (size_t step = 1; step <= cases[i].in.len + 1; step++) {
			buf_clear(&out);
			assert_int_equal(read_all(cases[i].in, 1000, step, &out, NULL), 0);
			assert_string_equal(buf_cstr(&out), cases[i].out);
		}
	}
	buf_free(&out);
}

static void bounded(void **state)
{
	static const struct {
		const char *in;
		int r;
		const char *out;
	} cases[] = {
		{ "{\"a\":123}\n", 0, "{\"a\":123}" }, /* 9 of 10 bytes */
		{ "{\"a\":1234}\n", 0, "{\"a\":1234}" },
		{ "{\"a\":12345}\n", -EMSGSIZE, "" },
		{ "data: 0123456789\n\n", 0, "<|0123456789||>" },
		{ "data: 0123456789a\n\n", -EMSGSIZE, "" },
		{ "data: 01234\ndata: 6789\n\n", 0, "<|01234\n6789||>" },
		{ "data: 01234\ndata: 56789\n\n", -EMSGSIZE, "" },
		{ "data: 1\n\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", -EMSGSIZE, "<|1||>" },
	};
	struct buf out = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct span in = span_str(cases[i].in);

		for (size_t step = 1; step <= in.len; step++) {
			struct err e = ERR_INIT;

			buf_clear(&out);
			assert_int_equal(read_all(in, 10, step, &out, &e), cases[i].r);
			assert_string_equal(buf_cstr(&out), cases[i].out);
			assert_int_equal(e.code, -cases[i].r);
		}
	}

	/* names have bounds of their own */
	char line[EVENTSTREAM_ID_MAX + 8] = "id:";

	memset(line + 3, 'i', EVENTSTREAM_ID_MAX);
	line[3 + EVENTSTREAM_ID_MAX] = '\n';
	assert_int_equal(read_all(span_of(line, 4 + EVENTSTREAM_ID_MAX), 1000, 7, &out, NULL), 0);
	line[3 + EVENTSTREAM_ID_MAX] = 'i';
	line[4 + EVENTSTREAM_ID_MAX] = '\n';
	assert_int_equal(read_all(span_of(line, 5 + EVENTSTREAM_ID_MAX), 1000, 7, &out, NULL),
			 -EMSGSIZE);
	memcpy(line, "event:", 6);
	assert_int_equal(read_all(span_of(line, 5 + EVENTSTREAM_ID_MAX), 1000, 7, &out, NULL),
			 -EMSGSIZE);
	buf_free(&out);
}

static void writing(void **state)
{
	struct buf b = BUF_INIT(1024);
	struct jw w = JW_INIT(&b);

	(void)state;
	jw_object(&w);
	jw_field_cstr(&w, "type", "ping");
	jw_end(&w);
	eventstream_end_object(&b);
	assert_string_equal(buf_cstr(&b), "{\"type\":\"ping\"}\n\n");

	buf_clear(&b);
	assert_int_equal(
		eventstream_write(&b, &(struct eventstream_event){ .data = SPAN_LIT("x") }), 0);
	assert_string_equal(buf_cstr(&b), "data: x\n\n");

	buf_clear(&b);
	assert_int_equal(eventstream_write(&b,
					   &(struct eventstream_event){
						   .type = SPAN_LIT("tick"),
						   .id = SPAN_LIT("9"),
						   .has_retry = true,
						   .retry_ms = 250,
						   .data = SPAN_LIT("a\nb\r\nc\rd\n"),
					   }),
			 0);
	assert_string_equal(buf_cstr(&b), "event: tick\nid: 9\nretry: 250\n"
					  "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");

	/* nothing forged */
	buf_clear(&b);
	assert_int_equal(
		eventstream_write(&b,
				  &(struct eventstream_event){ .type = SPAN_LIT("a\ndata: no") }),
		-EINVAL);
	assert_int_equal(
		eventstream_write(&b, &(struct eventstream_event){ .id = SPAN_LIT("a\rb") }),
		-EINVAL);
	assert_int_equal(
		eventstream_write(&b, &(struct eventstream_event){ .id = SPAN_LIT("a\0b") }),
		-EINVAL);
	assert_int_equal(b.len, 0);

	eventstream_comment(&b, SPAN_LIT("still\nhere\r\n"));
	assert_string_equal(buf_cstr(&b), ": still here  \n\n");
	buf_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reading),
		cmocka_unit_test(bounded),
		cmocka_unit_test(writing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
