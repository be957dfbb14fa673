/* JSON trees: the one door to jansson. To write an answer use jsonw.h, which needs no tree.
 *
 * Size, depth and number of values are checked on the text, before anything is built: what a small
 * hostile body can make us allocate is bounded by the limits and by nothing else. */
#ifndef OSB_CODEC_JSON_H
#define OSB_CODEC_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "base/util.h"
#include "codec/jsonw.h"

struct json_limits {
	size_t max_bytes;
	unsigned max_depth;  /* 0: scalars only, 1: a flat object; at most JW_MAX_DEPTH */
	unsigned max_values; /* of any kind, keys not counted */
	bool first_only;     /* what follows the first value is ignored, not refused */
	bool allow_nul;      /* \u0000 in strings; never in keys */
};

extern const struct json_limits json_default_limits; /* 1 MiB, 32, 64 Ki, whole text, no NUL */

/* AUTO(json_decref) json_t *v = NULL; */
AUTO_DEFINE(json_decref, json_t)

/* A new tree; the caller owns *ret. The last of several equal keys wins. -ENODATA: there is nothing
 * but blanks; -EMSGSIZE: too many bytes, levels or values; -EINVAL: not JSON. */
int json_parse(struct span text, const struct json_limits *limits, json_t **ret, struct err *e);

/* Compact text. Same rules for strings as jsonw.h: always one line. */
void json_write(struct jw *w, const json_t *v);
int json_encode(const json_t *v, struct buf *out); /* 0, or -EMSGSIZE / -ENOMEM */

const char *json_type_name(const json_t *v); /* "an object", "a string", ... */

/* Fields of an object. 1: there, *ret is set. 0: absent or null, *ret stays as it was. -EINVAL: not
 * that type, out of range, or missing though JSON_MUST; the words name field and type. Pointers
 * live as long as the object. */
enum json_need {
	JSON_MAY = 0,
	JSON_MUST = 1 << 0,
	JSON_ANY_CASE = 1 << 1, /* the key in any case (ASCII); an exact one is preferred */
};

int json_get_str(const json_t *obj, const char *key, unsigned need, const char **ret,
		 struct err *e); /* without NUL inside */
int json_get_span(const json_t *obj, const char *key, unsigned need, struct span *ret,
		  struct err *e);
/* Integers must be written as integers: 30.0 and 3e1 are refused. */
int json_get_i64(const json_t *obj, const char *key, unsigned need, int64_t *ret, struct err *e);
int json_get_u32(const json_t *obj, const char *key, unsigned need, uint32_t *ret, struct err *e);
int json_get_f64(const json_t *obj, const char *key, unsigned need, double *ret, struct err *e);
int json_get_bool(const json_t *obj, const char *key, unsigned need, bool *ret, struct err *e);
int json_get_object(const json_t *obj, const char *key, unsigned need, json_t **ret, struct err *e);
int json_get_array(const json_t *obj, const char *key, unsigned need, json_t **ret, struct err *e);

/* The value whatever its type, or NULL. The last one if several keys differ in case only. */
json_t *json_get_ci(const json_t *obj, const char *key);

/* For the root: it must be an object / an array. */
int json_need_object(const json_t *v, struct err *e);
int json_need_array(const json_t *v, struct err *e);

#endif
