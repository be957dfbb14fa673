/* Patterns: the input is the pattern up to the first LF, then the text.
 *  - Whatever is taken gives the same answer as a matcher that tries everything: braces multiplied
 *    out, one place after the other (on small inputs, and as long as it does not take too long).
 *  - Every text matches itself with all its bytes protected, and "**". */
#include "check.h"

#include "base/buf.h"
#include "codec/glob.h"
#include "codec/utf8.h"

static unsigned budget; /* steps the slow way may still take */

static size_t char_len(struct span s, uint32_t *cp)
{
	int n = utf8_decode(s, cp);

	if (n > 0)
		return (size_t)n;
	*cp = 0x110000u + (unsigned char)s.p[0];
	return 1;
}

/* Length of "[...]" in a pattern that is known to be good. */
static size_t class_len(struct span p)
{
	size_t n = 1;

	while (p.p[n] != ']')
		n += p.p[n] == '\\' ? 2 : 1;
	return n + 1;
}

static bool class_has(struct span p, uint32_t cp)
{
	struct span s = span_of(p.p + 1, p.len - 2);
	bool negated = s.p[0] == '!' || s.p[0] == '^', found = false;

	if (negated)
		s = span_skip(s, 1);
	while (s.len > 0) {
		uint32_t from, to;

		if (s.p[0] == '\\')
			s = span_skip(s, 1);
		s = span_skip(s, char_len(s, &from));
		to = from;
		if (s.len > 1 && s.p[0] == '-') {
			s = span_skip(s, 1);
			if (s.p[0] == '\\')
				s = span_skip(s, 1);
			s = span_skip(s, char_len(s, &to));
		}
		found |= from <= cp && cp <= to;
	}
	return found != negated;
}

/* Length of a bracketed group with what is in it: "{...}" or "!(...)". */
static size_t group_len(struct span p)
{
	bool brace = p.p[0] == '{';
	char close = brace ? '}' : ')';
	unsigned open = 0;
	size_t n = brace ? 1 : 2;

	for (;;) {
		char c = p.p[n];

		if (c == close && open == 0)
			return n + 1;
		if (c == '\\') {
			n += 2;
		} else if (c == '[') {
			n += class_len(span_skip(p, n));
		} else if (c == '{' || (c == '!' && p.p[n + 1] == '(')) {
			n += group_len(span_skip(p, n));
		} else {
			if (!brace)
				open += (c == '(') - (unsigned)(c == ')');
			n++;
		}
	}
}

/* The branch at the front of the inside of a group. */
static size_t branch_len(struct span p, char sep)
{
	unsigned open = 0;
	size_t n = 0;

	while (n < p.len && (p.p[n] != sep || open > 0)) {
		char c = p.p[n];

		if (c == '\\') {
			n += 2;
		} else if (c == '[') {
			n += class_len(span_skip(p, n));
		} else if (c == '{' || (c == '!' && n + 1 < p.len && p.p[n + 1] == '(')) {
			n += group_len(span_skip(p, n));
		} else {
			if (sep == '|')
				open += (c == '(') - (unsigned)(c == ')');
			n++;
		}
	}
	return n;
}

static bool slow(struct span p, struct span t);

/* "{a,b}rest" is "arest" or "brest". */
static bool slow_either(struct span p, struct span t)
{
	size_t len = group_len(p), n;
	struct span inside = span_of(p.p + 1, len - 2), rest = span_skip(p, len);
	bool found = false;

	for (;;) {
		struct buf one = BUF_INIT(4096);

		n = branch_len(inside, ',');
		(void)buf_add_span(&one, span_first(inside, n));
		(void)buf_add_span(&one, rest);
		(void)buf_reserve(&one, 1); /* never NULL */
		found = found || slow(buf_span(&one), t);
		buf_free(&one);
		if (n == inside.len)
			return found;
		inside = span_skip(inside, n + 1);
	}
}

static bool slow_none_of(struct span p, struct span t)
{
	size_t len = group_len(p), end = 0;
	uint32_t cp;

	for (;;) {
		struct span inside = span_of(p.p + 2, len - 3);
		bool hit = false;
		size_t n;

		for (;;) {
			n = branch_len(inside, '|');
			hit = hit || slow(span_first(inside, n), span_first(t, end));
			if (n == inside.len)
				break;
			inside = span_skip(inside, n + 1);
		}
		if (!hit && slow(span_skip(p, len), span_skip(t, end)))
			return true;
		if (end == t.len || t.p[end] == '/')
			return false;
		end += char_len(span_skip(t, end), &cp);
	}
}

static bool slow(struct span p, struct span t)
{
	uint32_t cp;

	if (budget == 0)
		return false;
	budget--;
	if (p.len == 0)
		return t.len == 0;
	if (p.p[0] == '{')
		return slow_either(p, t);
	if (p.p[0] == '!' && p.len > 1 && p.p[1] == '(')
		return slow_none_of(p, t);
	if (p.p[0] == '*') {
		if (slow(span_skip(p, 1), t))
			return true;
		return t.len > 0 && t.p[0] != '/' && slow(p, span_skip(t, char_len(t, &cp)));
	}
	if (t.len == 0)
		return false;
	if (p.p[0] == '?' || p.p[0] == '[') {
		size_t n = p.p[0] == '?' ? 1 : class_len(p), len = char_len(t, &cp);

		if (cp == '/' || (p.p[0] == '[' && !class_has(span_first(p, n), cp)))
			return false;
		return slow(span_skip(p, n), span_skip(t, len));
	}
	if (p.p[0] == '\\')
		p = span_skip(p, 1);
	return p.p[0] == t.p[0] && slow(span_skip(p, 1), span_skip(t, 1));
}

static void check_itself(struct span text)
{
	struct buf pattern = BUF_INIT(GLOB_MAX_PATTERN);
	struct glob g;

	for (size_t i = 0; i < text.len; i++) {
		(void)buf_add_char(&pattern, '\\');
		(void)buf_add_char(&pattern, text.p[i]);
	}
	if (!buf_failed(&pattern) && span_find(text, '\0') < 0) {
		CHECK(glob_init(&g, buf_span(&pattern), NULL) == 0);
		CHECK(glob_match(&g, text));
		glob_free(&g);
	}
	CHECK(glob_init(&g, SPAN_LIT("**"), NULL) == 0);
	CHECK(glob_match(&g, text) == (text.len <= GLOB_MAX_TEXT));
	glob_free(&g);
	buf_free(&pattern);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span rest = span_of(data, size), pattern;
	struct err e = ERR_INIT;
	struct glob g;
	char *copy;
	bool match;
	int r;

	if (size == 0 || size > 6000)
		return 0;
	pattern = span_cut(&rest, '\n');
	if (rest.p == NULL)
		rest = SPAN_LIT("");
	check_itself(rest);
	r = glob_init(&g, pattern, &e);
	copy = check_copy(rest.p, rest.len);
	match = glob_match(&g, span_of(copy, rest.len));
	free(copy);
	glob_free(&g);
	if (r < 0) {
		CHECK(!match && e.code == -r && e.msg[0] != '\0');
		return 0;
	}
	/* ** has rules that depend on its neighbours: told apart in the unit tests */
	if (pattern.len > 40 || rest.len > 40 || !utf8_valid(pattern) ||
	    memmem(pattern.p, pattern.len, "**", 2) != NULL)
		return 0;
	/* when braces are taken away, stars may come together and a '!' may meet a '(' */
	if (memchr(pattern.p, '{', pattern.len) != NULL &&
	    memchr(pattern.p, '!', pattern.len) != NULL)
		return 0;
	budget = 200000;
	if (slow(pattern, rest) != match)
		CHECK(budget == 0);
	return 0;
}
