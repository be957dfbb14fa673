#include "base/span.h"

#include <stdlib.h>

static inline unsigned char lower(unsigned char c)
{
	return c >= 'A' && c <= 'Z' ? (unsigned char)(c | 0x20) : c;
}

bool span_caseeq(struct span a, struct span b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (lower((unsigned char)a.p[i]) != lower((unsigned char)b.p[i]))
			return false;
	return true;
}

bool span_caseis(struct span a, const char *s)
{
	return span_caseeq(a, span_str(s));
}

bool span_starts(struct span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.len >= n && (n == 0 || memcmp(s.p, prefix, n) == 0);
}

bool span_ends(struct span s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.len >= n && (n == 0 || memcmp(s.p + s.len - n, suffix, n) == 0);
}

struct span span_trim(struct span s)
{
	while (s.len > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = span_skip(s, 1);
	while (s.len > 0 && (s.p[s.len - 1] == ' ' || s.p[s.len - 1] == '\t'))
		s.len--;
	return s;
}

ptrdiff_t span_find(struct span s, char c)
{
	const char *at = s.len > 0 ? memchr(s.p, c, s.len) : NULL;

	return at != NULL ? at - s.p : -1;
}

struct span span_cut(struct span *rest, char sep)
{
	struct span head = *rest;
	ptrdiff_t at = span_find(*rest, sep);

	if (at < 0) {
		*rest = (struct span){ NULL, 0 };
		return head;
	}
	*rest = span_skip(head, (size_t)at + 1);
	return span_first(head, (size_t)at);
}

bool span_u64(struct span s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.len == 0)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(s.p[i] - '0'), &v))
			return false;
	}
	*ret = v;
	return true;
}

bool span_i64(struct span s, int64_t *ret)
{
	bool neg = s.len > 0 && s.p[0] == '-';
	uint64_t v;

	if (!span_u64(neg ? span_skip(s, 1) : s, &v))
		return false;
	if (v > (uint64_t)INT64_MAX + (neg ? 1u : 0u))
		return false;
	*ret = neg ? (int64_t)(0u - v) : (int64_t)v;
	return true;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool span_hex_u64(struct span s, uint64_t *ret)
{
	uint64_t v = 0;

	if (s.len == 0 || s.len > 16)
		return false;
	for (size_t i = 0; i < s.len; i++) {
		int d = hex_digit(s.p[i]);

		if (d < 0)
			return false;
		v = v << 4 | (unsigned)d;
	}
	*ret = v;
	return true;
}

char *span_dup(struct span s)
{
	char *copy;

	if (s.len > 0 && memchr(s.p, '\0', s.len) != NULL)
		return NULL;
	copy = malloc(s.len + 1);
	if (copy == NULL)
		return NULL;
	if (s.len > 0)
		memcpy(copy, s.p, s.len);
	copy[s.len] = '\0';
	return copy;
}

bool span_copy(struct span s, char *dst, size_t dst_size)
{
	if (s.len >= dst_size)
		return false;
	if (s.len > 0)
		memcpy(dst, s.p, s.len);
	dst[s.len] = '\0';
	return true;
}

bool span_eq_secret(struct span a, struct span b)
{
	unsigned char diff = a.len == b.len ? 0 : 1;

	/* The length of what was sent may show in the time, the secret's contents may not. */
	for (size_t i = 0; i < a.len; i++)
		diff |= (unsigned char)a.p[i] ^ (unsigned char)(b.len > 0 ? b.p[i % b.len] : 0xff);
	return diff == 0;
}
