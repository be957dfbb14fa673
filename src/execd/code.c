/* The routes of the code interpreter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "execd/api.h"
#include "execd/code_context.h"
#include "execd/code_jupyter.h"
#include "execd/command.h"
#include "execd/env.h"
#include "execd/mkdirs.h"

static const struct code_language *find_language(struct http_req *r, struct span name)
{
	return code_jupyter_or_ours(execd_of(r), name);
}

/* --- POST /code --- */

/* "command" is what runs without a language are; they and the background ones go the way of
 * POST /command. */
static bool is_command(struct span language)
{
	return language.len == 0 || span_is(language, "command") ||
	       span_is(language, "background-command");
}

static void run_command(struct http_req *r, struct span language, struct span code)
{
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct command_request q = {
		.text = code,
		.env = env,
		.background = span_is(language, "background-command"),
	};
	struct err e = ERR_INIT;

	env_init(env);
	if (memchr(code.p, '\0', code.len) != NULL)
		api_invalid(r, "a command cannot contain a NUL character");
	else if (env_for_process(execd_of(r), env, &e) < 0)
		api_errorf(r, 500, API_RUNTIME_ERROR, "error running codes. %s", e.msg);
	else if (command_start(execd_of(r), &q, r) < 0)
		api_error(r, 500, API_RUNTIME_ERROR, "error running codes. out of memory");
}

static void unknown_language(struct http_req *r, const char *doing, struct span language)
{
	api_errorf(r, 500, API_RUNTIME_ERROR, "error %s. unknown language: %.*s", doing,
		   (int)MIN(language.len, (size_t)64), language.p);
}

/* The directory that contexts without one of their own start in: execd's. */
static int default_cwd(struct execd *x, char **ret, struct err *e)
{
	return env_expand_path(x, span_of("", 0), ret, e);
}

static void run_default(struct http_req *r, const struct code_language *lang, struct span code)
{
	struct execd *x = execd_of(r);
	struct code_context *c = code_context_default(x, lang);
	autofree char *cwd = NULL;
	struct err e = ERR_INIT;

	if (c == NULL &&
	    (default_cwd(x, &cwd, &e) < 0 || code_context_new(x, lang, cwd, true, &c, &e) < 0))
		api_errorf(r, 500, API_RUNTIME_ERROR, "error running codes. %s", e.msg);
	else
		code_context_run(c, r, code);
}

/* With an id the language is only checked, not compared: the context has its own. */
static void run(struct http_req *r, struct span id, struct span language, struct span code)
{
	const struct code_language *lang = is_command(language) ? NULL : find_language(r, language);
	struct code_context *c;

	if (lang == NULL && !is_command(language)) {
		unknown_language(r, "running codes", language);
	} else if (id.len > 0) {
		c = code_context_find(execd_of(r), id);
		if (c != NULL)
			code_context_run(c, r, code);
		else
			api_errorf(r, 500, API_RUNTIME_ERROR,
				   "error running codes. context not found: %.*s",
				   (int)MIN(id.len, (size_t)64), id.p);
	} else if (lang != NULL) {
		run_default(r, lang, code);
	} else {
		run_command(r, language, code);
	}
}

static void run_body(struct http_req *r, struct span body)
{
	AUTO(json_decref) json_t *json = NULL;
	struct span code = { NULL, 0 }, id = { NULL, 0 }, language = { NULL, 0 };
	json_t *context = NULL;
	struct err e = ERR_INIT;

	if (!api_parse(r, body, false, &json))
		return;
	if (json_get_span(json, "code", JSON_ANY_CASE, &code, &e) < 0 ||
	    json_get_object(json, "context", JSON_ANY_CASE, &context, &e) < 0 ||
	    (context != NULL &&
	     (json_get_span(context, "id", JSON_ANY_CASE, &id, &e) < 0 ||
	      json_get_span(context, "language", JSON_ANY_CASE, &language, &e) < 0))) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		return;
	}
	if (code.len == 0) {
		api_invalid(r, "code is required and must not be empty");
		return;
	}
	run(r, id, language, code);
}

void code_run(struct http_req *r)
{
	http_read_body(r, API_MAX_CODE, run_body);
}

/* --- POST /code/context --- */

static void create(struct http_req *r, const struct code_language *lang, const char *cwd)
{
	struct execd *x = execd_of(r);
	autofree char *path = NULL;
	struct code_context *c;
	struct err e = ERR_INIT;

	if (env_expand_path(x, span_str(cwd), &path, &e) < 0 || mkdirs(path, 0777, NULL, &e) < 0 ||
	    code_context_new(x, lang, path, false, &c, &e) < 0)
		api_errorf(r, 500, API_RUNTIME_ERROR, "error creating code context. %s", e.msg);
	else
		code_context_answer(c, r);
}

static void create_body(struct http_req *r, struct span body)
{
	AUTO(json_decref) json_t *json = NULL;
	const struct code_language *lang;
	struct span language = { NULL, 0 };
	const char *cwd = "";
	struct err e = ERR_INIT;

	if (!api_parse(r, body, false, &json))
		return;
	if (json_get_span(json, "language", JSON_ANY_CASE, &language, &e) < 0 ||
	    json_get_str(json, "cwd", JSON_ANY_CASE, &cwd, &e) < 0) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		return;
	}
	lang = find_language(r, language);
	if (language.len == 0)
		api_invalid(r, "language is required");
	else if (lang == NULL)
		unknown_language(r, "creating code context", language);
	else
		create(r, lang, cwd);
}

void code_context_create(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, create_body);
}

/* --- contexts --- */

void code_contexts_list(struct http_req *r)
{
	struct span language = http_query(r, "language", 0);
	const struct code_language *lang = find_language(r, language);
	struct buf body = BUF_INIT(MIB(4));
	struct jw w = JW_INIT(&body);

	if (language.len > 0 && lang == NULL) {
		unknown_language(r, "listing code contexts", language);
		return;
	}
	jw_array(&w);
	list_for_each (it, &execd_of(r)->code->contexts) {
		const struct code_context *c = LIST_ENTRY(it, struct code_context, link);

		if (lang == NULL || c->lang == lang)
			code_context_write(&w, c);
	}
	jw_end(&w);
	api_json(r, 200, &body);
}

void code_contexts_delete(struct http_req *r)
{
	const char *language = api_need_query(r, "language");
	const struct code_language *lang;

	if (language == NULL)
		return;
	lang = find_language(r, span_str(language));
	if (lang == NULL) {
		unknown_language(r, "deleting code contexts", span_str(language));
		return;
	}
	list_for_each_safe (it, &execd_of(r)->code->contexts) {
		struct code_context *c = LIST_ENTRY(it, struct code_context, link);

		if (c->lang == lang)
			code_context_end(c);
	}
	api_ok(r);
}

/* NULL: answered. */
static struct code_context *find(struct http_req *r)
{
	struct span id = http_param(r, "contextId");
	struct code_context *c = code_context_find(execd_of(r), id);

	if (c == NULL)
		api_errorf(r, 404, API_CONTEXT_NOT_FOUND, "context %.*s not found",
			   (int)MIN(id.len, (size_t)64), id.p);
	return c;
}

void code_context_get(struct http_req *r)
{
	const struct code_context *c = find(r);
	struct buf body = BUF_INIT(KIB(64));
	struct jw w = JW_INIT(&body);

	if (c == NULL)
		return;
	code_context_write(&w, c);
	api_json(r, 200, &body);
}

void code_context_delete(struct http_req *r)
{
	struct code_context *c = find(r);

	if (c == NULL)
		return;
	code_context_end(c);
	api_ok(r);
}
