/* JSON trees: limits before anything is built, fields with exact words, one-line text out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/json.h"

static json_t *parse(const char *text)
{
	struct err e = ERR_INIT;
	json_t *v = NULL;

	if (json_parse(span_str(text), &json_default_limits, &v, &e) < 0)
		fail_msg("%s: %s", text, e.msg);
	return v;
}

static void accepted(void **state)
{
	static const struct {
		struct span in;
		const char *out;
	} cases[] = {
		{ SPAN_LIT("{}"), "{}" },
		{ SPAN_LIT(" \t\r\n[ ] \n"), "[]" },
		{ SPAN_LIT("null"), "null" },
		{ SPAN_LIT(" true "), "true" },
		{ SPAN_LIT("-12"), "-12" },
		{ SPAN_LIT("1.50"), "1.5" },
		{ SPAN_LIT("9223372036854775807"), "9223372036854775807" },
		{ SPAN_LIT("\"a\\u00e9\\ud83d\\ude00\""), "\"a\xc3\xa9\xf0\x9f\x98\x80\"" },
		{ SPAN_LIT("{\"a\":{\"b\":[1,2,{\"c\":null}]}}"),
		  "{\"a\":{\"b\":[1,2,{\"c\":null}]}}" },
		{ SPAN_LIT("{\"a\":1,\"a\":2}"), "{\"a\":2}" }, /* the last wins */
		{ SPAN_LIT("{\"brace\":\"}\\\"]\",\"b\":1}"), "{\"brace\":\"}\\\"]\",\"b\":1}" },
		{ SPAN_LIT("\"\\u0085\\u2028\""), "\"\\u0085\\u2028\"" },
		{ SPAN_LIT("\"<&>\""), "\"<&>\"" },
	};
	struct buf out = BUF_INIT(1024);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		json_t *v = NULL;

		assert_int_equal(json_parse(cases[i].in, &json_default_limits, &v, &e), 0);
		buf_clear(&out);
		assert_int_equal(json_encode(v, &out), 0);
		assert_string_equal(buf_cstr(&out), cases[i].out);
		json_decref(v);
	}
	buf_free(&out);
}

static void refused(void **state)
{
	static const struct {
		struct span in;
		int code;
	} cases[] = {
		{ SPAN_LIT(""), ENODATA },
		{ SPAN_LIT(" \r\n\t "), ENODATA },
		{ SPAN_LIT("{"), EINVAL },
		{ SPAN_LIT("{]"), EINVAL },
		{ SPAN_LIT("[}"), EINVAL },
		{ SPAN_LIT("[1,]"), EINVAL },
		{ SPAN_LIT("{\"a\":1,}"), EINVAL },
		{ SPAN_LIT("{a:1}"), EINVAL },
		{ SPAN_LIT("{'a':1}"), EINVAL },
		{ SPAN_LIT("{} {}"), EINVAL },
		{ SPAN_LIT("{}x"), EINVAL },
		{ SPAN_LIT("null x"), EINVAL },
		{ SPAN_LIT("1 2"), EINVAL },
		{ SPAN_LIT("nul"), EINVAL },
		{ SPAN_LIT("NaN"), EINVAL },
		{ SPAN_LIT("01"), EINVAL },
		{ SPAN_LIT("+1"), EINVAL },
		{ SPAN_LIT(".5"), EINVAL },
		{ SPAN_LIT("9223372036854775808"), EINVAL },
		{ SPAN_LIT("1e999"), EINVAL },
		{ SPAN_LIT("\"\n\""), EINVAL },
		{ SPAN_LIT("\"open"), EINVAL },
		{ SPAN_LIT("\"open\\"), EINVAL },
		{ SPAN_LIT("[\"open\\"), EINVAL },
		{ SPAN_LIT("\"\\x\""), EINVAL },
		{ SPAN_LIT("\"\\ud800\""), EINVAL },
		{ SPAN_LIT("\"\xff\""), EINVAL },
		{ SPAN_LIT("\xef\xbb\xbf{}"), EINVAL },
		{ SPAN_LIT("\"\\u0000\""), EINVAL },
		{ SPAN_LIT("{\"a\\u0000b\":1}"), EINVAL },
		{ SPAN_LIT("{}\0"), EINVAL },
		{ SPAN_LIT("\0"), EINVAL },
		{ SPAN_LIT("// no\n{}"), EINVAL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		json_t *v = NULL;

		assert_int_equal(json_parse(cases[i].in, &json_default_limits, &v, &e),
				 -cases[i].code);
		assert_int_equal(e.code, cases[i].code);
		assert_true(strlen(e.msg) > 0);
		assert_null(v);
	}
}

static void first_value_only(void **state)
{
	static const struct {
		const char *in, *out; /* out NULL: refused */
	} cases[] = {
		{ "{\"a\":1}{\"b\":2}", "{\"a\":1}" },
		{ "{\"a\":1} trailing ]]]] [[[[[[[[", "{\"a\":1}" },
		{ "[]\n\n]", "[]" },
		{ "null,", "null" },
		{ "\"s\" \"t\"", "\"s\"" },
		{ "12 13", "12" },
		{ "{\"a\":", NULL },
		{ "x{}", NULL },
		{ "[1}", NULL },
	};
	struct json_limits limits = json_default_limits;
	struct buf out = BUF_INIT(256);

	(void)state;
	limits.first_only = true;
	limits.max_depth = 2; /* what is ignored is not counted either */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *v = NULL;
		int r = json_parse(span_str(cases[i].in), &limits, &v, NULL);

		if (cases[i].out == NULL) {
			assert_int_equal(r, -EINVAL);
			continue;
		}
		assert_int_equal(r, 0);
		buf_clear(&out);
		assert_int_equal(json_encode(v, &out), 0);
		assert_string_equal(buf_cstr(&out), cases[i].out);
		json_decref(v);
	}
	buf_free(&out);
}

static void limits_hold(void **state)
{
	struct json_limits limits = { .max_bytes = 40, .max_depth = 3, .max_values = 6 };
	static const struct {
		const char *in;
		int r;
	} cases[] = {
		{ "[[[1]]]", 0 },
		{ "[[[[1]]]]", -EMSGSIZE },
		{ "[[],[],[[]]]", 0 },
		{ "{\"a\":{\"b\":{}}}", 0 },
		{ "{\"a\":{\"b\":{\"c\":{}}}}", -EMSGSIZE },
		{ "[\"[[[[[[[[\"]", 0 },
		{ "[\"\\\"[[[[[[\"]", 0 },
		{ "[[[[[[[[[[[[[[[[[[", -EMSGSIZE }, /* not even well-formed: nothing is built */
		{ "[1,2,3,4,5]", 0 },
		{ "[1,2,3,4,5,6,7]", -EMSGSIZE },
		{ "[\",,,,,,,,,,\"]", 0 },
		{ "\"012345678901234567890123456789\"", 0 },
		{ "\"012345678901234567890123456789012345678\"", -EMSGSIZE },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		json_t *v = NULL;

		assert_int_equal(json_parse(span_str(cases[i].in), &limits, &v, NULL), cases[i].r);
		json_decref(v);
	}
}

static void scalars_only(void **state)
{
	struct json_limits limits = json_default_limits;
	json_t *v = NULL;

	(void)state;
	limits.max_depth = 0;
	assert_int_equal(json_parse(SPAN_LIT("[]"), &limits, &v, NULL), -EMSGSIZE);
	assert_int_equal(json_parse(SPAN_LIT("7"), &limits, &v, NULL), 0);
	json_decref(v);
}

static void nul_when_allowed(void **state)
{
	struct json_limits limits = json_default_limits;
	struct err e = ERR_INIT;
	struct buf out = BUF_INIT(256);
	const char *str = "untouched";
	struct span span;
	json_t *v = NULL;

	(void)state;
	limits.allow_nul = true;
	assert_int_equal(json_parse(SPAN_LIT("{\"a\":\"x\\u0000y\"}"), &limits, &v, &e), 0);
	assert_int_equal(json_get_span(v, "a", JSON_MUST, &span, &e), 1);
	assert_int_equal(span.len, 3);
	assert_memory_equal(span.p, "x\0y", 3);
	assert_int_equal(json_get_str(v, "a", JSON_MUST, &str, &e), -EINVAL);
	assert_string_equal(e.msg, "field 'a' must not contain a NUL character");
	assert_string_equal(str, "untouched");
	assert_int_equal(json_encode(v, &out), 0);
	assert_string_equal(buf_cstr(&out), "{\"a\":\"x\\u0000y\"}");
	json_decref(v);
	v = NULL;
	assert_int_equal(json_parse(SPAN_LIT("{\"a\\u0000\":1}"), &limits, &v, &e), -EINVAL);
	buf_free(&out);
}

static void fields(void **state)
{
	json_t *v = parse("{\"s\":\"text\",\"i\":-5,\"u\":4294967295,\"r\":30.0,\"t\":true,"
			  "\"f\":false,\"o\":{\"k\":1},\"l\":[1],\"n\":null}");
	struct err e = ERR_INIT;
	const char *s = NULL;
	int64_t i = 0;
	uint32_t u = 0;
	double d = 0;
	bool b = false;
	json_t *c = NULL;

	(void)state;
	assert_int_equal(json_get_str(v, "s", JSON_MUST, &s, &e), 1);
	assert_string_equal(s, "text");
	assert_int_equal(json_get_i64(v, "i", JSON_MUST, &i, &e), 1);
	assert_int_equal(i, -5);
	assert_int_equal(json_get_u32(v, "u", JSON_MUST, &u, &e), 1);
	assert_int_equal(u, UINT32_MAX);
	assert_int_equal(json_get_f64(v, "r", JSON_MUST, &d, &e), 1);
	assert_true(d == 30.0);
	assert_int_equal(json_get_f64(v, "i", JSON_MUST, &d, &e), 1);
	assert_true(d == -5.0);
	assert_int_equal(json_get_bool(v, "t", JSON_MUST, &b, &e), 1);
	assert_true(b);
	assert_int_equal(json_get_bool(v, "f", JSON_MUST, &b, &e), 1);
	assert_false(b);
	assert_int_equal(json_get_object(v, "o", JSON_MUST, &c, &e), 1);
	assert_int_equal(json_object_size(c), 1);
	assert_int_equal(json_get_array(v, "l", JSON_MUST, &c, &e), 1);
	assert_int_equal(json_array_size(c), 1);

	/* null and absent are the same: unset */
	s = "before";
	assert_int_equal(json_get_str(v, "n", JSON_MAY, &s, &e), 0);
	assert_int_equal(json_get_str(v, "missing", JSON_MAY, &s, &e), 0);
	assert_string_equal(s, "before");
	assert_int_equal(json_get_str(NULL, "missing", JSON_MAY, &s, &e), 0);
	json_decref(v);
}

static void field_errors_have_words(void **state)
{
	json_t *v = parse("{\"s\":\"text\",\"i\":-5,\"big\":4294967296,\"r\":30.0,\"b\":true,"
			  "\"o\":{},\"l\":[],\"n\":null}");
	enum kind { STR, I64, U32, F64, BOOL, OBJECT, ARRAY };
	static const struct {
		enum kind kind;
		const char *key, *words;
	} cases[] = {
		{ STR, "i", "field 'i' must be a string, not an integer" },
		{ STR, "missing", "field 'missing' is required" },
		{ STR, "n", "field 'n' is required" },
		{ I64, "s", "field 's' must be an integer, not a string" },
		{ I64, "r", "field 'r' must be an integer, not a real number" },
		{ U32, "i", "field 'i' must be between 0 and 4294967295" },
		{ U32, "big", "field 'big' must be between 0 and 4294967295" },
		{ U32, "b", "field 'b' must be an integer, not a boolean" },
		{ F64, "s", "field 's' must be a number, not a string" },
		{ BOOL, "i", "field 'i' must be a boolean, not an integer" },
		{ OBJECT, "l", "field 'l' must be an object, not an array" },
		{ ARRAY, "o", "field 'o' must be an array, not an object" },
	};

	(void)state;
	for (size_t k = 0; k < ARRAY_LEN(cases); k++) {
		struct err e = ERR_INIT;
		const char *s, *key = cases[k].key;
		int64_t i;
		uint32_t u;
		double d;
		bool b;
		json_t *c;
		int r = 0;

		switch (cases[k].kind) {
		case STR:
			r = json_get_str(v, key, JSON_MUST, &s, &e);
			break;
		case I64:
			r = json_get_i64(v, key, JSON_MUST, &i, &e);
			break;
		case U32:
			r = json_get_u32(v, key, JSON_MUST, &u, &e);
			break;
		case F64:
			r = json_get_f64(v, key, JSON_MUST, &d, &e);
			break;
		case BOOL:
			r = json_get_bool(v, key, JSON_MUST, &b, &e);
			break;
		case OBJECT:
			r = json_get_object(v, key, JSON_MUST, &c, &e);
			break;
		case ARRAY:
			r = json_get_array(v, key, JSON_MUST, &c, &e);
			break;
		}
		assert_int_equal(r, -EINVAL);
		assert_string_equal(e.msg, cases[k].words);
	}
	json_decref(v);
}

static void any_case(void **state)
{
	json_t *v = parse("{\"Command\":\"a\",\"cwd\":\"b\",\"CWD\":\"c\",\"X\":1,\"x\":null}");
	struct err e = ERR_INIT;
	const char *s = NULL;
	int64_t i = 7;

	(void)state;
	assert_int_equal(json_get_str(v, "command", JSON_MAY, &s, &e), 0);
	assert_int_equal(json_get_str(v, "command", JSON_MUST | JSON_ANY_CASE, &s, &e), 1);
	assert_string_equal(s, "a");
	assert_int_equal(json_get_str(v, "cwd", JSON_ANY_CASE, &s, &e), 1);
	assert_string_equal(s, "b"); /* an exact one is preferred */
	assert_int_equal(json_get_str(v, "Cwd", JSON_ANY_CASE, &s, &e), 1);
	assert_string_equal(s, "c"); /* else the last */
	assert_int_equal(json_get_i64(v, "x", JSON_ANY_CASE, &i, &e), 0);
	assert_int_equal(i, 7);
	assert_null(json_get_ci(v, "nothing"));
	assert_null(json_get_ci(NULL, "nothing"));
	json_decref(v);
}

static void roots(void **state)
{
	json_t *o = parse("{}"), *l = parse("[]");
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(json_need_object(o, &e), 0);
	assert_int_equal(json_need_array(l, &e), 0);
	assert_int_equal(json_need_object(l, &e), -EINVAL);
	assert_string_equal(e.msg, "an object is expected, not an array");
	assert_int_equal(json_need_array(o, &e), -EINVAL);
	assert_string_equal(e.msg, "an array is expected, not an object");
	assert_int_equal(json_need_object(NULL, &e), -EINVAL);
	json_decref(o);
	json_decref(l);
}

static void encoding_is_bounded(void **state)
{
	struct buf out = BUF_INIT(8);
	json_t *v = parse("[1,2,3,4,5,6,7,8,9]"), *deep = json_null();

	(void)state;
	assert_int_equal(json_encode(v, &out), -EMSGSIZE);
	buf_free(&out);
	json_decref(v);

	out = BUF_INIT(4096);
	for (int i = 0; i < JW_MAX_DEPTH; i++) {
		json_t *outer = json_array();

		assert_int_equal(json_array_append_new(outer, deep), 0);
		deep = outer;
	}
	assert_int_equal(json_encode(deep, &out), 0);
	v = json_array();
	assert_int_equal(json_array_append_new(v, deep), 0);
	buf_clear(&out);
	assert_int_equal(json_encode(v, &out), -EMSGSIZE);
	json_decref(v);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),
		cmocka_unit_test(refused),
		cmocka_unit_test(first_value_only),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(scalars_only),
		cmocka_unit_test(nul_when_allowed),
		cmocka_unit_test(fields),
		cmocka_unit_test(field_errors_have_words),
		cmocka_unit_test(any_case),
		cmocka_unit_test(roots),
		cmocka_unit_test(encoding_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
