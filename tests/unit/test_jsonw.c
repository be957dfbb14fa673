/* The direct JSON writer: structure, numbers, and strings of any bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/json.h"
#include "codec/jsonw.h"
#include "codec/utf8.h"

static void assert_buf(struct buf *b, const char *text)
{
	assert_false(buf_failed(b));
	assert_int_equal(b->len, strlen(text));
	assert_memory_equal(b->data, text, b->len);
}

static void structure(void **state)
{
	struct buf b = BUF_INIT(1024);
	struct jw w = JW_INIT(&b);

	(void)state;
	jw_object(&w);
	jw_field_cstr(&w, "type", "stdout");
	jw_field_str(&w, "text", span_of("a\0b", 3));
	jw_field_i64(&w, "timestamp", 1712345678901);
	jw_field_bool(&w, "yes", true);
	jw_field_f64(&w, "load", 0.1);
	jw_field_time(&w, "at", 951782400000001);
	jw_field_cstr(&w, "none", NULL);
	jw_key(&w, "list");
	jw_array(&w);
	jw_array(&w);
	jw_end(&w);
	jw_object(&w);
	jw_end(&w);
	jw_bool(&w, false);
	jw_null(&w);
	jw_raw(&w, SPAN_LIT("{\"x\":[1]}"));
	jw_cstr(&w, "");
	jw_end(&w);
	jw_field_u64(&w, "last", UINT64_MAX);
	assert_false(jw_ok(&w));
	jw_end(&w);
	assert_true(jw_ok(&w));
	assert_buf(&b, "{\"type\":\"stdout\",\"text\":\"a\\u0000b\",\"timestamp\":1712345678901,"
		       "\"yes\":true,\"load\":0.1,\"at\":\"2000-02-29T00:00:00.000001Z\","
		       "\"none\":null,\"list\":[[],{},false,null,{\"x\":[1]},\"\"],"
		       "\"last\":18446744073709551615}");
	buf_free(&b);
}

static void deepest(void **state)
{
	struct buf b = BUF_INIT(1024);
	struct jw w = JW_INIT(&b);

	(void)state;
	for (int i = 0; i < JW_MAX_DEPTH; i++) {
		if (i % 2 == 0) {
			jw_object(&w);
			jw_field_i64(&w, "a", i);
			jw_key(&w, "b");
		} else {
			jw_array(&w);
			jw_null(&w);
		}
	}
	jw_null(&w);
	for (int i = 0; i < JW_MAX_DEPTH; i++)
		jw_end(&w);
	assert_true(jw_ok(&w));

	struct json_limits limits = json_default_limits;
	limits.max_depth = JW_MAX_DEPTH;
	json_t *v = NULL;
	assert_int_equal(json_parse(buf_span(&b), &limits, &v, NULL), 0);
	json_decref(v);
	buf_free(&b);
}

static void numbers(void **state)
{
	static const struct {
		double v;
		const char *text;
	} reals[] = {
		{ 0, "0.0" },
		{ -0.0, "-0.0" },
		{ 1, "1.0" },
		{ 0.1, "0.1" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ 1e300, "1e+300" },
		{ -2.5e-7, "-2.5e-07" },
		{ 123456789012345678.0, "1.2345678901234568e+17" },
		{ (double)INFINITY, "null" },
		{ (double)-INFINITY, "null" },
		{ (double)NAN, "null" },
	};
	static const struct {
		int64_t v;
		const char *text;
	} ints[] = {
		{ 0, "0" },
		{ -1, "-1" },
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
	};
	struct buf b = BUF_INIT(64);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(reals); i++) {
		struct jw w = JW_INIT(&b);

		buf_clear(&b);
		jw_f64(&w, reals[i].v);
		assert_buf(&b, reals[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(ints); i++) {
		struct jw w = JW_INIT(&b);

		buf_clear(&b);
		jw_i64(&w, ints[i].v);
		assert_buf(&b, ints[i].text);
	}
	buf_free(&b);
}

#define FFFD UTF8_REPLACEMENT

static const struct {
	struct span in;
	const char *out;
} strings[] = {
	{ SPAN_LIT(""), "" },
	{ SPAN_LIT("plain"), "plain" },
	{ SPAN_LIT("\"\\/\b\f\n\r\t"), "\\\"\\\\/\\b\\f\\n\\r\\t" },
	{ SPAN_LIT("\x01\x1f\x1b[0m\x7f"), "\\u0001\\u001f\\u001b[0m\x7f" },
	{ SPAN_LIT("\0"), "\\u0000" },
	{ SPAN_LIT("<b>&amp;</b>"), "<b>&amp;</b>" },
	/* well-formed, one of each length, and the first and last of each */
	{ SPAN_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
	  "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ SPAN_LIT("\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"),
	  "\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf" },
	{ SPAN_LIT("\xed\x9f\xbf\xee\x80\x80"), "\xed\x9f\xbf\xee\x80\x80" },
	/* what splits lines for some clients, and its neighbours */
	{ SPAN_LIT("a\xc2\x85z"), "a\\u0085z" },
	{ SPAN_LIT("\xc2\x84\xc2\x86"), "\xc2\x84\xc2\x86" },
	{ SPAN_LIT("\xe2\x80\xa8\xe2\x80\xa9"), "\\u2028\\u2029" },
	{ SPAN_LIT("\xe2\x80\xa7\xe2\x80\xaf"), "\xe2\x80\xa7\xe2\x80\xaf" },
	/* ill-formed: one mark per maximal subpart */
	{ SPAN_LIT("\x80"), FFFD },
	{ SPAN_LIT("\xff\xfe"), FFFD FFFD },
	{ SPAN_LIT("\xc0\xaf"), FFFD FFFD },
	{ SPAN_LIT("\xc3"), FFFD },
	{ SPAN_LIT("\xc3("), FFFD "(" },
	{ SPAN_LIT("\xe2\x82"), FFFD },
	{ SPAN_LIT("\xe2\x82z"), FFFD "z" },
	{ SPAN_LIT("\xe2\x80"), FFFD },
	{ SPAN_LIT("\xe0\x80\x80"), FFFD FFFD FFFD },
	{ SPAN_LIT("\xed\xa0\x80"), FFFD FFFD FFFD },
	{ SPAN_LIT("\xf0\x9f\x98"), FFFD },
	{ SPAN_LIT("\xf0\x9f\x98x"), FFFD "x" },
	{ SPAN_LIT("\xf0\x80\x80\x80"), FFFD FFFD FFFD FFFD },
	{ SPAN_LIT("\xf4\x90\x80\x80"), FFFD FFFD FFFD FFFD },
	{ SPAN_LIT("\xf5\x80"), FFFD FFFD },
	/* the example of the Unicode standard, table 3-8 */
	{ SPAN_LIT("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"),
	  "a" FFFD FFFD FFFD "b" FFFD "c" FFFD FFFD "d" },
};

static void check_string(struct span in, struct span out)
{
	struct buf b = BUF_INIT(4096);
	struct buf tight = BUF_INIT(out.len);
	struct buf short_by_one = BUF_INIT(out.len > 0 ? out.len - 1 : 0);
	/* an exact copy on the heap, so that a sanitizer sees one byte too many */
	char *copy = malloc(in.len + 1);

	assert_non_null(copy);
	memcpy(copy, in.p, in.len);
	copy = realloc(copy, in.len > 0 ? in.len : 1);
	assert_non_null(copy);
	in.p = copy;

	jw_escape(&b, in);
	assert_false(buf_failed(&b));
	assert_int_equal(b.len, out.len);
	assert_memory_equal(b.data != NULL ? b.data : "", out.p, out.len);

	/* exact to the byte at the limit */
	jw_escape(&tight, in);
	assert_false(buf_failed(&tight));
	assert_int_equal(tight.len, out.len);
	if (out.len > 0) {
		jw_escape(&short_by_one, in);
		assert_true(buf_failed(&short_by_one));
		assert_true(short_by_one.len < out.len);
	}
	buf_free(&b);
	buf_free(&tight);
	buf_free(&short_by_one);
	free(copy);
}

/* Every case alone, and with every number of plain bytes before and behind it: the writer takes
 * steps of sixteen and eight bytes, and any of them may meet the special one. */
static void string_bytes(void **state)
{
	char in[256], out[512];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(strings); i++) {
		size_t in_len = strings[i].in.len, out_len = strlen(strings[i].out);

		for (size_t before = 0; before < 40; before++) {
			for (size_t behind = 0; behind < 20; behind++) {
				memset(in, 'x', sizeof(in));
				memset(out, 'x', sizeof(out));
				memcpy(in + before, strings[i].in.p, in_len);
				memcpy(out + before, strings[i].out, out_len);
				check_string(span_of(in, before + in_len + behind),
					     span_of(out, before + out_len + behind));
			}
		}
	}
}

static void every_byte_pair_stays_on_one_line(void **state)
{
	struct buf b = BUF_INIT(64);

	(void)state;
	for (unsigned i = 0; i < 65536; i++) {
		char in[2] = { (char)(i >> 8), (char)i };
		struct jw w = JW_INIT(&b);
		json_t *v = NULL;

		buf_clear(&b);
		jw_str(&w, span_of(in, 2));
		for (size_t k = 0; k < b.len; k++)
			assert_true((unsigned char)b.data[k] >= 0x20);
		struct json_limits limits = json_default_limits;
		limits.allow_nul = true;
		assert_int_equal(json_parse(buf_span(&b), &limits, &v, NULL), 0);
		if (utf8_valid(span_of(in, 2))) {
			assert_int_equal(json_string_length(v), 2);
			assert_memory_equal(json_string_value(v), in, 2);
		}
		json_decref(v);
	}
	buf_free(&b);
}

static void a_full_buffer_is_told(void **state)
{
	struct buf b = BUF_INIT(10);
	struct jw w = JW_INIT(&b);

	(void)state;
	jw_array(&w);
	jw_cstr(&w, "this is too long for it");
	jw_i64(&w, 5);
	jw_end(&w);
	assert_true(buf_failed(&b));
	assert_false(jw_ok(&w));
	assert_true(b.len <= 10);
	buf_free(&b);
}

/* ---- utf8.h, which the writer stands on ---- */

static void utf8_round_trip(void **state)
{
	char text[4];
	uint32_t back;

	(void)state;
	for (uint32_t cp = 0; cp < 0x120000; cp++) {
		bool good = cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
		size_t n = utf8_put(cp, text);

		assert_int_equal(n > 0, good);
		if (!good)
			continue;
		assert_int_equal(utf8_decode(span_of(text, n), &back), (int)n);
		assert_int_equal(back, cp);
		assert_true(utf8_valid(span_of(text, n)));
		assert_int_equal(utf8_tail(span_of(text, n)), 0);
		for (size_t cut = 1; cut < n; cut++) {
			assert_int_equal(utf8_decode(span_of(text, cut), &back), -(int)cut);
			assert_int_equal(utf8_tail(span_of(text, cut)), cut);
			assert_false(utf8_valid(span_of(text, cut)));
		}
	}
}

static void utf8_tails(void **state)
{
	static const struct {
		const char *text;
		size_t tail;
	} cases[] = {
		{ "", 0 },
		{ "abc", 0 },
		{ "ab\xc3", 1 },
		{ "ab\xe2\x82", 2 },
		{ "ab\xf0\x9f\x98", 3 },
		{ "ab\xf0\x9f\x98\x80", 0 },
		{ "\x80\x80\x80", 0 },
		{ "\xc3\x80\x80", 0 },
		{ "\xe0\x80", 0 }, /* can never become good */
		{ "\xed\xa0", 0 },
		{ "\xff", 0 },
		{ "\xc1", 0 },
		{ "\xf0\x9f\xe2", 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(utf8_tail(span_str(cases[i].text)), cases[i].tail);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(structure),
		cmocka_unit_test(deepest),
		cmocka_unit_test(numbers),
		cmocka_unit_test(string_bytes),
		cmocka_unit_test(every_byte_pair_stays_on_one_line),
		cmocka_unit_test(a_full_buffer_is_told),
		cmocka_unit_test(utf8_round_trip),
		cmocka_unit_test(utf8_tails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
