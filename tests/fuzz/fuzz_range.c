/* The input is "SIZE value": what a Range field says to something of that size. */
#include "check.h"

#include "base/buf.h"
#include "codec/range.h"

static enum range_result parse_text(const char *before, struct span value, const char *behind,
				    uint64_t size, struct range *ret)
{
	struct buf b = BUF_INIT(MIB(1));
	enum range_result result;

	(void)buf_add_str(&b, before);
	(void)buf_add_span(&b, value);
	(void)buf_add_str(&b, behind);
	CHECK(!buf_failed(&b));
	result = range_parse(buf_span(&b), size, ret);
	buf_free(&b);
	return result;
}

static bool is_bytes(struct span value)
{
	return value.len > 6 && span_caseeq(span_first(value, 6), SPAN_LIT("bytes="));
}

static void check_part(struct range r, uint64_t size)
{
	char text[RANGE_TEXT_SIZE], again[RANGE_TEXT_SIZE];
	struct range same;
	size_t n;

	CHECK(r.first <= r.last && r.last < size && range_len(r) <= size);
	n = range_content_range(text, &r, size);
	CHECK(n == strlen(text) && n < sizeof(text));
	/* asked for exactly that, one gets exactly that */
	(void)snprintf(again, sizeof(again), "bytes=%.*s", (int)(strchr(text, '/') - text - 6),
		       text + 6);
	CHECK(range_parse(span_str(again), size, &same) == RANGE_PART);
	CHECK(same.first == r.first && same.last == r.last);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t sizes[] = { 0, 1, 2, 10, 1000, 1u << 31, UINT64_MAX };
	autofree char *buf = NULL;
	struct range r = { 1, 0 }, other;
	struct span value;
	uint64_t total = 0;
	enum range_result result;

	if (size > 1024)
		return 0;
	buf = check_copy(data, size);
	value = span_of(buf, size);
	if (!span_u64(span_cut(&value, ' '), &total) || value.p == NULL)
		return 0;

	result = range_parse(value, total, &r);
	if (result == RANGE_PART)
		check_part(r, total);
	else
		CHECK(r.first == 1 && r.last == 0);
	CHECK(total > 0 || result == RANGE_WHOLE || result == RANGE_MALFORMED);
	/* whether it is well-formed is not a question of size */
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		enum range_result at = range_parse(value, sizes[i], &other);

		CHECK((at == RANGE_MALFORMED) == (result == RANGE_MALFORMED));
		if (at == RANGE_PART)
			check_part(other, sizes[i]);
	}
	if (!is_bytes(value)) {
		CHECK(result == RANGE_WHOLE || result == RANGE_MALFORMED);
		return 0;
	}
	CHECK(parse_text("", value, ",x", total, &other) == RANGE_MALFORMED);
	if (result == RANGE_MALFORMED)
		return 0;
	if (total > 0) {
		CHECK(result != RANGE_WHOLE);
		CHECK(parse_text("", value, ", 0-0", total, &other) == RANGE_PART);
		CHECK(other.first == (result == RANGE_PART ? r.first : 0) &&
		      other.last == (result == RANGE_PART ? r.last : 0));
		/* what cannot be satisfied changes nothing in front */
		CHECK(parse_text("bytes=-0,", span_skip(value, 6), " ,", total, &other) == result);
		CHECK(result != RANGE_PART || (other.first == r.first && other.last == r.last));
	}
	return 0;
}
