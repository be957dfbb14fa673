/* The routes of sessions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execd/api.h"
#include "execd/command_api.h"
#include "execd/env.h"
#include "execd/mkdirs.h"
#include "execd/session.h"

/* --- POST /session --- */

static void create_body(struct http_req *r, struct span body)
{
	AUTO(json_decref) json_t *json = NULL;
	autofree char *cwd = NULL;
	const char *asked = NULL;
	char id[RAND_UUID_SIZE];
	struct err e = ERR_INIT;
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	if (!api_parse(r, body, true, &json))
		return;
	if (json != NULL && json_get_str(json, "cwd", JSON_ANY_CASE, &asked, &e) < 0) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		return;
	}
	if (env_expand_path(execd_of(r), span_str(asked), &cwd, &e) < 0 ||
	    mkdirs(cwd, 0777, NULL, &e) < 0 || session_new(execd_of(r), cwd, id, &e) < 0) {
		api_errorf(r, 500, API_RUNTIME_ERROR, "error creating session. %s", e.msg);
		return;
	}
	jw_object(&w);
	jw_field_cstr(&w, "session_id", id);
	jw_end(&w);
	api_json(r, 200, &out);
}

void session_create(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, create_body);
}

/* --- POST /session/{sessionId}/run --- */

static void run_body(struct http_req *r, struct span body)
{
	AUTO(json_decref) json_t *json = NULL;
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	autofree char *dir = NULL;
	const char *command = NULL, *cwd = NULL;
	int64_t timeout_ms = 0;
	struct err e = ERR_INIT;
	struct session *s;

	if (!api_parse(r, body, false, &json))
		return;
	if (json_get_str(json, "command", JSON_ANY_CASE, &command, &e) < 0 ||
	    json_get_str(json, "cwd", JSON_ANY_CASE, &cwd, &e) < 0 ||
	    json_get_i64(json, "timeout", JSON_ANY_CASE, &timeout_ms, &e) < 0) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		return;
	}
	if (command == NULL || command[0] == '\0') {
		api_invalid(r, "command is required and must not be empty");
		return;
	}
	if (timeout_ms < 0) {
		api_invalid(r, "timeout must not be negative");
		return;
	}
	env_init(env);
	(void)env_for_process(execd_of(r), env, NULL);
	if (!command_api_cwd(r, env, cwd, &dir))
		return;
	s = session_find(execd_of(r), http_param(r, "sessionId"));
	if (s == NULL)
		api_errorf(r, 500, API_RUNTIME_ERROR,
			   "error running in session. context not found: session %.*s not found",
			   SPAN_FMT(http_param(r, "sessionId")));
	else
		session_start(s, r, command, dir, (uint64_t)timeout_ms);
}

void session_run(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, run_body);
}

/* --- DELETE /session/{sessionId} --- */

void session_delete(struct http_req *r)
{
	struct span id = http_param(r, "sessionId");

	if (session_end(execd_of(r), id))
		api_ok(r);
	else
		api_errorf(r, 404, API_CONTEXT_NOT_FOUND, "session %.*s not found", SPAN_FMT(id));
}
