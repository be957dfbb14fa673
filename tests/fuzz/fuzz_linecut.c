/* Lines by number: the first two bytes are the first line and the count, the rest is the text.
 *  - The same comes out however the text is cut into pieces.
 *  - It is what a plain reading of the rules gives. */
#include "check.h"

#include "execd/linecut.h"

static void cut(struct span text, uint64_t first, uint64_t count, uint64_t seed, struct buf *out)
{
	struct linecut c;
	bool all = false;

	linecut_init(&c, first, count);
	while (text.len > 0 && !all) {
		size_t n = seed == 0 ? text.len : check_piece(&seed, text.len);
		char *copy = check_copy(text.p, n);
		size_t before = out->len;

		all = linecut_feed(&c, span_of(copy, n), out);
		CHECK(out->len - before <= n + KIB(64) + 1);
		free(copy);
		text = span_skip(text, n);
	}
}

static void plainly(struct span text, uint64_t first, uint64_t count, struct buf *out)
{
	uint64_t number = 0, given = 0;

	while (text.len > 0) {
		ptrdiff_t at = span_find(text, '\n');
		struct span line = at < 0 ? text : span_first(text, (size_t)at);

		text = span_skip(text, line.len + (at >= 0));
		number++;
		while (line.len > 0 && line.p[line.len - 1] == '\r')
			line.len--;
		if (number < first || given == count)
			continue;
		if (given++ > 0)
			(void)buf_add_char(out, '\n');
		(void)buf_add_span(out, line);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(MIB(8)), pieces = BUF_INIT(MIB(8)), want = BUF_INIT(MIB(8));
	uint64_t first, count;
	struct span text;

	if (size < 2 || size > KIB(32)) /* a run of more CRs than that is text */
		return 0;
	first = 1 + (uint64_t)data[0] % 16;
	count = data[1] == 0 ? UINT64_MAX : data[1] % 16 + 1u;
	text = span_of(data + 2, size - 2);
	cut(text, first, count, 0, &whole);
	cut(text, first, count, check_seed(data, size), &pieces);
	plainly(text, first, count, &want);
	CHECK(span_eq(buf_span(&whole), buf_span(&want)));
	CHECK(span_eq(buf_span(&pieces), buf_span(&want)));
	buf_free(&whole);
	buf_free(&pieces);
	buf_free(&want);
	return 0;
}
