/* Lines: the first byte is the bound.
 *  - The same lines come out however the bytes are cut.
 *  - Joined again they are the input with its line ends made one.
 *  - None is empty, too long, or has a line end inside; good UTF-8 stays good. */
#include "check.h"

#include "codec/lines.h"
#include "codec/utf8.h"

static void add_line(struct buf *out, struct span text, bool cut, size_t max, bool utf8)
{
	bool blank = span_is(text, "\n");

	CHECK(text.len > 0 && text.len <= max);
	CHECK(blank || lines_find_end(text) == text.len);
	CHECK(!utf8 || utf8_valid(text));
	if (!blank)
		(void)buf_add_span(out, text);
	if (cut)
		(void)buf_add_char(out, '\0'); /* tells where the parts were, see below */
	else
		(void)buf_add_char(out, '\n');
}

static void split(struct span in, size_t max, uint64_t seed, bool utf8, struct buf *out)
{
	struct lines l;
	struct span text;

	lines_init(&l, max);
	while (in.len > 0) {
		/* seed 0: all at once */
		size_t n = seed == 0 ? in.len : check_piece(&seed, in.len);
		char *copy = check_copy(in.p, n);
		struct span piece = span_of(copy, n);
		int r;

		while ((r = lines_next(&l, &piece, &text)) > 0)
			add_line(out, text, l.cut, max, utf8);
		CHECK(r == 0 && piece.len == 0 && l.tail.len <= max);
		free(copy);
		in = span_skip(in, n);
	}
	if (lines_finish(&l, &text))
		add_line(out, text, false, max, utf8);
	lines_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20), plain = BUF_INIT(1 << 20);
	struct span in;
	size_t max, at = 0;
	bool utf8;

	if (size < 1 || size > 4096)
		return 0;
	max = 4 + data[0] % 64;
	in = span_of(data + 1, size - 1);
	utf8 = utf8_valid(in);
	split(in, max, 0, utf8, &whole);
	split(in, max, check_seed(data, size), utf8, &pieces);
	CHECK(span_eq(buf_span(&whole), buf_span(&pieces)));

	for (size_t i = 0; i < in.len; i++) {
		bool crlf = in.p[i] == '\r' && i + 1 < in.len && in.p[i + 1] == '\n';

		(void)buf_add_char(&plain, in.p[i] == '\r' ? '\n' : in.p[i]);
		i += crlf;
	}
	if (plain.len > 0 && plain.data[plain.len - 1] != '\n')
		(void)buf_add_char(&plain, '\n');
	for (size_t i = 0; i < whole.len; i++) {
		/* a NUL is a mark, unless there is one in the input too */
		if (at < plain.len && whole.data[i] == plain.data[at])
			at++;
		else
			CHECK(whole.data[i] == '\0');
	}
	CHECK(at == plain.len);
	buf_free(&whole);
	buf_free(&pieces);
	buf_free(&plain);
	return 0;
}
