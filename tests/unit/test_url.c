/* URLs taken apart, decoded and encoded. */
#include "codec/url.h"

#include <errno.h>
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
#define assert_span(s, text) \
	assert_true(span_is(s, text) || (fprintf(stderr, "got '%.*s'\n", SPAN_FMT(s)), false))

static void test_split(void **state)
{
	static const struct {
		const char *url, *scheme, *authority, *target; /* scheme NULL: refused */
	} cases[] = {
		{ "http://a", "http", "a", "" },
		{ "http://a/", "http", "a", "/" },
		{ "https://a.b:8443/c/d?e=f", "https", "a.b:8443", "/c/d?e=f" },
		{ "http://a?q", "http", "a", "?q" },
		{ "HTTP://[::1]:80/x:y", "HTTP", "[::1]:80", "/x:y" },
		{ "http://u:p@h/", "http", "u:p@h", "/" },
		{ "http:/a", NULL, NULL, NULL },
		{ "http:a", NULL, NULL, NULL },
		{ "http://", NULL, NULL, NULL },
		{ "http:///a", NULL, NULL, NULL },
		{ "://a", NULL, NULL, NULL },
		{ "/a", NULL, NULL, NULL },
		{ "", NULL, NULL, NULL },
		{ "1http://a", NULL, NULL, NULL },
		{ "ht tp://a", NULL, NULL, NULL },
		{ "http://a/#f", NULL, NULL, NULL },
		{ "http://a/ b", NULL, NULL, NULL },
		{ "http://a/\xc3\xa4", NULL, NULL, NULL },
		{ "http://a/\n", NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct url_parts p;
		bool ok = url_split(span_str(cases[i].url), &p);

		if (ok != (cases[i].scheme != NULL))
			fail_msg("'%s'", cases[i].url);
		if (!ok)
			continue;
		assert_span(p.scheme, cases[i].scheme);
		assert_span(p.authority, cases[i].authority);
		assert_span(p.target, cases[i].target);
	}
}

static void test_authority(void **state)
{
	static const struct {
		const char *text, *host; /* host NULL: refused */
		bool ipv6;
		int port; /* -1: none */
	} cases[] = {
		{ "a", "a", false, -1 },
		{ "sandbox-1.example_x~.org.", "sandbox-1.example_x~.org.", false, -1 },
		{ "127.0.0.1:8080", "127.0.0.1", false, 8080 },
		{ "a:1", "a", false, 1 },
		{ "a:65535", "a", false, 65535 },
		{ "a:00080", "a", false, 80 },
		{ "[::1]", "::1", true, -1 },
		{ "[::ffff:1.2.3.4]:443", "::ffff:1.2.3.4", true, 443 },
		{ "[FE80::aB]:1", "FE80::aB", true, 1 },
		{ "", NULL, false, 0 },
		{ ":80", NULL, false, 0 },
		{ "a:", NULL, false, 0 },
		{ "a:0", NULL, false, 0 },
		{ "a:65536", NULL, false, 0 },
		{ "a:000080", NULL, false, 0 },
		{ "a:8 0", NULL, false, 0 },
		{ "a:-1", NULL, false, 0 },
		{ "a:80:80", NULL, false, 0 },
		{ "::1", NULL, false, 0 },
		{ "u@a", NULL, false, 0 },
		{ "a,b", NULL, false, 0 },
		{ "a b", NULL, false, 0 },
		{ "a%20b", NULL, false, 0 },
		{ "a/b", NULL, false, 0 },
		{ "[]", NULL, false, 0 },
		{ "[", NULL, false, 0 },
		{ "[::1", NULL, false, 0 },
		{ "[::1]]", NULL, false, 0 },
		{ "[::1]a", NULL, false, 0 },
		{ "[::1]:", NULL, false, 0 },
		{ "[a]", NULL, false, 0 },
		{ "[1.2.3.4]", NULL, false, 0 },
		{ "[1::2::3]", NULL, false, 0 },
		{ "[fe80::1%eth0]", NULL, false, 0 },
		{ "[v1.a]", NULL, false, 0 },
		{ "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", NULL, false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct url_authority a;
		bool ok = url_split_authority(span_str(cases[i].text), &a);

		if (ok != (cases[i].host != NULL))
			fail_msg("'%s'", cases[i].text);
		if (!ok)
			continue;
		assert_span(a.host, cases[i].host);
		assert_int_equal(a.ipv6, cases[i].ipv6);
		assert_int_equal(a.has_port, cases[i].port >= 0);
		if (a.has_port)
			assert_int_equal(a.port, cases[i].port);
	}
}

static void test_decode(void **state)
{
	static const struct {
		struct span in;
		const char *path, *query; /* NULL: refused */
	} cases[] = {
		{ TEXT(""), "", "" },
		{ TEXT("abc"), "abc", "abc" },
		{ TEXT("a+b"), "a+b", "a b" },
		{ TEXT("a%2Bb%2b"), "a+b+", "a+b+" },
		{ TEXT("%20%7e%C3%a4"), " ~\xc3\xa4", " ~\xc3\xa4" },
		{ TEXT("%2f%2E%25"), "/.%", "/.%" },
		{ TEXT("%252e"), "%2e", "%2e" },
		{ TEXT("\xc3\xa4"), "\xc3\xa4", "\xc3\xa4" },
		{ TEXT("%"), NULL, NULL },
		{ TEXT("%4"), NULL, NULL },
		{ TEXT("a%4"), NULL, NULL },
		{ TEXT("%4g"), NULL, NULL },
		{ TEXT("%g4"), NULL, NULL },
		{ TEXT("%%41"), NULL, NULL },
		{ TEXT("% 41"), NULL, NULL },
		{ TEXT("%+1"), NULL, NULL },
		{ TEXT("%00"), NULL, NULL },
		{ TEXT("a%00b"), NULL, NULL },
		{ TEXT("a\0b"), NULL, NULL },
	};
	char out[32];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		for (int mode = URL_PATH; mode <= URL_QUERY; mode++) {
			const char *want = mode == URL_PATH ? cases[i].path : cases[i].query;
			ptrdiff_t n = url_decode(cases[i].in, (enum url_mode)mode, out,
						 sizeof(out));

			if (want == NULL) {
				assert_int_equal(n, -EINVAL);
				continue;
			}
			assert_int_equal(n, strlen(want));
			assert_memory_equal(out, want, strlen(want));
			assert_true(
				url_decodes_to(cases[i].in, (enum url_mode)mode, span_str(want)));
			assert_int_equal(
				url_decode(cases[i].in, (enum url_mode)mode, out, strlen(want)), n);
			if (n > 0)
				assert_int_equal(url_decode(cases[i].in, (enum url_mode)mode, out,
							    (size_t)n - 1),
						 -ENOBUFS);
			/* in place */
			memcpy(out, cases[i].in.p, cases[i].in.len);
			assert_int_equal(url_decode(span_of(out, cases[i].in.len),
						    (enum url_mode)mode, out, sizeof(out)),
					 n);
			assert_memory_equal(out, want, strlen(want));
		}
	}
	assert_false(url_decodes_to(SPAN_LIT("abc"), URL_PATH, SPAN_LIT("ab")));
	assert_false(url_decodes_to(SPAN_LIT("ab"), URL_PATH, SPAN_LIT("abc")));
	assert_false(url_decodes_to(SPAN_LIT("%"), URL_PATH, SPAN_LIT("%")));
}

static void test_query(void **state)
{
	struct span rest = SPAN_LIT("a=1&b&&a=%32=x&=y&c=&"), key, value;

	(void)state;
	assert_true(url_query_next(&rest, &key, &value));
	assert_span(key, "a");
	assert_span(value, "1");
	assert_true(url_query_next(&rest, &key, &value));
	assert_span(key, "b");
	assert_null(value.p);
	assert_true(url_query_next(&rest, &key, &value));
	assert_span(key, "a");
	assert_span(value, "%32=x");
	assert_true(url_query_next(&rest, &key, &value));
	assert_span(key, "");
	assert_span(value, "y");
	assert_true(url_query_next(&rest, &key, &value));
	assert_span(key, "c");
	assert_non_null(value.p);
	assert_int_equal(value.len, 0);
	assert_false(url_query_next(&rest, &key, &value));
	assert_false(url_query_next(&rest, &key, &value));
	rest = (struct span){ NULL, 0 };
	assert_false(url_query_next(&rest, &key, &value));
	rest = SPAN_LIT("");
	assert_false(url_query_next(&rest, &key, &value));

	assert_true(url_query_find(SPAN_LIT("x=1&p%61th=%2f&path=2"), "path", &value));
	assert_span(value, "%2f");
	assert_false(url_query_find(SPAN_LIT("x=1&pat=2&paths=3"), "path", &value));
	assert_false(url_query_find((struct span){ NULL, 0 }, "path", &value));
}

static void test_encode(void **state)
{
	char all[255], coded[3 * 255], plain[255];
	ptrdiff_t n;

	(void)state;
	n = url_encode(SPAN_LIT("/a b/\xc3\xa4?&~"), URL_KEEP_PATH, coded, sizeof(coded));
	assert_span(span_of(coded, (size_t)n), "/a%20b/%C3%A4%3F&~");
	n = url_encode(SPAN_LIT("/a b+&="), URL_KEEP_UNRESERVED, coded, sizeof(coded));
	assert_span(span_of(coded, (size_t)n), "%2Fa%20b%2B%26%3D");
	assert_int_equal(url_encode(SPAN_LIT("a b"), URL_KEEP_PATH, coded, 5), 5);
	assert_int_equal(url_encode(SPAN_LIT("a b"), URL_KEEP_PATH, coded, 4), -ENOBUFS);
	assert_int_equal(url_encode(SPAN_LIT("a b"), URL_KEEP_PATH, coded, 3), -ENOBUFS);
	assert_int_equal(url_encode(SPAN_LIT(""), URL_KEEP_PATH, coded, 0), 0);
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (char)(i + 1);
	for (int keep = URL_KEEP_UNRESERVED; keep <= URL_KEEP_PATH; keep++) {
		for (int mode = URL_PATH; mode <= URL_QUERY; mode++) {
			/* '+' stays in a path, where it is not a blank */
			if (keep == URL_KEEP_PATH && mode == URL_QUERY)
				continue;
			n = url_encode(span_of(all, sizeof(all)), (enum url_keep)keep, coded,
				       sizeof(coded));
			assert_true(n > 0);
			assert_int_equal(url_decode(span_of(coded, (size_t)n), (enum url_mode)mode,
						    plain, sizeof(plain)),
					 sizeof(all));
			assert_memory_equal(plain, all, sizeof(all));
		}
	}
}

static void test_plain_path(void **state)
{
	static const char *const good[] = { "/",       "/a",         "/a/",     "/a/b.c/...",
					    "/.a/b..", "/a%20b/%c3", "/..a/a.", "/%2e%2e%2e" };
	static const char *const bad[] = { "",       "a",       "//",    "/a//b",   "//a",
					   "/.",     "/..",     "/a/..", "/a/../b", "/./a",
					   "/a/.",   "/%2e",    "/%2E.", "/.%2e/a", "/%2e%2E/",
					   "/a%2fb", "/a%5Cb",  "/a\\b", "/%",      "/%4",
					   "/%00",   "/a/..%2f" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!url_path_is_plain(span_str(good[i])))
			fail_msg("'%s' refused", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (url_path_is_plain(span_str(bad[i])))
			fail_msg("'%s' accepted", bad[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split),  cmocka_unit_test(test_authority),
		cmocka_unit_test(test_decode), cmocka_unit_test(test_query),
		cmocka_unit_test(test_encode), cmocka_unit_test(test_plain_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
