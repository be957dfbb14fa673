/* URLs (RFC 3986): taken apart, percent-decoded and encoded. No allocation; results are spans of
 * the input or go to the caller's buffer. */
#ifndef OSB_CODEC_URL_H
#define OSB_CODEC_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* "scheme://authority/path?query" */
struct url_parts {
	struct span scheme;
	struct span authority;
	struct span target; /* path and query as written; empty if there are none */
};

/* False without a scheme or an authority, with a fragment or with a byte no URL may have. The
 * authority is cut out, not judged. */
bool url_split(struct span url, struct url_parts *ret);

/* "host", "host:port", "[::1]:port" */
struct url_authority {
	struct span host; /* without the brackets */
	bool ipv6;        /* had brackets, and is an address */
	bool has_port;
	uint16_t port;
};

/* False for anything but one host and at most one port from 1 to 65535. User information is
 * refused, and so are the characters that names may have in the grammar but never in life. */
bool url_split_authority(struct span s, struct url_authority *ret);

enum url_mode {
	URL_PATH,  /* '+' is itself */
	URL_QUERY, /* '+' is a blank */
};

/* Percent-decode into out[0..size). The length, or -EINVAL (an escape without two hexadecimal
 * digits, or one of NUL), or -ENOBUFS. The result never outgrows the input, and `out` may be the
 * input's own memory. No NUL is added. */
ptrdiff_t url_decode(struct span in, enum url_mode mode, char *out, size_t size);

/* Does `raw`, decoded, equal `plain`? Needs no buffer; a bad escape equals nothing. */
bool url_decodes_to(struct span raw, enum url_mode mode, struct span plain);

/* The next pair of a query, raw: "a=1&a=2&b" has three. False at the end. Empty parts ("&&") are
 * passed over; without '=' the value has p == NULL. Start with *rest as the whole query. */
bool url_query_next(struct span *rest, struct span *ret_key, struct span *ret_value);

/* The raw value of the first pair with that key; false if there is none. */
bool url_query_find(struct span query, const char *key, struct span *ret_value);

enum url_keep {
	URL_KEEP_UNRESERVED, /* for one segment, key or value */
	URL_KEEP_PATH,       /* for a whole path: '/' and what else may stand in paths stay */
};

/* Percent-encode into out[0..size). The length, or -ENOBUFS; three times the input always fits. */
ptrdiff_t url_encode(struct span in, enum url_keep keep, char *out, size_t size);

/* May a raw path be matched by prefix or handed on, with no one below reading it differently? It
 * starts with '/', its escapes are valid, and it has no "." or ".." or empty segments (the last may
 * be empty: "/a/"), no backslash, no NUL, and no '/' or '\' in an escape. */
bool url_path_is_plain(struct span raw);

#endif
