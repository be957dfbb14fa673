#include "codec/utf8.h"

#include "base/util.h"
#include "codec/swar.h"

int utf8_decode(struct span s, uint32_t *ret_cp)
{
	const unsigned char *p = (const unsigned char *)s.p;
	/* Only the second byte has a range of its own: it is what rules out overlong forms,
	 * surrogates and numbers beyond U+10FFFF. */
	unsigned char c = p[0], low = 0x80, high = 0xbf;
	uint32_t cp;
	int more;

	if (c < 0x80) {
		*ret_cp = c;
		return 1;
	}
	if (c >= 0xc2 && c <= 0xdf) {
		more = 1;
		cp = c & 0x1fu;
	} else if (c >= 0xe0 && c <= 0xef) {
		more = 2;
		cp = c & 0x0fu;
		if (c == 0xe0)
			low = 0xa0;
		else if (c == 0xed)
			high = 0x9f;
	} else if (c >= 0xf0 && c <= 0xf4) {
		more = 3;
		cp = c & 0x07u;
		if (c == 0xf0)
			low = 0x90;
		else if (c == 0xf4)
			high = 0x8f;
	} else {
		return -1;
	}
	for (int i = 1; i <= more; i++) {
		if ((size_t)i >= s.len || p[i] < low || p[i] > high)
			return -i;
		cp = cp << 6 | (p[i] & 0x3fu);
		low = 0x80;
		high = 0xbf;
	}
	*ret_cp = cp;
	return more + 1;
}

size_t utf8_put(uint32_t cp, char out[4])
{
	if (cp < 0x80) {
		out[0] = (char)cp;
		return 1;
	}
	if (cp < 0x800) {
		out[0] = (char)(0xc0 | cp >> 6);
		out[1] = (char)(0x80 | (cp & 0x3f));
		return 2;
	}
	if (cp < 0x10000) {
		if (cp >= 0xd800 && cp <= 0xdfff)
			return 0;
		out[0] = (char)(0xe0 | cp >> 12);
		out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
		out[2] = (char)(0x80 | (cp & 0x3f));
		return 3;
	}
	if (cp > 0x10ffff)
		return 0;
	out[0] = (char)(0xf0 | cp >> 18);
	out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
	out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
	out[3] = (char)(0x80 | (cp & 0x3f));
	return 4;
}

bool utf8_valid(struct span s)
{
	uint32_t cp;
	int n;

	while (s.len > 0) {
		if (s.len >= 8 && (swar_load(s.p) & SWAR_TOP) == 0) {
			s = span_skip(s, 8);
			continue;
		}
		n = utf8_decode(s, &cp);
		if (n < 0)
			return false;
		s = span_skip(s, (size_t)n);
	}
	return true;
}

size_t utf8_tail(struct span s)
{
	uint32_t cp;

	for (size_t back = 1; back <= MIN(s.len, (size_t)3); back++) {
		unsigned char c = (unsigned char)s.p[s.len - back];

		if (c < 0x80)
			return 0;
		if (c < 0xc0)
			continue; /* inside a character: its first byte is further left */
		if (c < 0xc2 || c > 0xf4)
			return 0;
		return utf8_decode(span_skip(s, s.len - back), &cp) == -(int)back ? back : 0;
	}
	return 0;
}
