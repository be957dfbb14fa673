#include "codec/toml_number.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "codec/chars.h"

/* Digits with single underscores between them, copied to *out without these. */
static bool take_digits(struct span *s, char **out)
{
	size_t i = 0;

	while (i < s->len) {
		if (s->p[i] >= '0' && s->p[i] <= '9')
			*(*out)++ = s->p[i];
		else if (s->p[i] != '_' || i == 0 || i + 1 == s->len || s->p[i - 1] == '_' ||
			 s->p[i + 1] < '0' || s->p[i + 1] > '9')
			break;
		i++;
	}
	*s = span_skip(*s, i);
	return i > 0;
}

/* A decimal number, both kinds. False: it is none. */
static bool parse_decimal(struct span s, struct toml_node *n)
{
	char text[128], *out = text, *whole;

	if (s.len >= sizeof(text))
		return false;
	if (s.p[0] == '-')
		*out++ = '-';
	if (s.p[0] == '-' || s.p[0] == '+')
		s = span_skip(s, 1);
	whole = out;
	if (!take_digits(&s, &out) || (*whole == '0' && out - whole > 1))
		return false;
	if (s.len == 0) {
		n->type = TOML_INTEGER;
		return span_i64(span_of(text, (size_t)(out - text)), &n->integer);
	}
	if (s.p[0] == '.') {
		*out++ = '.';
		s = span_skip(s, 1);
		if (!take_digits(&s, &out))
			return false;
	}
	if (s.len > 0 && (s.p[0] == 'e' || s.p[0] == 'E')) {
		*out++ = 'e';
		s = span_skip(s, 1);
		if (s.len > 0 && (s.p[0] == '-' || s.p[0] == '+')) {
			*out++ = s.p[0];
			s = span_skip(s, 1);
		}
		if (!take_digits(&s, &out))
			return false;
	}
	*out = '\0';
	n->type = TOML_FLOAT;
	n->real = strtod(text, NULL);
	return s.len == 0 && isfinite(n->real);
}

/* 0xff, 0o17, 0b101 */
static bool parse_based(struct span s, struct toml_node *n)
{
	unsigned base = s.p[1] == 'x' ? 16 : s.p[1] == 'o' ? 8 : 2;
	uint64_t v = 0;
	bool digit = false; /* was the last one a digit? */

	for (size_t i = 2; i < s.len; i++) {
		int d = chars_hex(s.p[i]);

		if (s.p[i] == '_' && digit) {
			digit = false;
			continue;
		}
		if (d < 0 || (unsigned)d >= base || v > (uint64_t)INT64_MAX / base)
			return false;
		v = v * base + (unsigned)d;
		digit = true;
	}
	n->type = TOML_INTEGER;
	n->integer = (int64_t)v;
	return digit && v <= INT64_MAX;
}

static bool parse_special(struct span s, struct toml_node *n)
{
	bool minus = s.p[0] == '-';

	if (minus || s.p[0] == '+')
		s = span_skip(s, 1);
	n->type = TOML_FLOAT;
	if (span_is(s, "inf"))
		n->real = minus ? -HUGE_VAL : HUGE_VAL;
	else if (span_is(s, "nan"))
		n->real = minus ? -(double)NAN : (double)NAN;
	else
		return false;
	return true;
}

bool toml_number(struct span s, struct toml_node *ret)
{
	if (s.len == 0)
		return false;
	if (s.len > 2 && s.p[0] == '0' && (s.p[1] == 'x' || s.p[1] == 'o' || s.p[1] == 'b'))
		return parse_based(s, ret);
	return parse_special(s, ret) || parse_decimal(s, ret);
}
