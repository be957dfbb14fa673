/* POST .../run, in the execd inside a session: the code runs in a shell session of that execd,
 * which is made with the first run and keeps directory and variables from one to the next. */
#include <string.h>

#include "execd/api.h"
#include "execd/isolated.h"
#include "execd/session.h"

#define DEFAULT_TIMEOUT_S 300

static bool is_identifier(const char *s)
{
	if (s[0] == '\0' || (s[0] >= '0' && s[0] <= '9'))
		return false;
	for (; *s != '\0'; s++)
		if (!(*s >= 'a' && *s <= 'z') && !(*s >= 'A' && *s <= 'Z') &&
		    !(*s >= '0' && *s <= '9') && *s != '_')
			return false;
	return true;
}

/* export NAME='value', with quotes that hold whatever the value is */
static int add_exports(struct buf *out, json_t *envs, struct err *e)
{
	const char *key;
	json_t *v;

	json_object_foreach (envs, key, v) {
		if (!is_identifier(key) || !json_is_string(v) ||
		    strlen(json_string_value(v)) != json_string_length(v))
			return err_set(e, EINVAL, "envs: '%s' cannot be set", key);
		(void)buf_printf(out, "export %s='", key);
		for (const char *s = json_string_value(v); *s != '\0'; s++) {
			if (*s == '\'')
				(void)buf_add_str(out, "'\\''");
			else
				(void)buf_add_char(out, *s);
		}
		(void)buf_add_str(out, "'\n");
	}
	return 0;
}

static int compose(const json_t *body, struct buf *out, uint64_t *ret_timeout_ms, struct err *e)
{
	int64_t timeout_s = DEFAULT_TIMEOUT_S;
	const char *code = NULL;
	bool background = false;
	json_t *envs = NULL;
	int r;

	r = json_get_str(body, "code", JSON_MUST, &code, e);
	if (r >= 0)
		r = json_get_bool(body, "background", JSON_MAY, &background, e);
	if (r >= 0)
		r = json_get_i64(body, "timeout_seconds", JSON_MAY, &timeout_s, e);
	if (r >= 0)
		r = json_get_object(body, "envs", JSON_MAY, &envs, e);
	if (r >= 0)
		r = add_exports(out, envs, e);
	if (r < 0)
		return r;
	if (code[0] == '\0')
		return err_set(e, EINVAL, "code must not be empty");
	if (background) /* such a client would wait for an id and get a stream */
		return err_set(e, EINVAL, "background runs are not offered in isolated sessions");
	if (timeout_s < 0 || timeout_s > INT32_MAX)
		return err_set(e, EINVAL, "timeout_seconds is out of range");
	(void)buf_add_str(out, code);
	*ret_timeout_ms = (uint64_t)timeout_s * 1000;
	if (out->starved)
		return err_code(e, ENOMEM, "code");
	return buf_failed(out) ? err_set(e, EMSGSIZE, "the code is too long") : 0;
}

static struct session *the_session(struct execd *x, struct err *e)
{
	static char id[RAND_UUID_SIZE]; /* one session is one process: this one */
	struct session *s = id[0] != '\0' ? session_find(x, span_str(id)) : NULL;
	autofree char *cwd = NULL;

	if (s != NULL)
		return s;
	if (env_expand_path(x, SPAN_LIT("."), &cwd, e) < 0 || session_new(x, cwd, id, e) < 0)
		return NULL;
	return session_find(x, span_str(id));
}

static void run_body(struct http_req *r, struct span body)
{
	AUTO(buf_free) struct buf *command = &BUF_INIT(API_MAX_BODY * 2);
	AUTO(json_decref) json_t *v = NULL;
	struct err e = ERR_INIT;
	struct session *s;
	uint64_t timeout_ms = 0;

	if (!api_parse(r, body, false, &v))
		return;
	if (compose(v, command, &timeout_ms, &e) < 0) {
		api_invalid_err(r, &e);
		return;
	}
	s = the_session(execd_of(r), &e);
	if (s == NULL)
		api_errorf(r, 500, API_RUNTIME_ERROR, "error running in session. %s", e.msg);
	else
		session_start(s, r, buf_cstr(command), NULL, timeout_ms);
}

void isolated_inside_run(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, run_body);
}
