#include "codec/base64.h"

#include <errno.h>
#include <stdint.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t base64_encode(struct span in, char *out)
{
	char *at = out;

	while (in.len > 0) {
		size_t n = in.len < 3 ? in.len : 3;
		uint32_t v = 0;

		for (size_t i = 0; i < 3; i++)
			v = v << 8 | (i < n ? (unsigned char)in.p[i] : 0u);
		*at++ = alphabet[v >> 18];
		*at++ = alphabet[v >> 12 & 63];
		*at++ = n > 1 ? alphabet[v >> 6 & 63] : '=';
		*at++ = n > 2 ? alphabet[v & 63] : '=';
		in = span_skip(in, n);
	}
	return (size_t)(at - out);
}

static int sextet(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

ptrdiff_t base64_decode(struct span in, void *out, size_t size)
{
	unsigned char *to = out;
	size_t n = 0;

	if (in.len % 4 != 0)
		return -EINVAL;
	for (; in.len > 0; in = span_skip(in, 4)) {
		size_t chars = 4, bytes;
		uint32_t v = 0;

		if (in.len == 4 && in.p[3] == '=')
			chars = in.p[2] == '=' ? 2 : 3;
		bytes = chars - 1;
		for (size_t i = 0; i < 4; i++) {
			int six = i < chars ? sextet(in.p[i]) : 0;

			if (six < 0)
				return -EINVAL;
			v = v << 6 | (uint32_t)six;
		}
		if ((v & ((1u << (8 * (3 - bytes))) - 1)) != 0)
			return -EINVAL;
		if (size - n < bytes)
			return -ENOBUFS;
		for (size_t i = 0; i < bytes; i++)
			to[n++] = (unsigned char)(v >> (16 - 8 * i));
	}
	return (ptrdiff_t)n;
}
