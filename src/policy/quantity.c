#include "policy/quantity.h"

#include <errno.h>

#include "base/util.h"

#define MAX_DIGITS 18 /* of either part: 10^18 fits an int64 */

/* A decimal number: whole + fraction / scale. */
struct decimal {
	uint64_t whole;
	uint64_t fraction;
	uint64_t scale; /* power of ten */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Takes the number off the front of *s. */
static bool take_decimal(struct span *s, struct decimal *ret)
{
	struct decimal d = { .scale = 1 };
	size_t at = 0, digits = 0;

	for (; at < s->len && is_digit(s->p[at]); at++, digits++)
		d.whole = d.whole * 10 + (uint64_t)(s->p[at] - '0');
	if (digits == 0 || digits > MAX_DIGITS)
		return false;
	if (at < s->len && s->p[at] == '.') {
		digits = 0;
		for (at++; at < s->len && is_digit(s->p[at]); at++, digits++) {
			d.fraction = d.fraction * 10 + (uint64_t)(s->p[at] - '0');
			d.scale *= 10;
			if (digits >= MAX_DIGITS)
				return false;
		}
		if (digits == 0)
			return false;
	}
	*s = span_skip(*s, at);
	*ret = d;
	return true;
}

/* d * factor as a whole number; false if it is none or does not fit. */
static bool scaled(const struct decimal *d, uint64_t factor, uint64_t *ret)
{
	unsigned __int128 part = (unsigned __int128)d->fraction * factor;
	unsigned __int128 all;

	if (part % d->scale != 0)
		return false;
	all = (unsigned __int128)d->whole * factor + part / d->scale;
	if (all > UINT64_MAX)
		return false;
	*ret = (uint64_t)all;
	return true;
}

int quantity_cpu(struct span s, uint32_t *ret_milli, struct err *e)
{
	struct span rest = span_trim(s);
	struct decimal d;
	uint64_t milli;
	bool ok;

	ok = take_decimal(&rest, &d);
	if (ok && span_is(rest, "m"))
		ok = scaled(&d, 1, &milli);
	else if (ok && rest.len == 0)
		ok = scaled(&d, 1000, &milli);
	else
		ok = false;
	if (!ok || milli == 0 || milli > UINT32_MAX)
		return err_set(e, EINVAL,
			       "'%.*s' is not an amount of CPU such as \"500m\" or \"1.5\"",
			       (int)MIN(s.len, (size_t)40), s.p);
	*ret_milli = (uint32_t)milli;
	return 0;
}

static const struct {
	const char *name;
	uint64_t factor;
} units[] = {
	{ "", 1 },
	{ "b", 1 },
	{ "k", 1000 },
	{ "kb", 1000 },
	{ "ki", 1ULL << 10 },
	{ "kib", 1ULL << 10 },
	{ "m", 1000000 },
	{ "mb", 1000000 },
	{ "mi", 1ULL << 20 },
	{ "mib", 1ULL << 20 },
	{ "g", 1000000000 },
	{ "gb", 1000000000 },
	{ "gi", 1ULL << 30 },
	{ "gib", 1ULL << 30 },
	{ "t", 1000000000000 },
	{ "tb", 1000000000000 },
	{ "ti", 1ULL << 40 },
	{ "tib", 1ULL << 40 },
	{ "p", 1000000000000000 },
	{ "pi", 1ULL << 50 },
	{ "e", 1000000000000000000 },
	{ "ei", 1ULL << 60 },
};

int quantity_bytes(struct span s, uint64_t *ret_bytes, struct err *e)
{
	struct span rest = span_trim(s);
	struct decimal d;

	if (take_decimal(&rest, &d)) {
		for (size_t i = 0; i < ARRAY_LEN(units); i++) {
			uint64_t bytes;

			if (!span_caseis(rest, units[i].name))
				continue;
			if (!scaled(&d, units[i].factor, &bytes) || bytes == 0)
				break;
			*ret_bytes = bytes;
			return 0;
		}
	}
	return err_set(e, EINVAL, "'%.*s' is not an amount of bytes such as \"512Mi\" or \"2G\"",
		       (int)MIN(s.len, (size_t)40), s.p);
}

int quantity_count(struct span s, uint32_t *ret_count, struct err *e)
{
	uint64_t n;

	if (!span_u64(span_trim(s), &n) || n == 0 || n > UINT32_MAX)
		return err_set(e, EINVAL, "'%.*s' is not a count above zero",
			       (int)MIN(s.len, (size_t)40), s.p);
	*ret_count = (uint32_t)n;
	return 0;
}
