#include "codec/url.h"

#include <arpa/inet.h>
#include <errno.h>

#include "codec/chars.h"

bool url_split(struct span url, struct url_parts *ret)
{
	struct url_parts parts;
	ptrdiff_t at = span_find(url, ':');
	size_t n;

	if (at <= 0 || !chars_all(url, CHARS_TARGET))
		return false;
	/* RFC 3986 3.1: a letter first; what else may follow is in use nowhere here */
	parts.scheme = span_first(url, (size_t)at);
	for (size_t i = 0; i < parts.scheme.len; i++)
		if ((parts.scheme.p[i] | 0x20) < 'a' || (parts.scheme.p[i] | 0x20) > 'z')
			return false;
	url = span_skip(url, (size_t)at + 1);
	if (!span_starts(url, "//"))
		return false;
	url = span_skip(url, 2);
	for (n = 0; n < url.len; n++)
		if (url.p[n] == '/' || url.p[n] == '?')
			break;
	if (n == 0)
		return false;
	parts.authority = span_first(url, n);
	parts.target = span_skip(url, n);
	*ret = parts;
	return true;
}

/* An address as the C library reads it: no second opinion about "::". */
static bool is_ipv6(struct span s)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	return chars_all(s, CHARS_ADDRESS) && span_copy(s, text, sizeof(text)) &&
	       inet_pton(AF_INET6, text, &address) == 1;
}

bool url_split_authority(struct span s, struct url_authority *ret)
{
	struct url_authority a = { .ipv6 = s.len > 0 && s.p[0] == '[' };
	uint64_t port;
	size_t n;

	if (a.ipv6) {
		ptrdiff_t close = span_find(s, ']');

		if (close < 0)
			return false;
		a.host = span_of(s.p + 1, (size_t)close - 1);
		if (!is_ipv6(a.host))
			return false;
		n = (size_t)close + 1;
	} else {
		n = chars_run(s.p, s.len, CHARS_UNRESERVED);
		a.host = span_first(s, n);
		if (n == 0)
			return false;
	}
	if (n < s.len) {
		/* digits behind ':' and nothing else; "host:" is refused for its two readings */
		if (s.p[n] != ':' || s.len - n > 6 || !span_u64(span_skip(s, n + 1), &port) ||
		    port == 0 || port > UINT16_MAX)
			return false;
		a.has_port = true;
		a.port = (uint16_t)port;
	}
	*ret = a;
	return true;
}

/* The next decoded byte of *in, which is not empty; -EINVAL for a bad escape. */
static int next_byte(struct span *in, enum url_mode mode)
{
	int high, low;
	char c = in->p[0];

	if (c != '%') {
		*in = span_skip(*in, 1);
		if (c == '\0')
			return -EINVAL;
		return c == '+' && mode == URL_QUERY ? ' ' : (unsigned char)c;
	}
	if (in->len < 3)
		return -EINVAL;
	high = chars_hex(in->p[1]);
	low = chars_hex(in->p[2]);
	if (high < 0 || low < 0 || (high | low) == 0)
		return -EINVAL;
	*in = span_skip(*in, 3);
	return high << 4 | low;
}

ptrdiff_t url_decode(struct span in, enum url_mode mode, char *out, size_t size)
{
	size_t n = 0;

	while (in.len > 0) {
		int c = next_byte(&in, mode);

		if (c < 0)
			return c;
		if (n == size)
			return -ENOBUFS;
		out[n++] = (char)c;
	}
	return (ptrdiff_t)n;
}

bool url_decodes_to(struct span raw, enum url_mode mode, struct span plain)
{
	size_t n = 0;

	while (raw.len > 0) {
		int c = next_byte(&raw, mode);

		if (c < 0 || n == plain.len || (unsigned char)plain.p[n] != c)
			return false;
		n++;
	}
	return n == plain.len;
}

bool url_query_next(struct span *rest, struct span *ret_key, struct span *ret_value)
{
	while (rest->p != NULL) {
		struct span value = span_cut(rest, '&');

		if (value.len == 0)
			continue;
		*ret_key = span_cut(&value, '=');
		*ret_value = value;
		return true;
	}
	return false;
}

bool url_query_find(struct span query, const char *key, struct span *ret_value)
{
	struct span wanted = span_str(key), k, v;

	while (url_query_next(&query, &k, &v)) {
		if (!url_decodes_to(k, URL_QUERY, wanted))
			continue;
		*ret_value = v;
		return true;
	}
	return false;
}

ptrdiff_t url_encode(struct span in, enum url_keep keep, char *out, size_t size)
{
	enum chars_class class = keep == URL_KEEP_PATH ? CHARS_PATH : CHARS_UNRESERVED;
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		unsigned char c = (unsigned char)in.p[i];

		if (chars_is(in.p[i], class)) {
			if (size - n < 1)
				return -ENOBUFS;
			out[n++] = in.p[i];
			continue;
		}
		if (size - n < 3)
			return -ENOBUFS;
		out[n++] = '%';
		out[n++] = "0123456789ABCDEF"[c >> 4];
		out[n++] = "0123456789ABCDEF"[c & 15];
	}
	return (ptrdiff_t)n;
}

bool url_path_is_plain(struct span raw)
{
	if (raw.len == 0 || raw.p[0] != '/')
		return false;
	raw = span_skip(raw, 1);
	while (raw.p != NULL) {
		struct span segment = span_cut(&raw, '/');
		size_t n = 0, dots = 0;

		while (segment.len > 0) {
			int c = next_byte(&segment, URL_PATH);

			if (c < 0 || c == '/' || c == '\\')
				return false;
			dots += c == '.';
			n++;
		}
		if (n == 0 && raw.p != NULL)
			return false;
		if (n > 0 && n <= 2 && dots == n)
			return false;
	}
	return true;
}
