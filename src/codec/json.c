#include "codec/json.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

const struct json_limits json_default_limits = {
	.max_bytes = MIB(1),
	.max_depth = 32,
	.max_values = 64 * 1024,
};

/* The library's parser does not survive a failed allocation: its scanner goes on with the part of a
 * token that it could keep and reads past its end; elsewhere it takes it for a syntax error. So it
 * never sees one. While it parses there is a reserve that is sure to hold all it can ask for; what
 * had to be taken from there is thrown away afterwards. */
static _Thread_local struct reserve {
	char *data;
	size_t size, used;
} reserve;

/* A member of an object: its pair, its share of a table that doubles, a container and its first
 * table. A token: a buffer that doubles, a copy, and that of the key. */
#define PER_VALUE 512
#define PER_BYTE  8

static void *allocate(size_t size)
{
	void *p = malloc(size);
	size_t want;

	if (p != NULL || reserve.data == NULL || __builtin_add_overflow(size, 15, &want) ||
	    (want &= ~(size_t)15) > reserve.size - reserve.used)
		return p;
	p = reserve.data + reserve.used;
	reserve.used += want;
	return p;
}

static void release(void *p)
{
	if (reserve.data == NULL || (char *)p < reserve.data ||
	    (char *)p >= reserve.data + reserve.size)
		free(p);
}

/* The library's functions are chosen once, before anybody uses it. */
__attribute__((constructor)) static void set_up(void)
{
	json_set_alloc_funcs(allocate, release);
}

static int load(const char *text, size_t len, size_t flags, unsigned values, json_t **ret,
		json_error_t *why)
{
	json_t *v;
	void *at;
	int r = 0;

	reserve.size = 4096 + (size_t)values * PER_VALUE + len * PER_BYTE;
	reserve.used = 0;
	/* a mapping: as long as it is not needed, none of it is there */
	at = mmap(NULL, reserve.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return -ENOMEM;
	reserve.data = at;
	v = json_loadb(text, len, flags, why);
	if (reserve.used > 0) {
		json_decref(v);
		v = NULL;
		r = -ENOMEM;
	}
	(void)munmap(at, reserve.size);
	reserve.data = NULL;
	*ret = v;
	return r;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static struct span skip_blank(struct span s)
{
	while (s.len > 0 && is_blank(s.p[0]))
		s = span_skip(s, 1);
	return s;
}

/* Where the string that begins at s.p[at] ends (behind its quote), or s.len. */
static size_t skip_string(struct span s, size_t at)
{
	for (at++; at < s.len && s.p[at] != '"'; at++)
		if (s.p[at] == '\\')
			at++;
	return MIN(at + 1, s.len);
}

/* Walk over the first value counting levels and values, without judging the grammar: the parser
 * does that, and it stops at the first error, which is never behind where the two disagree.
 * *ret_len is where an object or array ends; a scalar reaches to the end of the text. */
static int measure(struct span s, const struct json_limits *limits, size_t *ret_len,
		   unsigned *ret_values, struct err *e)
{
	unsigned depth = 0, values = 1;
	bool opened = false; /* a container just began: unless it ends now, it has a value */
	size_t at = 0;

	if (s.p[0] != '{' && s.p[0] != '[') {
		*ret_len = s.len;
		*ret_values = values;
		return 0;
	}
	while (at < s.len) {
		char c = s.p[at];

		if (opened && !is_blank(c)) {
			opened = false;
			values += c != '}' && c != ']';
		}
		switch (c) {
		case '"':
			at = skip_string(s, at);
			continue;
		case '{':
		case '[':
			if (++depth > limits->max_depth)
				return err_set(e, EMSGSIZE, "JSON nested deeper than %u levels",
					       limits->max_depth);
			opened = true;
			break;
		case ',':
			values++;
			break;
		case '}':
		case ']':
			depth--;
			break;
		default:
			break;
		}
		if (values > limits->max_values)
			return err_set(e, EMSGSIZE, "JSON has more than %u values",
				       limits->max_values);
		at++;
		if (depth == 0)
			break;
	}
	*ret_len = at;
	*ret_values = values;
	return 0;
}

int json_parse(struct span text, const struct json_limits *limits, json_t **ret, struct err *e)
{
	json_error_t why;
	size_t flags = JSON_DECODE_ANY, len = 0;
	struct span value, rest;
	unsigned values = 0;
	json_t *v = NULL;
	int r;

	if (text.len > limits->max_bytes)
		return err_set(e, EMSGSIZE, "JSON longer than %zu bytes", limits->max_bytes);
	value = skip_blank(text);
	if (value.len == 0)
		return err_set(e, ENODATA, "no JSON, the text is empty");
	r = measure(value, limits, &len, &values, e);
	if (r < 0)
		return r;
	rest = skip_blank(span_skip(value, len));
	if (rest.len > 0 && !limits->first_only)
		return err_set(e, EINVAL, "bytes behind the JSON value, at offset %zu",
			       (size_t)(rest.p - text.p));
	if (limits->first_only)
		flags |= JSON_DISABLE_EOF_CHECK; /* matters for scalars */
	if (limits->allow_nul)
		flags |= JSON_ALLOW_NUL;
	/* blanks in front stay in, for the sake of line numbers */
	if (load(text.p, (size_t)(value.p - text.p) + len, flags, values, &v, &why) < 0)
		return err_code(e, ENOMEM, "read JSON");
	if (v == NULL)
		return err_set(e, EINVAL, "not JSON: line %d, column %d: %s", why.line, why.column,
			       why.text);
	*ret = v;
	return 0;
}

/* ---- writing ---- */

void json_write(struct jw *w, const json_t *v)
{
	const char *key;
	json_t *item;
	size_t i;

	if (w->depth == JW_MAX_DEPTH && (json_is_object(v) || json_is_array(v))) {
		w->out->failed = true; /* only a tree that we built ourselves can be that deep */
		return;
	}
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		jw_object(w);
		/* the macro wants a pointer it could change; it does not */
		json_object_foreach ((json_t *)(uintptr_t)v, key, item) {
			jw_key(w, key);
			json_write(w, item);
		}
		jw_end(w);
		break;
	case JSON_ARRAY:
		jw_array(w);
		json_array_foreach (v, i, item)
			json_write(w, item);
		jw_end(w);
		break;
	case JSON_STRING:
		jw_str(w, span_of(json_string_value(v), json_string_length(v)));
		break;
	case JSON_INTEGER:
		jw_i64(w, json_integer_value(v));
		break;
	case JSON_REAL:
		jw_f64(w, json_real_value(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		jw_bool(w, json_is_true(v));
		break;
	case JSON_NULL:
		jw_null(w);
		break;
	}
}

int json_encode(const json_t *v, struct buf *out)
{
	struct jw w = JW_INIT(out);

	json_write(&w, v);
	return out->starved ? -ENOMEM : buf_failed(out) ? -EMSGSIZE : 0;
}

const char *json_type_name(const json_t *v)
{
	if (v == NULL)
		return "nothing";
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a real number";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		return "null";
	}
	return "nothing";
}

/* ---- fields ---- */

json_t *json_get_ci(const json_t *obj, const char *key)
{
	json_t *exact = json_object_get(obj, key), *found = NULL, *item;
	const char *name;

	if (exact != NULL || !json_is_object(obj))
		return exact;
	json_object_foreach ((json_t *)(uintptr_t)obj, name, item)
		if (span_caseis(span_str(name), key))
			found = item;
	return found;
}

/* 1 and *ret_v, or 0, or an error when it must be there. */
static int find(const json_t *obj, const char *key, unsigned need, json_t **ret_v, struct err *e)
{
	json_t *v = (need & JSON_ANY_CASE) != 0 ? json_get_ci(obj, key) : json_object_get(obj, key);

	if (v == NULL || json_is_null(v)) {
		if ((need & JSON_MUST) != 0)
			return err_set(e, EINVAL, "field '%s' is required", key);
		return 0;
	}
	*ret_v = v;
	return 1;
}

static int wrong_type(struct err *e, const char *key, const char *expected, const json_t *v)
{
	return err_set(e, EINVAL, "field '%s' must be %s, not %s", key, expected,
		       json_type_name(v));
}

int json_get_span(const json_t *obj, const char *key, unsigned need, struct span *ret,
		  struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_string(v))
		return wrong_type(e, key, "a string", v);
	*ret = span_of(json_string_value(v), json_string_length(v));
	return 1;
}

int json_get_str(const json_t *obj, const char *key, unsigned need, const char **ret, struct err *e)
{
	struct span s = { NULL, 0 };
	int r = json_get_span(obj, key, need, &s, e);

	if (r <= 0)
		return r;
	if (span_find(s, '\0') >= 0)
		return err_set(e, EINVAL, "field '%s' must not contain a NUL character", key);
	*ret = s.p;
	return 1;
}

int json_get_i64(const json_t *obj, const char *key, unsigned need, int64_t *ret, struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_integer(v))
		return wrong_type(e, key, "an integer", v);
	*ret = json_integer_value(v);
	return 1;
}

int json_get_u32(const json_t *obj, const char *key, unsigned need, uint32_t *ret, struct err *e)
{
	int64_t v = 0;
	int r = json_get_i64(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (v < 0 || v > UINT32_MAX)
		return err_set(e, EINVAL, "field '%s' must be between 0 and %u", key, UINT32_MAX);
	*ret = (uint32_t)v;
	return 1;
}

int json_get_f64(const json_t *obj, const char *key, unsigned need, double *ret, struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_number(v))
		return wrong_type(e, key, "a number", v);
	*ret = json_number_value(v);
	return 1;
}

int json_get_bool(const json_t *obj, const char *key, unsigned need, bool *ret, struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_boolean(v))
		return wrong_type(e, key, "a boolean", v);
	*ret = json_is_true(v);
	return 1;
}

int json_get_object(const json_t *obj, const char *key, unsigned need, json_t **ret, struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_object(v))
		return wrong_type(e, key, "an object", v);
	*ret = v;
	return 1;
}

int json_get_array(const json_t *obj, const char *key, unsigned need, json_t **ret, struct err *e)
{
	json_t *v = NULL;
	int r = find(obj, key, need, &v, e);

	if (r <= 0)
		return r;
	if (!json_is_array(v))
		return wrong_type(e, key, "an array", v);
	*ret = v;
	return 1;
}

int json_need_object(const json_t *v, struct err *e)
{
	if (json_is_object(v))
		return 0;
	return err_set(e, EINVAL, "an object is expected, not %s", json_type_name(v));
}

int json_need_array(const json_t *v, struct err *e)
{
	if (json_is_array(v))
		return 0;
	return err_set(e, EINVAL, "an array is expected, not %s", json_type_name(v));
}
