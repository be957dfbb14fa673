/* HTTP/1.1 heads and bodies (RFC 9112), strict, for both directions. Sans I/O: nothing here reads,
 * writes or allocates; spans point into the caller's buffer.
 *
 * Reading a message:
 *	1. h1_scan() over the bytes that arrived so far, until it says where the head ends. It
 *	   looks at every byte once, however slowly they come, and refuses bare LF, bare CR and
 *	   control bytes at once.
 *	2. h1_parse_request() / h1_parse_response() on exactly those bytes.
 *	3. h1_body_init_*() decides the framing, h1_body_next() cuts the body into pieces.
 *
 * A proxy in front of hostile code must not be lenient: what two parsers could read in two ways is
 * refused. Every refusal names its reason and the status that a server answers with. */
#ifndef OSB_CODEC_H1_H
#define OSB_CODEC_H1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define H1_MAX_FIELDS 100 /* hard upper bound; limits.max_fields may be lower */

struct h1_limits {
	size_t max_target;   /* bytes of the request target: 414 beyond */
	size_t max_head;     /* bytes of the whole head: 431 beyond */
	unsigned max_fields; /* header lines: 431 beyond */
};

extern const struct h1_limits h1_default_limits; /* 8 KiB, 32 KiB, 100 */

/* Why a message was refused. h1_reason_text() has words for each, h1_reason_status() the answer. */
enum h1_reason {
	H1_OK,
	H1_BAD_LINE_END, /* bare LF, bare CR */
	H1_BAD_BYTE,     /* NUL or another control byte where none may be */
	H1_BAD_METHOD,
	H1_BAD_TARGET,
	H1_BAD_VERSION,     /* 505 */
	H1_BAD_STATUS_LINE, /* response only */
	H1_BAD_FIELD_NAME,  /* also: blank before the colon, obs-fold */
	H1_BAD_FIELD_VALUE, /* Connection names something that is not a token */
	H1_BAD_HOST,        /* missing, twice, or not a host */
	H1_BAD_LENGTH,      /* Content-Length not a plain number, or more than one */
	H1_LENGTH_AND_CHUNKED,
	H1_BAD_TRANSFER_CODING, /* anything but one "chunked"; 501 */
	H1_BAD_EXPECT,          /* 417 */
	H1_BAD_UPGRADE,         /* a request that upgrades and has a body */
	H1_BAD_CHUNK,           /* size line, extension, missing CRLF, trailer */
	H1_TARGET_TOO_LONG,
	H1_HEAD_TOO_LARGE,
	H1_TOO_MANY_FIELDS,
	H1_REASON_COUNT
};

const char *h1_reason_text(enum h1_reason r);
int h1_reason_status(enum h1_reason r); /* 400 unless said otherwise above */

enum h1_method {
	H1_GET,
	H1_HEAD,
	H1_POST,
	H1_PUT,
	H1_DELETE,
	H1_PATCH,
	H1_OPTIONS,
	H1_OTHER_METHOD, /* any other token but CONNECT and TRACE, which are refused */
};
const char *h1_method_name(enum h1_method m); /* "GET"; for H1_OTHER_METHOD "" */

struct h1_field {
	struct span name;  /* as sent */
	struct span value; /* outer blanks off */
};

/* Facts the framing and the connection depend on, collected while parsing. */
struct h1_head {
	/* request */
	enum h1_method method;
	struct span method_name;
	struct span target; /* as sent; origin-form ("/..."), or "*" with OPTIONS. Absolute-form is
			     * accepted and taken apart: target is then its path and query ("/" if
			     * none; a query without a path is refused) and host its authority
			     * (RFC 9112 3.2.2). */
	struct span path;   /* target up to '?', still percent-encoded */
	struct span query;  /* behind '?', or empty with p == NULL */
	struct span host;   /* "name", "name:port", "[::1]:port"; HTTP/1.0 may have none */
	/* response */
	int status;
	struct span reason;
	/* both */
	int version_minor; /* 0 or 1 */
	bool chunked;
	bool has_length;
	uint64_t length;
	bool keep_alive;        /* what version and Connection say; never after a response whose
				 * body ends with the connection */
	bool upgrade;           /* Connection: upgrade and an Upgrade field; not in HTTP/1.0, and
				 * an offer of "h2c" is ignored as RFC 9113 wants it */
	struct span upgrade_to; /* value of Upgrade */
	bool expect_continue;   /* HTTP/1.1, and a body is to come */
	unsigned n_fields;
	struct h1_field fields[H1_MAX_FIELDS];
};

/* Progress of h1_scan over one growing buffer; start zeroed. */
struct h1_scan {
	size_t seen;       /* bytes already looked at */
	size_t line_start; /* where the current line began */
};

/* Does buf[0..len) hold a whole head? > 0: its length, the empty line included. 0: more is needed.
 * < 0: -enum h1_reason; H1_TARGET_TOO_LONG if max_head bytes did not even end the first line.
 * Leading empty lines before a request line are the caller's to skip (h1_skip_empty_lines); while
 * only those have been seen, *s is still as it started. The result does not depend on how the bytes
 * were split over calls. */
ptrdiff_t h1_scan(struct h1_scan *s, const char *buf, size_t len, const struct h1_limits *limits);

/* RFC 9112 2.2: a server ignores empty lines before a request line. At most two are. */
size_t h1_skip_empty_lines(const char *buf, size_t len);

/* Take a whole head apart (len as h1_scan gave it; other bytes are refused, not misread). H1_OK or
 * the reason; *head is then undefined. */
enum h1_reason h1_parse_request(const char *buf, size_t len, const struct h1_limits *limits,
				struct h1_head *head);
enum h1_reason h1_parse_response(const char *buf, size_t len, const struct h1_limits *limits,
				 struct h1_head *head);

/* The spans of a parsed `head` point into the buffer at `from`; make them point to the same bytes
 * at `to`. */
void h1_head_move(struct h1_head *head, const char *from, const char *to);

/* The first field of that name (any case), or NULL; h1_next for repeated ones. */
const struct h1_field *h1_find(const struct h1_head *head, const char *name);
const struct h1_field *h1_next(const struct h1_head *head, const struct h1_field *after);

/* Is `token` an element of a comma-separated field (all its lines)? Any case. */
bool h1_has_token(const struct h1_head *head, const char *name, const char *token);

/* Fields that belong to one hop (RFC 9110 7.6.1): the fixed set and what Connection names. A sender
 * may name any field there, so a proxy adds its own fields after this sieve, not before. */
bool h1_is_hop_by_hop(const struct h1_head *head, struct span name);

bool h1_is_token(struct span s);       /* RFC 9110 5.6.2, not empty */
bool h1_is_field_value(struct span s); /* no CR, LF, NUL or other control byte but tab */

/* Body framing and decoding. */
enum h1_body_kind { H1_BODY_NONE, H1_BODY_LENGTH, H1_BODY_CHUNKED, H1_BODY_UNTIL_CLOSE };

struct h1_body {
	enum h1_body_kind kind;
	uint64_t left;  /* of the body or of the current chunk */
	unsigned state; /* of the chunk decoder */
	unsigned digits;
	bool done;
};

void h1_body_init_request(struct h1_body *b, const struct h1_head *head);
/* `to_head`: the request was HEAD. 1xx, 204 and 304 have no body either. */
void h1_body_init_response(struct h1_body *b, const struct h1_head *head, bool to_head);

/* Take the next piece of body from in[0..len). Returns the bytes consumed (framing included), or
 * -enum h1_reason. *ret_data is the payload among them, possibly empty. Call again with what is
 * left until b->done or nothing is consumed. Bytes behind a done body are never consumed, and a
 * body once refused stays refused. */
ptrdiff_t h1_body_next(struct h1_body *b, const char *in, size_t len, struct span *ret_data);

/* The peer closed: is the body complete? */
bool h1_body_eof_ok(const struct h1_body *b);

/* Standard words for a status, "Unknown" if there are none. */
const char *h1_status_text(int status);

/* "1a2b\r\n" in front of a chunk; returns its length. The chunk ends in CRLF, the body in
 * "0\r\n\r\n". */
#define H1_CHUNK_HEAD_SIZE 20
size_t h1_chunk_head(char out[H1_CHUNK_HEAD_SIZE], uint64_t size);

#endif
