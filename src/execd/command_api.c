#include "execd/command_api.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "execd/api.h"
#include "execd/code_context.h"
#include "execd/env.h"
#include "execd/session.h"

/* --- POST /command --- */

/* The body, taken apart. */
struct question {
	const char *command, *cwd;
	bool background;
	int64_t timeout_ms;
	uint32_t uid, gid;
	bool has_uid, has_gid;
	json_t *envs;
};

static int read_question(const json_t *body, struct question *q, struct err *e)
{
	int r;

	r = json_get_str(body, "command", JSON_ANY_CASE, &q->command, e);
	if (r >= 0)
		r = json_get_str(body, "cwd", JSON_ANY_CASE, &q->cwd, e);
	if (r >= 0)
		r = json_get_bool(body, "background", JSON_ANY_CASE, &q->background, e);
	if (r >= 0)
		r = json_get_i64(body, "timeout", JSON_ANY_CASE, &q->timeout_ms, e);
	if (r >= 0) {
		r = json_get_u32(body, "uid", JSON_ANY_CASE, &q->uid, e);
		q->has_uid = r > 0;
	}
	if (r >= 0) {
		r = json_get_u32(body, "gid", JSON_ANY_CASE, &q->gid, e);
		q->has_gid = r > 0;
	}
	if (r >= 0)
		r = json_get_object(body, "envs", JSON_ANY_CASE, &q->envs, e);
	return r < 0 ? r : 0;
}

/* NULL: nothing wrong. */
static const char *judge(const struct question *q)
{
	if (q->command == NULL || q->command[0] == '\0')
		return "command is required and must not be empty";
	if (q->timeout_ms < 0)
		return "timeout must not be negative";
	if (q->has_gid && !q->has_uid)
		return "uid is required when gid is provided";
	if (q->uid == UINT32_MAX || q->gid == UINT32_MAX)
		return "uid and gid must be below 4294967295";
	return NULL;
}

static int add_envs(struct env *env, json_t *envs, struct err *e)
{
	const char *key;
	json_t *value;

	json_object_foreach (envs, key, value) {
		int r;

		if (json_is_null(value))
			continue;
		if (!json_is_string(value))
			return err_set(e, EINVAL, "envs: '%s' must be a string, not %s", key,
				       json_type_name(value));
		r = env_set(env, span_str(key),
			    span_of(json_string_value(value), json_string_length(value)));
		if (r < 0)
			return err_code(e, r, "envs: '%s'", key);
	}
	return 0;
}

bool command_api_cwd(struct http_req *r, const struct env *env, const char *cwd, char **ret)
{
	autofree char *path = NULL;
	struct err e = ERR_INIT;
	char why[512];
	struct stat st;

	*ret = NULL;
	if (cwd == NULL || cwd[0] == '\0')
		return true;
	if (env_expand_path_in(env, span_str(cwd), &path, &e) == -ENOMEM) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return false;
	}
	if (path == NULL)
		(void)snprintf(why, sizeof(why), "working directory '%.200s': %s", cwd, e.msg);
	else if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		(void)snprintf(why, sizeof(why), "working directory does not exist: %.400s", path);
	else if (stat(path, &st) < 0)
		(void)snprintf(why, sizeof(why), "working directory %.400s cannot be reached",
			       path);
	else if (!S_ISDIR(st.st_mode))
		(void)snprintf(why, sizeof(why), "working directory is not a directory: %.400s",
			       path);
	else
		*ret = TAKE(path);
	if (*ret == NULL)
		api_invalid(r, why);
	return *ret != NULL;
}

static void start(struct http_req *r, const struct question *q, struct env *env)
{
	AUTO(users_free) struct users *users = NULL;
	autofree char *cwd = NULL;
	struct user_ids ids;
	struct command_request request = {
		.text = span_str(q->command),
		.timeout_ms = (uint64_t)q->timeout_ms,
		.background = q->background,
		.env = env,
	};

	if (!command_api_cwd(r, env, q->cwd, &cwd))
		return;
	request.cwd = cwd;
	if (q->has_uid) {
		users = users_load();
		if (users == NULL) {
			api_error(r, 500, API_RUNTIME_ERROR,
				  "error running commands. out of memory");
			return;
		}
		users_ids(users, q->uid, q->has_gid ? &q->gid : NULL, &ids);
		request.ids = &ids;
	}
	if (command_start(execd_of(r), &request, r) < 0)
		api_error(r, 500, API_RUNTIME_ERROR, "error running commands. out of memory");
}

static void run_body(struct http_req *r, struct span body)
{
	AUTO(json_decref) json_t *json = NULL;
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct question q = { 0 };
	struct err e = ERR_INIT;
	const char *wrong;

	if (!api_parse(r, body, false, &json))
		return;
	if (read_question(json, &q, &e) < 0) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		return;
	}
	wrong = judge(&q);
	if (wrong != NULL) {
		api_invalid(r, wrong);
		return;
	}
	env_init(env);
	if (env_for_process(execd_of(r), env, &e) < 0)
		api_errorf(r, 500, API_RUNTIME_ERROR, "error running commands. %s", e.msg);
	else if (q.envs != NULL && add_envs(env, q.envs, &e) < 0)
		api_invalid_err(r, &e);
	else
		start(r, &q, env);
}

void command_run(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, run_body);
}

/* --- DELETE /command?id= --- */

struct waiting {
	struct list link;
	struct http_req *req;
};

static void waiting_over(struct http_req *r)
{
	list_remove(&((struct waiting *)r->user)->link);
}

void command_api_dead(struct command *c)
{
	list_for_each_safe (it, &c->waiting) {
		struct waiting *w = LIST_ENTRY(it, struct waiting, link);

		list_remove(it);
		api_ok(w->req);
	}
}

void command_interrupt(struct http_req *r)
{
	struct execd *x = execd_of(r);
	const char *id = api_need_query(r, "id");
	struct waiting *w;
	struct command *c;

	if (id == NULL)
		return;
	c = command_find(x, span_str(id));
	if (c == NULL && code_context_interrupt(x, span_str(id), r))
		return;
	if (c == NULL && session_end(x, span_str(id))) {
		api_ok(r);
		return;
	}
	if (c == NULL) {
		api_errorf(r, 500, API_RUNTIME_ERROR,
			   "error interrupting code execution. no such session: %s", id);
		return;
	}
	if (!c->running) {
		api_errorf(r, 500, API_RUNTIME_ERROR,
			   "error interrupting code execution. command session %s is not running",
			   id);
		return;
	}
	w = arena_alloc(&r->arena, sizeof(*w));
	if (w == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	w->req = r;
	list_push_back(&c->waiting, &w->link);
	r->user = w;
	r->done = waiting_over;
	run_interrupt(c->run);
}

/* --- GET /command/status/{id} --- */

void command_status(struct http_req *r)
{
	struct span id = http_param(r, "id");
	const struct command *c = command_find(execd_of(r), id);
	struct buf body = BUF_INIT(MIB(32));
	struct jw w = JW_INIT(&body);

	if (c == NULL) {
		api_errorf(r, 404, API_INVALID_BODY, "command not found: %.*s", SPAN_FMT(id));
		return;
	}
	jw_object(&w);
	jw_field_cstr(&w, "id", c->id);
	jw_field_cstr(&w, "content", c->text);
	jw_field_bool(&w, "running", c->running);
	if (!c->running) {
		jw_field_i64(&w, "exit_code", c->exit_code);
		if (c->error[0] != '\0')
			jw_field_cstr(&w, "error", c->error);
		if (c->signal != 0)
			jw_field_i64(&w, "signal", c->signal);
		if (c->timed_out)
			jw_field_bool(&w, "timed_out", true);
		if (c->oom)
			jw_field_bool(&w, "out_of_memory", true);
	}
	jw_field_time(&w, "started_at", c->started_us);
	if (!c->running)
		jw_field_time(&w, "finished_at", c->finished_us);
	jw_end(&w);
	api_json(r, 200, &body);
}

/* --- GET /command/{id}/logs?cursor= --- */

void command_logs(struct http_req *r)
{
	struct span id = http_param(r, "id"), cursor = http_query(r, "cursor", 0);
	struct span follow = http_query(r, "follow", 0);
	struct command *c = command_find(execd_of(r), id);
	int64_t at = 0;

	if (c == NULL) {
		api_errorf(r, 400, API_INVALID_BODY, "command not found: %.*s", SPAN_FMT(id));
	} else if (!c->background) {
		api_errorf(r, 400, API_INVALID_BODY, "command %s is not running in background",
			   c->id);
	} else if (span_i64(cursor, &at) && at < 0) {
		api_error(r, 400, API_INVALID_BODY, "cursor must not be negative");
	} else {
		logbuf_reply(&c->log, r, (uint64_t)at,
			     c->run != NULL && (span_is(follow, "true") || span_is(follow, "1")));
	}
}
