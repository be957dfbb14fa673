/* Range requests: parts, whole answers, and the two ways to fail. */
#include "codec/range.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/util.h"

static void test_parse(void **state)
{
	static const struct {
		const char *value;
		uint64_t size;
		enum range_result want;
		uint64_t first, last;
	} cases[] = {
		{ "bytes=0-0", 10, RANGE_PART, 0, 0 },
		{ "bytes=0-4", 10, RANGE_PART, 0, 4 },
		{ "bytes=3-", 10, RANGE_PART, 3, 9 },
		{ "bytes=9-9", 10, RANGE_PART, 9, 9 },
		{ "bytes=5-99", 10, RANGE_PART, 5, 9 },
		{ "bytes=0-", 10, RANGE_PART, 0, 9 },
		{ "bytes=-1", 10, RANGE_PART, 9, 9 },
		{ "bytes=-10", 10, RANGE_PART, 0, 9 },
		{ "bytes=-11", 10, RANGE_PART, 0, 9 },
		{ "bytes=-99999999999999999999999999", 10, RANGE_PART, 0, 9 },
		{ "bytes=0-99999999999999999999999999", 10, RANGE_PART, 0, 9 },
		{ "bytes=00-004", 10, RANGE_PART, 0, 4 },
		{ "BYTES=0-4", 10, RANGE_PART, 0, 4 },
		{ "bytes=0-", UINT64_MAX, RANGE_PART, 0, UINT64_MAX - 1 },
		{ "bytes=18446744073709551614-18446744073709551615", UINT64_MAX, RANGE_PART,
		  UINT64_MAX - 1, UINT64_MAX - 1 },
		/* the first that can be satisfied */
		{ "bytes=2-3,5-6", 10, RANGE_PART, 2, 3 },
		{ "bytes=20-30 , 5-6", 10, RANGE_PART, 5, 6 },
		{ "bytes=-0,10-,-2", 10, RANGE_PART, 8, 9 },
		{ "bytes=,,1-2,", 10, RANGE_PART, 1, 2 },
		{ "bytes=\t1-2", 10, RANGE_PART, 1, 2 },

		{ "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=10-20", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=99999999999999999999999999-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=18446744073709551616-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=184467440737095516160-", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=10-,11-12", 10, RANGE_UNSATISFIABLE, 0, 0 },

		{ "bytes=0-", 0, RANGE_WHOLE, 0, 0 },
		{ "bytes=-1", 0, RANGE_WHOLE, 0, 0 },
		{ "bytes=5-6", 0, RANGE_WHOLE, 0, 0 },
		{ "lines=0-4", 10, RANGE_WHOLE, 0, 0 },
		{ "seconds=oops", 10, RANGE_WHOLE, 0, 0 },

		{ "", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=,", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=-", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=5", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=4-3", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=a-b", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-b", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=0x1-2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=+1-2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=--1", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1--2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-2-3", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1 - 2", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-2;3-4", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-2,x", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=1-2,4-3", 10, RANGE_MALFORMED, 0, 0 },
		{ "bytes=x", 0, RANGE_MALFORMED, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct range r = { 77, 88 };
		enum range_result got = range_parse(span_str(cases[i].value), cases[i].size, &r);

		if (got != cases[i].want)
			fail_msg("'%s': %d instead of %d", cases[i].value, got, cases[i].want);
		assert_int_equal(r.first, got == RANGE_PART ? cases[i].first : 77);
		assert_int_equal(r.last, got == RANGE_PART ? cases[i].last : 88);
	}
}

static void test_format(void **state)
{
	char out[RANGE_TEXT_SIZE];

	(void)state;
	assert_int_equal(range_content_range(out, &(struct range){ 2, 5 }, 10), 12);
	assert_string_equal(out, "bytes 2-5/10");
	assert_int_equal(range_content_range(out, NULL, 10), 10);
	assert_string_equal(out, "bytes */10");
	assert_int_equal(
		range_content_range(out, &(struct range){ UINT64_MAX, UINT64_MAX }, UINT64_MAX),
		68);
	assert_string_equal(out,
			    "bytes 18446744073709551615-18446744073709551615/18446744073709551615");
	assert_int_equal(range_len((struct range){ 2, 5 }), 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
