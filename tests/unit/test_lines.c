/* Program output cut into lines. Every case is fed whole, byte by byte, and in pieces of every
 * other size: the lines must be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/buf.h"
#include "base/util.h"
#include "codec/lines.h"

/* Lines are written as <...>; one that is not the end of its line as <...+. */
static void add_line(struct buf *out, struct span text, bool cut)
{
	(void)buf_add_char(out, '<');
	(void)buf_add_span(out, text);
	(void)buf_add_char(out, cut ? '+' : '>');
}

static void split(struct span in, size_t max, size_t step, struct buf *out)
{
	struct lines l;
	struct span text;

	lines_init(&l, max);
	for (size_t at = 0; at < in.len; at += step) {
		struct span piece = span_of(in.p + at, MIN(step, in.len - at));
		int r;

		while ((r = lines_next(&l, &piece, &text)) > 0)
			add_line(out, text, l.cut);
		assert_int_equal(r, 0);
		assert_int_equal(piece.len, 0);
	}
	if (lines_finish(&l, &text))
		add_line(out, text, false);
	assert_false(lines_finish(&l, &text));
	lines_free(&l);
}

static void cases(void **state)
{
	static const struct {
		struct span in;
		size_t max;
		const char *out;
	} table[] = {
		{ SPAN_LIT(""), 100, "" },
		{ SPAN_LIT("a"), 100, "<a>" },
		{ SPAN_LIT("a\n"), 100, "<a>" },
		{ SPAN_LIT("\n"), 100, "<\n>" },
		{ SPAN_LIT("\r"), 100, "<\n>" },
		{ SPAN_LIT("\r\n"), 100, "<\n>" },
		{ SPAN_LIT("\n\r"), 100, "<\n><\n>" },
		{ SPAN_LIT("\r\r\n\n"), 100, "<\n><\n><\n>" },
		{ SPAN_LIT("a\n\nb\n\n\nc\n"), 100, "<a><\n><b><\n><\n><c>" },
		{ SPAN_LIT("x 10%\rx 20%\rdone\n"), 100, "<x 10%><x 20%><done>" },
		{ SPAN_LIT("\rstart"), 100, "<\n><start>" },
		{ SPAN_LIT("one\r\ntwo\r\n\r\nthree"), 100, "<one><two><\n><three>" },
		{ SPAN_LIT("tail without end"), 100, "<tail without end>" },
		{ SPAN_LIT("a long line of more than eight bytes\nand another one of that kind\r"),
		  100, "<a long line of more than eight bytes><and another one of that kind>" },
		/* the bound */
		{ SPAN_LIT("abcd"), 4, "<abcd>" },
		{ SPAN_LIT("abcd\n"), 4, "<abcd>" },
		{ SPAN_LIT("abcd\r\n"), 4, "<abcd>" },
		{ SPAN_LIT("abcde"), 4, "<abcd+<e>" },
		{ SPAN_LIT("abcde\nf"), 4, "<abcd+<e><f>" },
		{ SPAN_LIT("abcdefgh\n\n"), 4, "<abcd+<efgh><\n>" },
		{ SPAN_LIT("abcdefghi"), 4, "<abcd+<efgh+<i>" },
		{ SPAN_LIT("ab"), 1, "<ab>" }, /* a bound below 4 is 4 */
		{ SPAN_LIT("abcde"), 1, "<abcd+<e>" },
		/* cut between characters */
		{ SPAN_LIT("abc\xc3\xa9"), 4, "<abc+<\xc3\xa9>" },
		{ SPAN_LIT("ab\xe2\x82\xac"), 4, "<ab+<\xe2\x82\xac>" },
		{ SPAN_LIT("a\xf0\x9f\x98\x80z"), 4, "<a+<\xf0\x9f\x98\x80+<z>" },
		{ SPAN_LIT("\xf0\x9f\x98\x80\xf0\x9f\x98\x80"), 4,
		  "<\xf0\x9f\x98\x80+<\xf0\x9f\x98\x80>" },
		{ SPAN_LIT("\xc3\xa9\xc3\xa9\xc3\xa9\n"), 5, "<\xc3\xa9\xc3\xa9+<\xc3\xa9>" },
		/* what is no UTF-8 is cut at the bound */
		{ SPAN_LIT("\x80\x80\x80\x80\x80"), 4, "<\x80\x80\x80\x80+<\x80>" },
		{ SPAN_LIT("\xff\xff\xff\xff\xc3\n"), 4, "<\xff\xff\xff\xff+<\xc3>" },
	};
	struct buf out = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(table); i++) {
		for (size_t step = 1; step <= table[i].in.len + 1; step++) {
			buf_clear(&out);
			split(table[i].in, table[i].max, step, &out);
			assert_string_equal(buf_cstr(&out), table[i].out);
		}
	}
	buf_free(&out);
}

static void nul_is_an_ordinary_byte(void **state)
{
	struct lines l;
	struct span in = SPAN_LIT("a\0b\n\0"), text;

	(void)state;
	lines_init(&l, 100);
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_true(span_eq(text, SPAN_LIT("a\0b")));
	assert_int_equal(lines_next(&l, &in, &text), 0);
	assert_true(lines_finish(&l, &text));
	assert_true(span_eq(text, SPAN_LIT("\0")));
	lines_free(&l);
}

static void whole_lines_are_not_copied(void **state)
{
	struct lines l;
	struct span whole = SPAN_LIT("first line\nsecond line\nrest"), in = whole, text;

	(void)state;
	lines_init(&l, 100);
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_ptr_equal(text.p, whole.p);
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_ptr_equal(text.p, whole.p + 11);
	assert_null(l.tail.data);
	assert_int_equal(lines_next(&l, &in, &text), 0);
	assert_int_equal(l.tail.len, 4);
	lines_free(&l);
}

static void usable_again_after_the_end(void **state)
{
	struct lines l;
	struct span in = SPAN_LIT("a\r"), text;

	(void)state;
	lines_init(&l, 100);
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_false(lines_finish(&l, &text));
	in = SPAN_LIT("\nb\n"); /* of another program: the LF is its own */
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_true(span_is(text, "\n"));
	assert_int_equal(lines_next(&l, &in, &text), 1);
	assert_true(span_is(text, "b"));
	lines_free(&l);
}

static void ends_are_found_anywhere(void **state)
{
	char text[40];

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		memset(text, 'x', sizeof(text));
		/* neighbours of the bytes searched for, and some that borrow in arithmetic */
		for (size_t i = 0; i < len; i++)
			text[i] = "x\x0b\x0c\x0e\x09\x8a\x8d\x00\xff"[i % 9];
		assert_int_equal(lines_find_end(span_of(text, len)), len);
		for (size_t at = 0; at < len; at++) {
			char was = text[at];

			text[at] = '\r';
			assert_int_equal(lines_find_end(span_of(text, len)), at);
			text[at] = '\n';
			assert_int_equal(lines_find_end(span_of(text, len)), at);
			text[at] = was;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cases),
		cmocka_unit_test(nul_is_an_ordinary_byte),
		cmocka_unit_test(whole_lines_are_not_copied),
		cmocka_unit_test(usable_again_after_the_end),
		cmocka_unit_test(ends_are_found_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
