#include "server/request.h"

#include <stdio.h>
#include <string.h>

bool refuse(struct refusal *rf, enum error error, const char *fmt, ...)
{
	va_list ap;

	rf->error = error;
	rf->where[0] = '\0';
	va_start(ap, fmt);
	(void)vsnprintf(rf->why, sizeof(rf->why), fmt, ap);
	va_end(ap);
	return false;
}

bool refuse_at(struct refusal *rf, const char *where, const char *fmt, ...)
{
	va_list ap;

	rf->error = E_INVALID_REQUEST;
	(void)snprintf(rf->where, sizeof(rf->where), "%s", where);
	va_start(ap, fmt);
	(void)vsnprintf(rf->why, sizeof(rf->why), fmt, ap);
	va_end(ap);
	return false;
}

static bool refuse_type(struct refusal *rf, const char *where, const char *name, const json_t *v,
			const char *want)
{
	char place[96];

	(void)snprintf(place, sizeof(place), "%s.%s", where, name);
	return refuse_at(rf, place, "%s must be %s, not %s", name, want, json_type_name(v));
}

json_t *request_member(const json_t *obj, const char *camel)
{
	char snake[64];
	size_t n = 0;
	json_t *v = json_object_get(obj, camel);

	if (v == NULL) {
		for (const char *p = camel; *p != '\0' && n + 2 < sizeof(snake); p++) {
			if (*p >= 'A' && *p <= 'Z') {
				snake[n++] = '_';
				snake[n++] = (char)(*p - 'A' + 'a');
			} else {
				snake[n++] = *p;
			}
		}
		snake[n] = '\0';
		v = json_object_get(obj, snake);
	}
	return v == NULL || json_is_null(v) ? NULL : v;
}

bool request_string(const json_t *obj, const char *where, const char *name, const char **ret,
		    struct refusal *rf)
{
	json_t *v = request_member(obj, name);

	if (v == NULL)
		return true;
	if (!json_is_string(v))
		return refuse_type(rf, where, name, v, "a string");
	*ret = json_string_value(v);
	return true;
}

bool request_bool(const json_t *obj, const char *where, const char *name, bool *ret,
		  struct refusal *rf)
{
	json_t *v = request_member(obj, name);

	if (v == NULL)
		return true;
	if (!json_is_boolean(v))
		return refuse_type(rf, where, name, v, "true or false");
	*ret = json_is_true(v);
	return true;
}

bool request_object(const json_t *obj, const char *where, const char *name, json_t **ret,
		    struct refusal *rf)
{
	json_t *v = request_member(obj, name);

	if (v == NULL)
		return true;
	if (!json_is_object(v))
		return refuse_type(rf, where, name, v, "an object");
	*ret = v;
	return true;
}

bool request_array(const json_t *obj, const char *where, const char *name, json_t **ret,
		   struct refusal *rf)
{
	json_t *v = request_member(obj, name);

	if (v == NULL)
		return true;
	if (!json_is_array(v))
		return refuse_type(rf, where, name, v, "an array");
	*ret = v;
	return true;
}

bool request_integer(const json_t *obj, const char *where, const char *name, int64_t min,
		     int64_t max, int64_t *ret, struct refusal *rf)
{
	json_t *v = request_member(obj, name);
	char place[96];
	int64_t n = 0;
	bool ok = false;

	if (v == NULL)
		return true;
	if (json_is_integer(v)) {
		n = json_integer_value(v);
		ok = n >= min && n <= max;
	} else if (json_is_string(v)) {
		ok = request_number(span_str(json_string_value(v)), min, max, &n);
	}
	if (!ok) {
		(void)snprintf(place, sizeof(place), "%s.%s", where, name);
		return refuse_at(rf, place, "%s must be a whole number of at least %lld", name,
				 (long long)min);
	}
	*ret = n;
	return true;
}

bool request_strings_only(const json_t *map, const char *where, bool nulls, struct refusal *rf)
{
	const char *key;
	json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)map, key, v) {
		char place[96];

		if (json_is_string(v) || (nulls && json_is_null(v)))
			continue;
		(void)snprintf(place, sizeof(place), "%s.%.48s", where, key);
		return refuse_at(rf, place, "must be a string, not %s", json_type_name(v));
	}
	return true;
}

bool request_flag(struct span text, bool *ret)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "true", true }, { "1", true },    { "yes", true },    { "on", true },
		{ "t", true },    { "y", true },    { "false", false }, { "0", false },
		{ "no", false },  { "off", false }, { "f", false },     { "n", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (span_caseis(text, words[i].word)) {
			*ret = words[i].value;
			return true;
		}
	}
	return false;
}

bool request_number(struct span text, int64_t min, int64_t max, int64_t *ret)
{
	struct span s = span_trim(text);
	int64_t n;

	if (span_ends(s, ".0"))
		s = span_first(s, s.len - 2);
	if (span_starts(s, "+"))
		s = span_skip(s, 1);
	if (!span_i64(s, &n) || n < min || n > max)
		return false;
	*ret = n;
	return true;
}
