/* Which bytes may stand where: one table for the HTTP and URL codecs, and a fast search for the
 * bytes that may stand nowhere. */
#ifndef OSB_CODEC_CHARS_H
#define OSB_CODEC_CHARS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/span.h"

enum chars_class {
	CHARS_TOKEN = 1,      /* RFC 9110 5.6.2: letters, digits, !#$%&'*+-.^_`|~ */
	CHARS_TARGET = 2,     /* visible ASCII but '#' */
	CHARS_UNRESERVED = 4, /* RFC 3986 2.3: letters, digits, "-._~" */
	CHARS_PATH = 8,       /* may stand as is in an encoded path: pchar and '/' */
	CHARS_CTL = 16,       /* control bytes but the tab; DEL is one */
	CHARS_ADDRESS = 32,   /* within the brackets of an IPv6 literal */
};

extern const unsigned char chars_table[256];

static inline bool chars_is(char c, enum chars_class class)
{
	return (chars_table[(unsigned char)c] & class) != 0;
}

/* How many bytes from the start are of that class? */
static inline size_t chars_run(const char *p, size_t len, enum chars_class class)
{
	size_t n = 0;

	while (n < len && chars_is(p[n], class))
		n++;
	return n;
}

static inline bool chars_all(struct span s, enum chars_class class)
{
	return chars_run(s.p, s.len, class) == s.len;
}

/* Position of the first control byte that is not a tab, or len. Every line of every head passes
 * here, hence sixteen bytes at a time; compilers turn it into SSE2 or NEON. */
static inline size_t chars_find_ctl(const char *p, size_t len)
{
	typedef uint8_t block __attribute__((vector_size(16)));
	size_t n = 0;

	for (; len - n >= sizeof(block); n += sizeof(block)) {
		block v, hit;
		uint64_t half[2];

		memcpy(&v, p + n, sizeof(v));
		hit = (block)(((v < 0x20) & (v != '\t')) | (v == 0x7f));
		memcpy(half, &hit, sizeof(half));
		if (half[0] != 0)
			return n + (size_t)__builtin_ctzll(le64toh(half[0])) / 8;
		if (half[1] != 0)
			return n + 8 + (size_t)__builtin_ctzll(le64toh(half[1])) / 8;
	}
	while (n < len && !chars_is(p[n], CHARS_CTL))
		n++;
	return n;
}

/* Value of a hexadecimal digit, or -1. */
static inline int chars_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 0x20);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
