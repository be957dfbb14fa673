#include "codec/range.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* Digits, as many as there are. A position beyond any file is still well-formed: it counts as the
 * largest number. */
static bool parse_position(struct span s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			v = UINT64_MAX;
	}
	*ret = v;
	return true;
}

/* "a-b", "a-" or "-n" */
static enum range_result parse_spec(struct span spec, uint64_t size, struct range *ret)
{
	struct span first = span_cut(&spec, '-');
	uint64_t from = 0, to = UINT64_MAX, n;

	if (spec.p == NULL)
		return RANGE_MALFORMED;
	if (first.len == 0) {
		if (!parse_position(spec, &n))
			return RANGE_MALFORMED;
		if (n == 0 || size == 0)
			return RANGE_UNSATISFIABLE;
		*ret = (struct range){ n < size ? size - n : 0, size - 1 };
		return RANGE_PART;
	}
	if (!parse_position(first, &from) || (spec.len > 0 && !parse_position(spec, &to)) ||
	    to < from)
		return RANGE_MALFORMED;
	if (from >= size)
		return RANGE_UNSATISFIABLE;
	*ret = (struct range){ from, to < size ? to : size - 1 };
	return RANGE_PART;
}

enum range_result range_parse(struct span value, uint64_t size, struct range *ret)
{
	enum range_result result = RANGE_MALFORMED;
	struct span unit = span_cut(&value, '=');
	struct range found = { 0, 0 };

	if (value.p == NULL)
		return RANGE_MALFORMED;
	if (!span_caseeq(unit, SPAN_LIT("bytes")))
		return RANGE_WHOLE;
	while (value.p != NULL) {
		struct span spec = span_trim(span_cut(&value, ','));
		struct range part;

		if (spec.len == 0) /* RFC 9110 5.6.1: empty elements of a list do not count */
			continue;
		switch (parse_spec(spec, size, &part)) {
		case RANGE_PART:
			if (result != RANGE_PART)
				found = part;
			result = RANGE_PART;
			break;
		case RANGE_UNSATISFIABLE:
			if (result != RANGE_PART)
				result = RANGE_UNSATISFIABLE;
			break;
		case RANGE_MALFORMED:
		case RANGE_WHOLE:
			return RANGE_MALFORMED;
		}
	}
	if (result == RANGE_PART)
		*ret = found;
	/* Nothing can be cut from nothing, and there is no error in asking. */
	return result == RANGE_UNSATISFIABLE && size == 0 ? RANGE_WHOLE : result;
}

size_t range_content_range(char out[RANGE_TEXT_SIZE], const struct range *part, uint64_t size)
{
	int n;

	if (part != NULL)
		n = snprintf(out, RANGE_TEXT_SIZE, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
			     part->first, part->last, size);
	else
		n = snprintf(out, RANGE_TEXT_SIZE, "bytes */%" PRIu64, size);
	return (size_t)n;
}
