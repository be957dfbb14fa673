#include "execd/api.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/rand.h"

#define TOKEN_FIELD "X-EXECD-ACCESS-TOKEN"

static const struct http_route routes[] = {
	{ H1_GET, "/ping", ping_get, .doc = "health" },

	{ H1_POST, "/command", command_run, .doc = "run a shell command" },
	{ H1_DELETE, "/command", command_interrupt, .doc = "end a command or a session" },
	{ H1_GET, "/command/status/{id}", command_status, .doc = "how a command is doing" },
	{ H1_GET, "/command/{id}/logs", command_logs, .doc = "output of a background command" },

	{ H1_POST, "/session", session_create, .doc = "make a shell session" },
	{ H1_POST, "/session/{sessionId}/run", session_run, .doc = "run a command in a session" },
	{ H1_DELETE, "/session/{sessionId}", session_delete, .doc = "end a session" },

	{ H1_POST, "/code", code_run, .doc = "run code in a context" },
	{ H1_DELETE, "/code", command_interrupt, .doc = "interrupt a context or a command" },
	{ H1_POST, "/code/context", code_context_create, .doc = "make a context" },
	{ H1_GET, "/code/contexts", code_contexts_list, .doc = "list contexts" },
	{ H1_DELETE, "/code/contexts", code_contexts_delete,
	  .doc = "delete a language's contexts" },
	{ H1_GET, "/code/contexts/{contextId}", code_context_get, .doc = "look at a context" },
	{ H1_DELETE, "/code/contexts/{contextId}", code_context_delete, .doc = "delete a context" },

	{ H1_GET, "/files/info", files_info, .doc = "what files are" },
	{ H1_DELETE, "/files", files_delete, .doc = "delete files" },
	{ H1_POST, "/files/permissions", files_permissions, .doc = "change mode and owner" },
	{ H1_POST, "/files/mv", files_mv, .doc = "move or rename" },
	{ H1_POST, "/files/replace", files_replace, .doc = "replace text in files" },
	{ H1_GET, "/files/search", files_search, .doc = "find files by name" },
	{ H1_POST, "/files/upload", files_upload, .doc = "write files" },
	{ H1_GET, "/files/download", files_download, .doc = "read a file" },
	{ H1_GET, "/directories/list", directories_list, .doc = "list a directory" },
	{ H1_POST, "/directories", directories_make, .doc = "make directories" },
	{ H1_DELETE, "/directories", directories_delete, .doc = "delete directories" },

	{ H1_GET, "/metrics", metrics_get, .doc = "CPU and memory in use" },
	{ H1_GET, "/metrics/watch", metrics_watch, .doc = "the same, every second" },

	{ H1_POST, "/pty", pty_create, .doc = "make a terminal" },
	{ H1_GET, "/pty/{sessionId}", pty_get, .doc = "how a terminal is doing" },
	{ H1_DELETE, "/pty/{sessionId}", pty_delete, .doc = "end a terminal" },
	{ H1_GET, "/pty/{sessionId}/ws", pty_ws, .doc = "attach to a terminal (WebSocket)" },

	{ H1_GET, "/logs", logs_get, .doc = "output of the entrypoint" },

	{ H1_GET, "/v1/isolated/capabilities", isolated_capabilities, .doc = "isolation here" },
	{ H1_POST, "/v1/isolated/session", isolated_create, .doc = "make an isolated session" },
	{ H1_GET, "/v1/isolated/sessions", isolated_list, .doc = "all isolated sessions" },
	{ H1_GET, "/v1/isolated/session/{sessionId}", isolated_get, .doc = "how it is doing" },
	{ H1_DELETE, "/v1/isolated/session/{sessionId}", isolated_delete, .doc = "end it" },
	{ H1_POST, "/v1/isolated/session/{sessionId}/run", isolated_run, .doc = "run code in it" },
	{ H1_GET, "/v1/isolated/session/{sessionId}/diff", isolated_diff, .doc = "what changed" },
	{ H1_POST, "/v1/isolated/session/{sessionId}/commit", isolated_commit, .doc = "keep it" },
	{ HTTP_ANY, "/v1/isolated/session/{sessionId}/{path...}", isolated_files,
	  .doc = "files of an isolated session" },

	{ HTTP_ANY, "/proxy/{path...}", proxy_handle, .doc = "a port of this sandbox" },
};

static const struct http_router router = { .routes = routes, .n_routes = ARRAY_LEN(routes) };

/* --- answers --- */

void api_error(struct http_req *r, int status, const char *code, const char *message)
{
	struct buf body = BUF_INIT(KIB(64));
	struct jw w = JW_INIT(&body);

	/* what we could not keep of a request looks as if it had not been said */
	if (r->arena.starved && status < 500) {
		status = 500;
		code = API_RUNTIME_ERROR;
		message = "out of memory";
	}
	jw_object(&w);
	jw_field_cstr(&w, "code", code);
	jw_field_cstr(&w, "message", message);
	jw_end(&w);
	if (buf_failed(&body))
		http_reply(r, 500, API_JSON_TYPE,
			   SPAN_LIT("{\"code\":\"" API_RUNTIME_ERROR
				    "\",\"message\":\"out of memory\"}"));
	else
		http_reply(r, status, API_JSON_TYPE, buf_span(&body));
	buf_free(&body);
}

void api_errorf(struct http_req *r, int status, const char *code, const char *fmt, ...)
{
	struct buf text = BUF_INIT(KIB(8));
	const char *message;
	va_list ap;

	va_start(ap, fmt);
	(void)buf_vprintf(&text, fmt, ap);
	va_end(ap);
	message = buf_cstr(&text);
	api_error(r, status, code, message != NULL ? message : fmt);
	buf_free(&text);
}

void api_ok(struct http_req *r)
{
	http_reply(r, 200, NULL, span_of(NULL, 0));
}

void api_json(struct http_req *r, int status, struct buf *body)
{
	if (buf_failed(body))
		api_error(r, 500, API_RUNTIME_ERROR,
			  body->starved ? "out of memory" : "the answer is too large");
	else
		http_reply(r, status, API_JSON_TYPE, buf_span(body));
	buf_free(body);
}

void api_refuse(struct http_req *r, int status, const char *why)
{
	api_error(r, status, status >= 500 ? API_RUNTIME_ERROR : API_INVALID_BODY, why);
}

/* --- questions --- */

static bool parse(struct http_req *r, struct span body, bool may_be_empty, json_t **ret)
{
	static const struct json_limits limits = {
		.max_bytes = API_MAX_CODE, /* it was read with its route's own limit */
		.max_depth = 32,
		.max_values = 64 << 10,
		.first_only = true,
		.allow_nul = true,
	};
	struct err e = ERR_INIT;
	int n;

	*ret = NULL;
	n = json_parse(body, &limits, ret, &e);
	if (n == -ENODATA && may_be_empty)
		return true;
	if (n == -ENOMEM)
		api_refuse(r, 500, "out of memory");
	else if (n < 0)
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
	return n >= 0;
}

bool api_parse_value(struct http_req *r, struct span body, json_t **ret)
{
	return parse(r, body, false, ret);
}

bool api_parse(struct http_req *r, struct span body, bool may_be_empty, json_t **ret)
{
	struct err e = ERR_INIT;

	if (!parse(r, body, may_be_empty, ret))
		return false;
	if (json_is_null(*ret)) { /* every field is unset */
		json_decref(*ret);
		*ret = may_be_empty ? NULL : json_object();
		return true;
	}
	if (*ret == NULL || json_need_object(*ret, &e) == 0)
		return true;
	json_decref(TAKE(*ret));
	api_errorf(r, 400, API_INVALID_BODY, "error parsing request, MAYBE invalid body format. %s",
		   e.msg);
	return false;
}

void api_invalid(struct http_req *r, const char *why)
{
	api_errorf(r, 400, API_INVALID_BODY, "invalid request, validation error. %s", why);
}

void api_invalid_err(struct http_req *r, const struct err *e)
{
	if (e->code == ENOMEM || e->code == EMFILE || e->code == ENFILE)
		api_errorf(r, 500, API_RUNTIME_ERROR, "%s", e->msg);
	else
		api_invalid(r, e->msg);
}

const char *api_need_query(struct http_req *r, const char *key)
{
	struct span value = http_query(r, key, 0);
	char *text;

	if (value.p == NULL || value.len == 0) {
		api_errorf(r, 400, API_MISSING_QUERY, "missing query parameter '%s'", key);
		return NULL;
	}
	text = arena_dup(&r->arena, value);
	if (text == NULL)
		http_refuse(r, 500, "out of memory");
	return text;
}

/* --- the way in --- */

static bool authorized(struct http_req *r)
{
	const char *token = execd_of(r)->opt.access_token;

	return token == NULL || span_eq_secret(http_field(r, TOKEN_FIELD), span_str(token));
}

/* The caller's own id, if it can stand in a header, so that both ends' logs can be matched. */
static void add_request_id(struct http_req *r)
{
	struct span id = http_field(r, "X-Request-ID");
	char made[33];

	if (id.len > 0 && id.len <= 128 && h1_is_field_value(id)) {
		http_header_span(r, SPAN_LIT("X-Request-ID"), id);
		return;
	}
	rand_hex(made, 16);
	http_header(r, "X-Request-ID", made);
}

/* A route that differs by its last slash alone? Then the client is sent there. */
static bool redirect_slash(struct http_req *r)
{
	const struct h1_head *head = r->head;
	/* the request's own has room for the fields that are there, no more */
	size_t head_size = offsetof(struct h1_head, fields);
	struct h1_head *other = arena_zalloc(&r->arena, sizeof(*other));
	struct span path = head->path;
	enum http_match match;
	char *target;

	if (path.len < 2 || path.p[0] != '/' || path.p[1] == '/' || path.p[1] == '\\')
		return false; /* "//host" would lead elsewhere */
	if (path.p[path.len - 1] == '/')
		target = arena_dup(&r->arena, span_first(path, path.len - 1));
	else
		target = arena_printf(&r->arena, "%.*s/", SPAN_FMT(path));
	if (target == NULL || other == NULL)
		return false;
	memcpy(other, head, head_size);
	other->n_fields = 0;
	other->path = span_str(target);
	r->head = other;
	match = http_router_match(&router, r, NULL);
	r->head = head;
	if (match != HTTP_MATCHED)
		return false;
	if (head->query.len > 0)
		target = arena_printf(&r->arena, "%s?%.*s", target, SPAN_FMT(head->query));
	http_header(r, "Location", target);
	http_reply(r, head->method == H1_GET ? 301 : 307, NULL, span_of(NULL, 0));
	return true;
}

void api_route(struct http_req *r)
{
	switch (http_router_match(&router, r, NULL)) {
	case HTTP_MATCHED:
		r->route->handler(r);
		return;
	case HTTP_BAD_PATH:
		http_refuse(r, 400, "the path has a broken percent-escape");
		return;
	case HTTP_NO_PATH:
	case HTTP_NO_METHOD:
		break;
	}
	if (!redirect_slash(r))
		http_reply(r, 404, "text/plain", SPAN_LIT("404 page not found"));
}

static void log_request(struct http_req *r)
{
	/* the path alone: queries name files */
	const char *method = arena_dup(&r->arena, r->head->method_name);
	const char *path = arena_dup(&r->arena, r->head->path);

	if (method != NULL && path != NULL)
		log_debug("request", { "method", method }, { "path", path });
}

void api_handle(struct http_req *r)
{
	if (log_enabled(LOG_DEBUG))
		log_request(r);
	quiet_touch(execd_of(r));
	add_request_id(r);
	if (authorized(r)) {
		api_route(r);
		return;
	}
	http_reply(r, 401, API_JSON_TYPE,
		   SPAN_LIT("{\"error\":\"Unauthorized: invalid or missing header " TOKEN_FIELD
			    "\",\"code\":\"UNAUTHORIZED\",\"message\":\"invalid or missing "
			    "header " TOKEN_FIELD "\"}"));
}

void ping_get(struct http_req *r)
{
	api_ok(r);
}
