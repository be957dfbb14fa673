/* One sandbox: look at it, change it, end it. */
#include <string.h>

#include "base/clock.h"
#include "policy/label.h"
#include "server/routes.h"

static void answer_sandbox(struct http_req *r, const struct sandbox *sb)
{
	struct buf out = BUF_INIT(MIB(2));
	struct jw w = JW_INIT(&out);

	sandbox_write(sb, true, &w);
	api_json(r, 200, &out);
}

void route_get(struct http_req *r)
{
	struct sandbox *sb = api_sandbox(r, true);

	if (sb != NULL)
		answer_sandbox(r, sb);
}

/* --- delete, pause, resume: 2xx without a body --- */

static void on_deleted(struct waiter *w, struct sandbox *sb, enum error error, const char *why)
{
	struct http_req *r = api_waited(w);

	(void)sb;
	if (error != E_OK)
		api_error(r, error, "%s", why);
	else
		api_empty(r, 204);
}

void route_delete(struct http_req *r)
{
	struct sandbox *sb = manager_find(&api_server(r)->manager, http_param(r, "id"), false);

	if (sb == NULL)
		(void)api_sandbox(r, false); /* answers 404 */
	else
		manager_delete(sb, api_wait(r, sb, on_deleted));
}

static void on_accepted(struct waiter *w, struct sandbox *sb, enum error error, const char *why)
{
	struct http_req *r = api_waited(w);

	(void)sb;
	if (error != E_OK)
		api_error(r, error, "%s", why);
	else
		api_empty(r, 202);
}

void route_pause(struct http_req *r)
{
	struct sandbox *sb = api_sandbox(r, false);

	if (sb != NULL)
		manager_pause(sb, api_wait(r, sb, on_accepted));
}

void route_resume(struct http_req *r)
{
	struct sandbox *sb = api_sandbox(r, false);

	if (sb != NULL)
		manager_resume(sb, api_wait(r, sb, on_accepted));
}

/* --- renew --- */

static void on_renewed(struct waiter *w, struct sandbox *sb, enum error error, const char *why)
{
	struct http_req *r = api_waited(w);
	struct buf out = BUF_INIT(256);
	struct jw jw = JW_INIT(&out);

	if (error != E_OK) {
		api_error(r, error, "%s", why);
		return;
	}
	jw_object(&jw);
	jw_field_time(&jw, "expiresAt", sb->rec.expires_us);
	jw_end(&jw);
	api_done(r, 200, &out);
}

/* RFC 3339, or Unix seconds as a number or a string of digits. */
static bool read_time(const json_t *v, int64_t *ret_us)
{
	int64_t s;

	if (json_is_integer(v)) {
		s = json_integer_value(v);
	} else if (json_is_string(v)) {
		struct span text = span_str(json_string_value(v));

		if (clock_parse_rfc3339(text, ret_us))
			return true;
		if (!span_i64(text, &s))
			return false;
	} else {
		return false;
	}
	if (s < 0 || s > INT64_C(253402300799)) /* the year 9999 ends */
		return false;
	*ret_us = s * 1000000;
	return true;
}

static void on_renew_body(struct http_req *r, json_t *body)
{
	struct sandbox *sb = api_sandbox(r, false);
	struct refusal rf;
	int64_t at_us;

	if (sb == NULL)
		return;
	if (!json_is_object(body) || request_member(body, "expiresAt") == NULL ||
	    !read_time(request_member(body, "expiresAt"), &at_us)) {
		(void)refuse_at(&rf, "body.expiresAt", "expiresAt must be an RFC 3339 time");
		api_refusal(r, &rf);
		return;
	}
	if (sb->rec.expires_us == 0) {
		api_error(r, E_NO_EXPIRATION, "the sandbox has no expiration to renew");
		return;
	}
	if (at_us <= clock_wall_us()) {
		api_error(r, E_INVALID_EXPIRATION, "expiresAt must be in the future");
		return;
	}
	if (sb->ending != CAUSE_NONE) {
		api_error(r, E_INVALID_STATE, "the sandbox is ending");
		return;
	}
	manager_renew(sb, at_us, api_wait(r, sb, on_renewed));
}

void route_renew(struct http_req *r)
{
	api_read_json(r, false, on_renew_body);
}

/* --- metadata --- */

static void on_patched(struct waiter *w, struct sandbox *sb, enum error error, const char *why)
{
	struct http_req *r = api_waited(w);
	struct buf out = BUF_INIT(MIB(2));
	struct jw jw = JW_INIT(&out);

	if (error != E_OK) {
		api_error(r, error, "%s", why);
		return;
	}
	sandbox_write(sb, true, &jw);
	api_done(r, 200, &out);
}

static bool check_patch(json_t *body, struct refusal *rf)
{
	struct err e = ERR_INIT;
	const char *key;
	json_t *v;

	*rf = (struct refusal){ .error = E_OK };
	if (!json_is_object(body))
		return refuse_at(rf, "body", "must be an object, not %s", json_type_name(body));
	if (!request_strings_only(body, "body", true, rf))
		return false;
	json_object_foreach (body, key, v) {
		struct span value = json_is_string(v) ? span_str(json_string_value(v))
						      : SPAN_LIT("");

		/* also a key that is only to be removed must not be a reserved one */
		if ((json_is_string(v) || label_is_reserved(span_str(key))) &&
		    label_check(span_str(key), value, &e) < 0)
			return refuse(rf, E_INVALID_METADATA, "%s", e.msg);
	}
	return true;
}

static void on_patch_body(struct http_req *r, json_t *body)
{
	struct sandbox *sb = api_sandbox(r, false);
	AUTO(json_decref) json_t *patched = NULL;
	struct refusal rf;
	const char *key;
	json_t *v;
	bool failed;

	if (sb == NULL)
		return;
	if (!check_patch(body, &rf)) {
		api_refusal(r, &rf);
		return;
	}
	patched = json_copy(sb->metadata);
	/* without memory the library copies what it can */
	failed = json_object_size(patched) != json_object_size(sb->metadata);
	json_object_foreach (body, key, v) {
		if (json_is_null(v))
			(void)json_object_del(patched, key);
		else
			failed |= json_object_set(patched, key, v) < 0;
	}
	if (failed || patched == NULL)
		api_error(r, E_INTERNAL, "out of memory");
	else if (json_object_size(body) == 0)
		answer_sandbox(r, sb);
	else
		manager_metadata(sb, patched, api_wait(r, sb, on_patched));
}

void route_metadata(struct http_req *r)
{
	api_read_json(r, false, on_patch_body);
}
