/* Amounts, labels and paths, as clients write them and as they should not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "policy/hostpath.h"
#include "policy/label.h"
#include "policy/netaddr.h"
#include "policy/quantity.h"

static void cpu_is_read_to_the_thousandth(void **state)
{
	static const struct {
		const char *text;
		uint32_t milli; /* 0: refused */
	} cases[] = {
		{ "1", 1000 },
		{ "2", 2000 },
		{ "0.5", 500 },
		{ "1.5", 1500 },
		{ "500m", 500 },
		{ "0.001", 1 },
		{ "1m", 1 },
		{ " 250m ", 250 },
		{ "4294967295m", UINT32_MAX },
		{ "007", 7000 },
		{ "1.0", 1000 },
		{ "", 0 },
		{ "0", 0 },
		{ "0m", 0 },
		{ "-1", 0 },
		{ "+1", 0 },
		{ "1.", 0 },
		{ ".5", 0 },
		{ "1.0001", 0 },
		{ "1.5m", 0 },
		{ "nan", 0 },
		{ "inf", 0 },
		{ "1e3", 0 },
		{ "1 m", 0 },
		{ "1M", 0 },
		{ "1,5", 0 },
		{ "0x10", 0 },
		{ "4294967296m", 0 },
		{ "99999999999999999999", 0 },
		{ "1.0000000000000000001", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t milli = 0;
		struct err e = ERR_INIT;
		int r = quantity_cpu(span_str(cases[i].text), &milli, &e);

		if (r != (cases[i].milli != 0 ? 0 : -EINVAL) || milli != cases[i].milli)
			fail_msg("'%s': %d, %u", cases[i].text, r, milli);
		assert_true((r < 0) == (e.msg[0] != '\0'));
	}
}

static void bytes_are_read_exactly_or_not_at_all(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes; /* 0: refused */
	} cases[] = {
		{ "1", 1 },
		{ "1073741824", 1073741824 },
		{ "512Mi", 512ULL << 20 },
		{ "1.5Gi", 3ULL << 29 },
		{ "0.5Ki", 512 },
		{ "2G", 2000000000 },
		{ "2gb", 2000000000 },
		{ "1k", 1000 },
		{ "1KiB", 1024 },
		{ "1b", 1 },
		{ "1Ti", 1ULL << 40 },
		{ "15Ei", 15ULL << 60 },
		{ "1.25k", 1250 },
		{ "", 0 },
		{ "0", 0 },
		{ "0Mi", 0 },
		{ "-1Mi", 0 },
		{ "1.5", 0 },   /* half a byte */
		{ "0.3Ki", 0 }, /* 307.2 bytes */
		{ "16Ei", 0 },  /* one too many */
		{ "999999999999999999Gi", 0 },
		{ "1 Mi", 0 },
		{ "Mi", 0 },
		{ "1x", 0 },
		{ "1MM", 0 },
		{ "all", 0 },
		{ "1.5.5Mi", 0 },
		{ "1e9", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t bytes = 0;
		int r = quantity_bytes(span_str(cases[i].text), &bytes, NULL);

		if (r != (cases[i].bytes != 0 ? 0 : -EINVAL) || bytes != cases[i].bytes)
			fail_msg("'%s': %d, %llu", cases[i].text, r, (unsigned long long)bytes);
	}
}

static void counts_are_plain(void **state)
{
	uint32_t n = 0;

	(void)state;
	assert_int_equal(quantity_count(SPAN_LIT("4096"), &n, NULL), 0);
	assert_int_equal(n, 4096);
	assert_int_equal(quantity_count(SPAN_LIT("0"), &n, NULL), -EINVAL);
	assert_int_equal(quantity_count(SPAN_LIT("4294967296"), &n, NULL), -EINVAL);
	assert_int_equal(quantity_count(SPAN_LIT("1k"), &n, NULL), -EINVAL);
	assert_int_equal(n, 4096);
}

static struct span repeat(char *out, char c, size_t n)
{
	memset(out, c, n);
	return span_of(out, n);
}

static void labels_follow_kubernetes(void **state)
{
	static const char *const keys[] = { "a", "A-b_c.d", "x.io/y", "a.b-c.d/e", "0", "a/0" };
	static const char *const bad_keys[] = { "",     "-a",   "a-",     "_a",    "a b",
						"/a",   "a/",   "A.io/x", "a/b/c", "a..b/c",
						".a/b", "a./b", "-a/b",   "a=b" };
	static const char *const values[] = { "", "a", "a.b_c-d", "1" };
	static const char *const bad_values[] = { " ", "-a", "a.", "a b", "a/b", "\xc3\xa9" };
	char big[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		assert_true(label_is_key(span_str(keys[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad_keys); i++)
		if (label_is_key(span_str(bad_keys[i])))
			fail_msg("'%s' passed", bad_keys[i]);
	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		assert_true(label_is_value(span_str(values[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad_values); i++)
		assert_false(label_is_value(span_str(bad_values[i])));
	assert_true(label_is_value(repeat(big, 'a', 63)));
	assert_false(label_is_value(repeat(big, 'a', 64)));
	assert_true(label_is_key(repeat(big, 'a', 63)));
	assert_false(label_is_key(repeat(big, 'a', 64)));
	assert_false(label_is_value(span_of("a\0b", 3)));
}

static void reserved_labels_are_refused_with_words(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(label_check(SPAN_LIT("a"), SPAN_LIT("b"), &e), 0);
	assert_int_equal(label_check(SPAN_LIT("opensandbox.io/id"), SPAN_LIT("b"), &e), -EINVAL);
	assert_non_null(strstr(e.msg, "reserved"));
	assert_int_equal(label_check(SPAN_LIT("a"), SPAN_LIT("b c"), &e), -EINVAL);
	assert_non_null(strstr(e.msg, "value"));
	assert_int_equal(label_check(SPAN_LIT("a b"), SPAN_LIT("b"), &e), -EINVAL);
	assert_non_null(strstr(e.msg, "key"));
}

static void dns_labels(void **state)
{
	(void)state;
	assert_true(label_is_dns(SPAN_LIT("a-1"), 63));
	assert_false(label_is_dns(SPAN_LIT("a-"), 63));
	assert_false(label_is_dns(SPAN_LIT("A"), 63));
	assert_false(label_is_dns(SPAN_LIT("a.b"), 63));
	assert_false(label_is_dns(SPAN_LIT("abcd"), 3));
	assert_false(label_is_dns(SPAN_LIT(""), 63));
}

static void host_paths_are_judged_as_text(void **state)
{
	static const char *const allowed[] = { "/data", "/srv/a b" };
	static const char *const good[] = { "/data", "/data/x", "/data/x/y", "/srv/a b/c" };
	static const char *const bad[] = { "/",      "/dat",         "/database",
					   "/data/", "/data/../etc", "/data/./x",
					   "//data", "data",         "",
					   "/srv/a", "/data//x",     "/data/.." };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(hostpath_allowed(good[i], allowed, ARRAY_LEN(allowed)));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (hostpath_allowed(bad[i], allowed, ARRAY_LEN(allowed)))
			fail_msg("'%s' passed", bad[i]);
	assert_false(hostpath_allowed("/data", NULL, 0)); /* nothing allowed is nothing */
}

static void sub_paths_stay_below(void **state)
{
	static const char *const bad[] = { "", "/a", "..", "a/..", "a/../b", "a//b", "a/", "./a" };

	(void)state;
	assert_true(hostpath_is_sub("a"));
	assert_true(hostpath_is_sub("a/b.c/..d"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (hostpath_is_sub(bad[i]))
			fail_msg("'%s' passed", bad[i]);
}

static void addresses_and_networks_are_in_figures(void **state)
{
	static const struct {
		const char *text;
		bool address, network;
	} cases[] = {
		{ "192.0.2.1", true, true },
		{ "2001:db8::1", true, true },
		{ "192.0.2.0/24", false, true },
		{ "2001:db8::/128", false, true },
		{ "10.0.0.0/0", false, true },
		{ "192.0.2.0/33", false, false },
		{ "2001:db8::/129", false, false },
		{ "192.0.2.0/", false, false },
		{ "192.0.2.0/-1", false, false },
		{ "192.0.2.0/8/8", false, false },
		{ "192.0.2", false, false },
		{ "192.0.2.1 ", false, false },
		{ "192.0.2.1:53", false, false },
		{ "dns.example", false, false },
		{ "[::1]", false, false },
		{ "fe80::1%eth0", false, false },
		{ "", false, false },
		{ "/8", false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (netaddr_is_address(cases[i].text) != cases[i].address ||
		    netaddr_is_network(cases[i].text) != cases[i].network)
			fail_msg("'%s'", cases[i].text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cpu_is_read_to_the_thousandth),
		cmocka_unit_test(bytes_are_read_exactly_or_not_at_all),
		cmocka_unit_test(counts_are_plain),
		cmocka_unit_test(labels_follow_kubernetes),
		cmocka_unit_test(reserved_labels_are_refused_with_words),
		cmocka_unit_test(dns_labels),
		cmocka_unit_test(host_paths_are_judged_as_text),
		cmocka_unit_test(sub_paths_stay_below),
		cmocka_unit_test(addresses_and_networks_are_in_figures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
