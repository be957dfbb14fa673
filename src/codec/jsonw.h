/* JSON written straight into a buffer, without a tree in between: it carries the output of
 * commands, gigabytes of it.
 *
 *	struct jw w = JW_INIT(&out);
 *	jw_object(&w);
 *	jw_field_cstr(&w, "type", "stdout");
 *	jw_key(&w, "list");
 *	jw_array(&w);
 *	jw_i64(&w, 1);
 *	jw_end(&w);
 *	jw_end(&w);
 *	if (buf_failed(&out)) ...
 *
 * Commas and colons come by themselves. The writer never fails on what it is given: failure to
 * grow is remembered by the buffer. What it writes is always one line: strings may hold any
 * bytes, and control characters, U+0085, U+2028 and U+2029 are escaped, since some clients take
 * the raw ones for line ends. Bytes that are not UTF-8 become U+FFFD, once per maximal subpart. */
#ifndef OSB_CODEC_JSONW_H
#define OSB_CODEC_JSONW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define JW_MAX_DEPTH 63

struct jw {
	struct buf *out;
	uint64_t has_items; /* bit d: the container at depth d has one, so a comma comes next */
	uint64_t is_object; /* bit d: it ends in '}' */
	unsigned depth;
	bool after_key;
};

#define JW_INIT(buffer)         \
	(struct jw)             \
	{                       \
		.out = (buffer) \
	}

void jw_object(struct jw *w);
void jw_array(struct jw *w);
void jw_end(struct jw *w); /* of the innermost object or array */

void jw_key(struct jw *w, const char *key);
void jw_key_span(struct jw *w, struct span key);

void jw_str(struct jw *w, struct span s);
void jw_cstr(struct jw *w, const char *s); /* NULL: null */
void jw_i64(struct jw *w, int64_t v);
void jw_u64(struct jw *w, uint64_t v);
void jw_f64(struct jw *w, double v); /* shortest text that reads back the same; not finite: null */
void jw_bool(struct jw *w, bool v);
void jw_null(struct jw *w);
void jw_time(struct jw *w, int64_t wall_us); /* RFC 3339 in UTC, as a string */
void jw_raw(struct jw *w, struct span json); /* one value that is JSON already */

void jw_field_str(struct jw *w, const char *key, struct span s);
void jw_field_cstr(struct jw *w, const char *key, const char *s);
void jw_field_i64(struct jw *w, const char *key, int64_t v);
void jw_field_u64(struct jw *w, const char *key, uint64_t v);
void jw_field_f64(struct jw *w, const char *key, double v);
void jw_field_bool(struct jw *w, const char *key, bool v);
void jw_field_time(struct jw *w, const char *key, int64_t wall_us);

/* All that was begun is ended, and all of it is in the buffer. */
bool jw_ok(const struct jw *w);

/* Only the inside of a JSON string, without the quotes. */
void jw_escape(struct buf *out, struct span s);

#endif
