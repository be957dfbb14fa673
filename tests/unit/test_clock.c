/* Time stamps and durations, as people, protocols and attackers write them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"

#define US 1000000LL

static void clocks_agree_with_the_system(void **state)
{
	int64_t before = (int64_t)time(NULL) - 1, wall = clock_wall_us();
	uint64_t mono = clock_mono_us();

	(void)state;
	assert_true(wall / US >= before);
	assert_true(clock_wall_ms() >= wall / 1000);
	assert_true(clock_mono_us() >= mono);
	assert_true(clock_mono_ms() >= mono / 1000);
	/* which stops while the machine is suspended */
	assert_true(clock_boot_us() >= (int64_t)mono);
}

static void rfc3339_writes(void **state)
{
	static const struct {
		int64_t us;
		const char *text;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00Z" },
		{ 1, "1970-01-01T00:00:00.000001Z" },
		{ -1, "1969-12-31T23:59:59.999999Z" },
		{ -86400 * US, "1969-12-31T00:00:00Z" },
		{ 951782400 * US, "2000-02-29T00:00:00Z" },
		{ 951868799 * US, "2000-02-29T23:59:59Z" },
		{ 1767323045678901, "2026-01-02T03:04:05.678901Z" },
		{ 4107542399 * US, "2100-02-28T23:59:59Z" }, /* no leap year: */
		{ 4107542400 * US, "2100-03-01T00:00:00Z" },
		{ 253402300799 * US, "9999-12-31T23:59:59Z" },
	};
	char out[CLOCK_RFC3339_SIZE];
	int64_t back;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(clock_rfc3339(cases[i].us, out), strlen(cases[i].text));
		assert_string_equal(out, cases[i].text);
		assert_true(clock_parse_rfc3339(span_str(out), &back));
		assert_true(back == cases[i].us);
	}
	/* far away, but in the buffer and terminated */
	assert_int_equal(clock_rfc3339(INT64_MAX, out), strlen("294247-01-10T04:00:54.775807Z"));
	assert_string_equal(out, "294247-01-10T04:00:54.775807Z");
	assert_true(clock_rfc3339(INT64_MIN, out) < sizeof(out));
}

static void rfc3339_agrees_with_libc(void **state)
{
	/* a prime step of about 97 days walks through every kind of year and month */
	for (int64_t s = -2208988800; s < 7258118400; s += 8388593) {
		time_t t = (time_t)s;
		char ours[CLOCK_RFC3339_SIZE], theirs[CLOCK_RFC3339_SIZE];
		char http[CLOCK_HTTP_SIZE];
		struct tm tm;
		int64_t back;

		(void)state;
		assert_non_null(gmtime_r(&t, &tm));
		(void)clock_rfc3339(s * US, ours);
		assert_true(strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
		assert_string_equal(ours, theirs);
		assert_int_equal(clock_http(s, http), CLOCK_HTTP_SIZE - 1);
		assert_true(strftime(theirs, sizeof(theirs), "%a, %d %b %Y %H:%M:%S GMT", &tm) > 0);
		assert_string_equal(http, theirs);
		assert_true(clock_parse_http(span_str(http), &back));
		assert_true(back == s);
	}
}

static void rfc3339_reads_what_clients_write(void **state)
{
	static const struct {
		const char *text;
		int64_t us;
	} cases[] = {
		{ "1970-01-01T00:00:00", 0 },
		{ "1970-01-01 00:00:00Z", 0 },
		{ "1970-01-01t00:00:00z", 0 },
		{ "1970-01-01T02:00:00+02:00", 0 },
		{ "1969-12-31T18:30:00-05:30", 0 },
		{ "1970-01-01T05:30:00+0530", 0 },
		{ "1970-01-01T05:00:00+05", 0 },
		{ "1970-01-01T00:00:00-00:00", 0 },
		{ "1970-01-01T00:00:00.5Z", 500000 },
		{ "1970-01-01T00:00:00,25Z", 250000 },
		{ "1970-01-01T00:00:00.123456789Z", 123456 },
		{ "1970-01-01T00:00:00.12345678901234567890123456789Z", 123456 },
		{ "1970-01-01T00:00:60Z", 60 * US }, /* a leap second is the next one */
		{ "0001-01-01T00:00:00Z", -62135596800 * US },
		{ "9999-12-31T23:59:59.999999+23:59", 253402214459 * US + 999999 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t us = -42;

		assert_true(clock_parse_rfc3339(span_str(cases[i].text), &us));
		assert_true(us == cases[i].us);
	}
}

static void rfc3339_refuses_the_rest(void **state)
{
	static const char *const bad[] = {
		"",
		"now",
		"1970",
		"1970-01-01",
		"1970-01-01T",
		"1970-01-01T00:00",
		"1970-01-01T00:00:00X",
		"1970-01-01T00:00:00Zjunk",
		"1970-01-01T00:00:00Z ",
		" 1970-01-01T00:00:00Z",
		"1970-01-01T00:00:00.Z",
		"1970-01-01T00:00:00.",
		"1970-01-01T00:00:00+",
		"1970-01-01T00:00:00+1",
		"1970-01-01T00:00:00+05:",
		"1970-01-01T00:00:00+05:3",
		"1970-01-01T00:00:00+05:300",
		"1970-01-01T00:00:00+24:00",
		"1970-01-01T00:00:00+00:60",
		"1970-01-01T24:00:00Z",
		"1970-01-01T00:60:00Z",
		"1970-01-01T00:00:61Z",
		"1970-00-01T00:00:00Z",
		"1970-13-01T00:00:00Z",
		"1970-01-00T00:00:00Z",
		"1970-01-32T00:00:00Z",
		"1970-04-31T00:00:00Z",
		"1970-02-29T00:00:00Z",
		"1900-02-29T00:00:00Z",
		"2100-02-29T00:00:00Z",
		"0000-01-01T00:00:00Z",
		"-001-01-01T00:00:00Z",
		"+970-01-01T00:00:00Z",
		"1970-1-01T00:00:00Z",
		"1970/01/01T00:00:00Z",
		"99999-01-01T00:00:00Z",
	};
	int64_t us = -42;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (clock_parse_rfc3339(span_str(bad[i]), &us))
			fail_msg("took '%s'", bad[i]);
	assert_false(clock_parse_rfc3339((struct span){ NULL, 0 }, &us));
	assert_false(clock_parse_rfc3339(SPAN_LIT("1970-01-01\0"
						  "00:00:00Z"),
					 &us));
	assert_int_equal(us, -42);
}

static void http_dates_are_strict(void **state)
{
	static const char *const bad[] = {
		"",
		"Sun, 06 Nov 1994 08:49:37 GM",
		"Sun, 06 Nov 1994 08:49:37 GMTX",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun; 06 Nov 1994 08:49:37 GMT",
		"Sun,-06 Nov 1994 08:49:37 GMT",
		"Xyz, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 nov 1994 08:49:37 GMT",
		"Sun, 06-Nov-1994 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 31 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT",
		"Sun, 06 Nov 1994 08:60:37 GMT",
		"Sunday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov  6 08:49:37 1994     ",
	};
	int64_t s = -42;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (clock_parse_http(span_str(bad[i]), &s))
			fail_msg("took '%s'", bad[i]);
	assert_int_equal(s, -42);
	assert_true(clock_parse_http(SPAN_LIT("Sun, 06 Nov 1994 08:49:37 GMT"), &s));
	assert_int_equal(s, 784111777);
}

static void http_date_has_one_length(void **state)
{
	static const int64_t odd[] = { INT64_MAX, INT64_MIN, -62135596801, 253402300800 };
	char out[CLOCK_HTTP_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
		assert_int_equal(clock_http(odd[i], out), CLOCK_HTTP_SIZE - 1);
		assert_int_equal(strlen(out), CLOCK_HTTP_SIZE - 1);
	}
}

static void durations_read(void **state)
{
	static const struct {
		const char *text;
		uint64_t ms;
	} cases[] = {
		{ "0", 0 },
		{ "90", 90000 },
		{ "250ms", 250 },
		{ "90s", 90000 },
		{ "10m", 600000 },
		{ "1h30m", 5400000 },
		{ "2d", 172800000 },
		{ "1d1h1m1s1ms", 90061001 },
		{ "18446744073709551615ms", UINT64_MAX },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t ms = 42;

		assert_true(clock_parse_duration(span_str(cases[i].text), &ms));
		assert_true(ms == cases[i].ms);
	}
}

static void durations_refuse_the_rest(void **state)
{
	static const char *const bad[] = {
		"",
		" ",
		"s",
		"-1s",
		"+1s",
		"1.5s",
		"1 s",
		"1S",
		"1w",
		"1sec",
		"1h30",
		"1h m",
		"30 1h",
		"1e3",
		"0x1",
		"18446744073709551616",
		"1s1",
		"1s ",
		"\xb1s",
		"18446744073709551615", /* seconds: too many milliseconds */
		"18446744073709551615ms1ms",
		"213503982335d",
	};
	uint64_t ms = 42;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (clock_parse_duration(span_str(bad[i]), &ms))
			fail_msg("took '%s'", bad[i]);
	assert_false(clock_parse_duration((struct span){ NULL, 0 }, &ms));
	assert_int_equal(ms, 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clocks_agree_with_the_system),
		cmocka_unit_test(rfc3339_writes),
		cmocka_unit_test(rfc3339_agrees_with_libc),
		cmocka_unit_test(rfc3339_reads_what_clients_write),
		cmocka_unit_test(rfc3339_refuses_the_rest),
		cmocka_unit_test(http_dates_are_strict),
		cmocka_unit_test(http_date_has_one_length),
		cmocka_unit_test(durations_read),
		cmocka_unit_test(durations_refuse_the_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
