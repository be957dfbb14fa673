/* Parameters of a header value: `form-data; name="a b"; filename=c.txt;
 * filename*=utf-8''%e2%82%ac`. Pure, no allocation. Written values are never longer than their
 * source, so that a caller may decode into a buffer as large as the header. */
#ifndef OSB_CODEC_PARAM_H
#define OSB_CODEC_PARAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

struct param {
	struct span name; /* as sent, a trailing '*' included */
	struct span raw;  /* the value between quotes, or the bare one */
	bool quoted;
};

/* The part before the first ';', blanks off (a media type, a disposition); *rest is what follows,
 * for param_next(). */
struct span param_first(struct span value, struct span *rest);

/* > 0: *ret is the next parameter, *rest what follows it. 0: there is none. < 0: malformed. An
 * empty one (";;", a ';' at the end) is passed over. Bytes from 0x80 up are accepted in bare values
 * too. */
int param_next(struct span *rest, struct param *ret);

/* The value itself. In quotes, a backslash protects a quote or a backslash and is an ordinary byte
 * otherwise: browsers send Windows paths unprotected. Returns its length, which is at most raw.len;
 * `out` holds that much. */
size_t param_value(const struct param *p, char *out);

/* The value of a parameter whose name ends in '*' (RFC 8187): charset'language'percent-encoded,
 * where the charset must be UTF-8. Length, or -1 if it is malformed, not UTF-8, or contains a NUL.
 */
ptrdiff_t param_ext_value(const struct param *p, char *out);

#endif
