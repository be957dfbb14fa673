/* Patterns for names and paths. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/glob.h"

static void matches(void **state)
{
	/* names that match, and such that do not, up to a NULL each */
	static const struct {
		const char *pattern, *yes[8], *no[8];
	} cases[] = {
		{ "", { "" }, { "a", "/" } },
		{ "abc", { "abc" }, { "", "ab", "abcd", "abd", "ABC" } },
		{ "*", { "", "a", "a.b", ".hidden", "\xc3\xa9" }, { "/", "a/", "a/b" } },
		{ "*.py", { ".py", "a.py", "a.b.py" }, { "py", "a.pyc", "a.p", "a/b.py" } },
		{ "a*b*c", { "abc", "aXbYc", "abbcc", "abcbc" }, { "ab", "ac", "abcd", "a/bc" } },
		{ "a**b", { "ab", "aXb", "a/b", "a/x/b" }, { "a", "b", "abc" } },
		{ "**", { "", "a", "a/b/c" }, { NULL } },
		{ "***", { "", "a", "a/b" }, { NULL } },
		{ "**/*.py", { "a.py", "x/a.py", "x/y/a.py" }, { "a.pyc", "x/a.py/b" } },
		{ "**/a/**/b", { "a/b", "x/a/b", "a/x/y/b" }, { "a", "xa/b", "a/xb" } },
		{ "src/**", { "src", "src/", "src/a", "src/a/b" }, { "sr", "srcs", "x/src" } },
		{ "src/*.py", { "src/a.py" }, { "a.py", "src/b/a.py" } },
		{ "/a/*", { "/a/b", "/a/" }, { "a/b", "/a", "/a/b/c" } },
		{ "?",
		  { "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xff" },
		  { "", "ab", "/" } },
		{ "a??", { "abc", "a\xc3\xa9\xc3\xa9" }, { "a", "ab", "a\xc3\xa9", "abcd" } },
		{ "*?", { "a", "\xc3\xa9", "abc" }, { "" } },
		{ "*??", { "ab", "\xc3\xa9x" }, { "\xc3\xa9", "a" } },
		/* classes */
		{ "[abc]", { "a", "b", "c" }, { "", "d", "ab", "/" } },
		{ "[a-c]x", { "ax", "bx", "cx" }, { "dx", "x", "-x" } },
		{ "[a-cx-z0]", { "a", "c", "y", "0" }, { "d", "w", "-" } },
		{ "[!a-c]", { "d", "-", "\xc3\xa9" }, { "a", "b", "", "/" } },
		{ "[^a]", { "b", "^" }, { "a" } },
		{ "[a^!]", { "a", "^", "!" }, { "b" } },
		{ "[-a]", { "-", "a" }, { "b" } },
		{ "[a-]", { "-", "a" }, { "b" } },
		{ "[\\]]", { "]" }, { "\\" } },
		{ "[\\a-\\c]", { "a", "b", "c" }, { "\\", "d" } },
		{ "[\xc3\xa0-\xc3\xbf]", { "\xc3\xa9" }, { "e", "\xc3", "\xc4\x80" } },
		{ "*[!\xc3\xa9]", { "a", "\xc3\xa9x" }, { "\xc3\xa9", "x\xc3\xa9" } },
		{ "[*?{}()|,]", { "*", "?", "{", "}", "(", ")", "|", "," }, { "a" } },
		/* braces */
		{ "{a,b}", { "a", "b" }, { "", "c", "ab", "a,b" } },
		{ "{a}", { "a" }, { "{a}" } },
		{ "{}x", { "x" }, { "{}x" } },
		{ "a{,b,cd}e", { "ae", "abe", "acde" }, { "ace", "abcde" } },
		{ "{a,{b,c{d,e}}}f", { "af", "bf", "cdf", "cef" }, { "cf", "f" } },
		{ "*.{js,ts}", { "a.js", "b.ts" }, { "a.jsx", "js" } },
		{ "{*.py,[0-9]?}", { "a.py", "1x" }, { "ax" } },
		{ "{a,ab}{c,bc}", { "ac", "abc", "abbc" }, { "abcbc" } },
		{ "{a(b,c)d}", { "a(b", "c)d" }, { "a(b,c)d" } },
		{ "a,b", { "a,b" }, { "a", "b" } },
		{ "{\\,,\\}}", { ",", "}" }, { "\\" } },
		/* negation */
		{ "!(a)", { "", "b", "aa" }, { "a", "/", "b/c" } },
		{ "!(*.py)", { "a.txt", "py", "" }, { "a.py", ".py" } },
		{ "!(a|b*)", { "c", "ab" }, { "a", "b", "bcd" } },
		{ "!({a,b})", { "c", "ab" }, { "a", "b" } },
		{ "foo!(bar)", { "foo", "fooba", "foobarr" }, { "foobar", "fo" } },
		{ "!(a).txt", { "b.txt", ".txt", "aa.txt" }, { "a.txt", "b.png" } },
		{ "{x,!(a)}", { "x", "b" }, { "a" } },
		{ "!(!(a))", { "a" }, { "", "b", "aa" } },
		{ "!(a(b)c)", { "abc", "a(b)" }, { "a(b)c" } },
		{ "d/!(a)/e", { "d/b/e", "d//e" }, { "d/a/e", "d/e", "d/b/c/e" } },
		{ "!()", { "a" }, { "" } },
		{ "*!(\xc3\xa9)", { "x", "\xc3\xa9" }, { "/" } },
		{ "a!b", { "a!b" }, { "ab" } },
		{ "!", { "!" }, { "" } },
		{ "!a", { "!a" }, { "b" } },
		/* escapes and what only looks special */
		{ "\\*", { "*" }, { "a", "\\*" } },
		{ "\\a\\\\", { "a\\" }, { "a", "\\a\\" } },
		{ "\\!(a)", { "!(a)" }, { "b" } },
		{ "a]b", { "a]b" }, { "ab" } },
		{ "a)b|c(", { "a)b|c(" }, { "ab" } },
		/* bytes that are no UTF-8 */
		{ "\xff?", { "\xff\xfe" }, { "\xfe\xff", "\xff" } },
		{ "[\xff]", { "\xff" }, { "\xfe", "\xc3\xbf" } },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = ERR_INIT;
		struct glob g;

		if (glob_init(&g, span_str(cases[i].pattern), &e) < 0)
			fail_msg("%s: %s", cases[i].pattern, e.msg);
		for (size_t k = 0; k < ARRAY_LEN(cases[i].yes) && cases[i].yes[k] != NULL; k++)
			if (!glob_match(&g, span_str(cases[i].yes[k])))
				fail_msg("'%s' should match '%s'", cases[i].pattern,
					 cases[i].yes[k]);
		for (size_t k = 0; k < ARRAY_LEN(cases[i].no) && cases[i].no[k] != NULL; k++)
			if (glob_match(&g, span_str(cases[i].no[k])))
				fail_msg("'%s' must not match '%s'", cases[i].pattern,
					 cases[i].no[k]);
		glob_free(&g);
	}
}

static void malformed(void **state)
{
	static const char *const patterns[] = {
		"[",    "[a",     "[]",    "[!]",    "[^]", "[a\\", "[a-\\", "[z-a]", "[]a]",
		"{",    "{a",     "{a,",   "{a,{b}", "}",   "a}b",  "{a}}",  "!(",    "!(a",
		"!(a|", "!(a(b)", "!({a)", "{!(a}",  "\\",  "a\\",  "{\\",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(patterns); i++) {
		struct err e = ERR_INIT;
		struct glob g;

		if (glob_init(&g, span_str(patterns[i]), &e) != -EINVAL)
			fail_msg("'%s' was taken", patterns[i]);
		assert_int_equal(strncmp(e.msg, "syntax error in pattern: ", 25), 0);
		assert_false(glob_match(&g, SPAN_LIT("a")));
		glob_free(&g);
	}
}

static void bounded(void **state)
{
	char pattern[GLOB_MAX_PATTERN + 1], text[GLOB_MAX_TEXT + 1];
	struct err e = ERR_INIT;
	struct glob g;

	(void)state;
	memset(pattern, 'a', sizeof(pattern));
	assert_int_equal(glob_init(&g, span_of(pattern, GLOB_MAX_PATTERN), &e), 0);
	glob_free(&g);
	assert_int_equal(glob_init(&g, span_of(pattern, GLOB_MAX_PATTERN + 1), &e), -E2BIG);
	assert_int_equal(glob_init(&g, SPAN_LIT("a\0b"), &e), -EINVAL);

	memset(pattern, '{', GLOB_MAX_NESTING + 1);
	memset(pattern + GLOB_MAX_NESTING + 1, '}', GLOB_MAX_NESTING + 1);
	assert_int_equal(glob_init(&g, span_of(pattern, 2 * (GLOB_MAX_NESTING + 1)), &e), -E2BIG);
	assert_int_equal(glob_init(&g, span_of(pattern + 1, 2 * GLOB_MAX_NESTING), &e), 0);
	assert_true(glob_match(&g, SPAN_LIT("")));
	glob_free(&g);

	/* the most memory a pattern can ask for */
	static const char *const greedy[] = { "?", "{}", "{,}", "!()", "*?", "[a]", "a?", "{a?,}" };

	for (size_t i = 0; i < ARRAY_LEN(greedy); i++) {
		size_t unit = strlen(greedy[i]), len = GLOB_MAX_PATTERN / unit * unit;

		for (size_t k = 0; k < len; k++)
			pattern[k] = greedy[i][k % unit];
		assert_int_equal(glob_init(&g, span_of(pattern, len), &e), 0);
		glob_free(&g);
	}

	assert_int_equal(glob_init(&g, SPAN_LIT("**"), &e), 0);
	memset(text, 'a', sizeof(text));
	assert_true(glob_match(&g, span_of(text, GLOB_MAX_TEXT)));
	assert_false(glob_match(&g, span_of(text, GLOB_MAX_TEXT + 1)));
	glob_free(&g);
}

/* None of these would end in our time if places were tried one after the other. */
static void hostile(void **state)
{
	static const struct {
		const char *unit, *end;
		bool match;
	} cases[] = {
		{ "*a", "b", false },
		{ "*a", "", true },
		{ "**a", "b", false },
		{ "{a,aa,}", "b", false },
		{ "{a,aa,}", "*", true },
		{ "{*,a*,**}", "b", false },
		{ "{a,{a,{a,{a,}}}}", "b", false },
	};
	struct buf pattern = BUF_INIT(GLOB_MAX_PATTERN);
	char text[255];

	(void)state;
	memset(text, 'a', sizeof(text));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct glob g;

		buf_clear(&pattern);
		while (pattern.len + strlen(cases[i].unit) + 1 <= GLOB_MAX_PATTERN &&
		       pattern.len < 500)
			(void)buf_add_str(&pattern, cases[i].unit);
		(void)buf_add_str(&pattern, cases[i].end);
		assert_int_equal(glob_init(&g, buf_span(&pattern), NULL), 0);
		assert_int_equal(glob_match(&g, span_of(text, sizeof(text))), cases[i].match);
		glob_free(&g);
	}
	buf_free(&pattern);
}

static void nested_negation_ends(void **state)
{
	char text[GLOB_MAX_TEXT];
	struct glob g;

	(void)state;
	memset(text, 'a', sizeof(text));
	assert_int_equal(glob_init(&g, SPAN_LIT("*!(*!(*!(*!(*b*)b*)b*)b*)"), NULL), 0);
	(void)glob_match(&g, span_of(text, sizeof(text))); /* comes back at all */
	glob_free(&g);
}

static void facts(void **state)
{
	static const struct {
		const char *pattern;
		bool has_slash, absolute;
	} cases[] = {
		{ "*.py", false, false },
		{ "a/*.py", true, false },
		{ "/a/*", true, true },
		{ "**/x", true, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct glob g;

		assert_int_equal(glob_init(&g, span_str(cases[i].pattern), NULL), 0);
		assert_int_equal(g.has_slash, cases[i].has_slash);
		assert_int_equal(g.absolute, cases[i].absolute);
		glob_free(&g);
		glob_free(&g); /* twice does no harm */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(matches),
		cmocka_unit_test(malformed),
		cmocka_unit_test(bounded),
		cmocka_unit_test(hostile),
		cmocka_unit_test(nested_negation_ends),
		cmocka_unit_test(facts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
