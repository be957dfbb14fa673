#include "server/api.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "codec/param.h"
#include "codec/url.h"
#include "server/create.h"
#include "server/gateway.h"

#define KEY_HEADER     "OPEN-SANDBOX-API-KEY"
#define MAX_REQUEST_ID 128

/* --- answers --- */

static void call_done(struct http_req *r);

/* NULL for requests that the gateway has, or that never got as far as api_handle(). */
static const struct api_call *own_call(const struct http_req *r)
{
	return r->done == call_done ? r->user : NULL;
}

static void count_answer(struct http_req *r, int status)
{
	struct server *s = api_server(r);
	const struct api_call *c = own_call(r);
	struct metrics *m = &s->manager.metrics;
	uint64_t us = c != NULL ? clock_mono_us() - c->started_us : 0;

	m->by_class[MIN((unsigned)status / 100, 5u)]++;
	if (c != NULL)
		histogram_add(&m->requests, us);
	if (log_enabled(LOG_DEBUG) && r->head->target.p != NULL) {
		char code[8], took[24], *target = arena_dup(&r->arena, r->head->target);

		(void)snprintf(code, sizeof(code), "%d", status);
		(void)snprintf(took, sizeof(took), "%llu", (unsigned long long)us);
		log_debug("request", { "method", h1_method_name(r->head->method) },
			  { "target", target != NULL ? target : "" }, { "status", code },
			  { "us", took });
	}
}

void api_text(struct http_req *r, int status, const char *content_type, struct buf *body)
{
	if (buf_failed(body)) {
		api_error(r, E_INTERNAL,
			  body->starved ? "out of memory" : "the answer is too large");
		buf_free(body);
		return;
	}
	count_answer(r, status);
	http_reply(r, status, content_type, buf_span(body));
	buf_free(body);
}

void api_json(struct http_req *r, int status, struct buf *body)
{
	api_text(r, status, "application/json", body);
}

void api_done(struct http_req *r, int status, struct buf *body)
{
	if (!buf_failed(body) && http_answerable(r)) {
		api_json(r, status, body);
		return;
	}
	buf_free(body);
	http_abort(r);
}

void api_empty(struct http_req *r, int status)
{
	count_answer(r, status);
	http_reply(r, status, NULL, SPAN_LIT(""));
}

/* The envelope that every client can read: code and message always, detail for those who know the
 * public server's schema errors. */
static void write_error(struct http_req *r, enum error error, const char *where, const char *why)
{
	struct buf out = BUF_INIT(KIB(8));
	struct jw w = JW_INIT(&out);
	char last[128];
	struct span body;

	/* what we could not keep of a request looks as if it had not been said */
	if (r->arena.starved && error_status(error) < 500) {
		error = E_INTERNAL;
		why = "out of memory";
	}
	jw_object(&w);
	jw_field_cstr(&w, "code", error_code(error));
	jw_field_cstr(&w, "message", why);
	if (error == E_INVALID_REQUEST) {
		struct span rest = span_str(where);

		jw_key(&w, "detail");
		jw_array(&w);
		jw_object(&w);
		jw_field_cstr(&w, "type", "value_error");
		jw_key(&w, "loc");
		jw_array(&w);
		while (rest.len > 0)
			jw_str(&w, span_cut(&rest, '.'));
		jw_end(&w);
		jw_field_cstr(&w, "msg", why);
		jw_end(&w);
		jw_end(&w);
	} else if (error == E_NOT_FOUND || error == E_METHOD_NOT_ALLOWED) {
		jw_field_cstr(&w, "detail", error_doc(error));
	}
	jw_end(&w);
	body = buf_span(&out);
	if (buf_failed(&out)) {
		int n = snprintf(last, sizeof(last), "{\"code\":\"%s\",\"message\":\"%s\"}",
				 error_code(E_INTERNAL), "out of memory");

		error = E_INTERNAL;
		body = span_of(last, (size_t)n);
	}
	if (error_status(error) == 503)
		http_header(r, "Retry-After", "1");
	count_answer(r, error_status(error));
	http_reply(r, error_status(error), "application/json", body);
	buf_free(&out);
}

void api_error(struct http_req *r, enum error error, const char *fmt, ...)
{
	char why[300];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, ap);
	va_end(ap);
	write_error(r, error, "", why[0] != '\0' ? why : error_doc(error));
}

void api_refusal(struct http_req *r, const struct refusal *rf)
{
	write_error(r, rf->error, rf->where, rf->why);
}

void api_set_request_id(struct http_req *r)
{
	struct span given = span_trim(http_field(r, "x-request-id"));
	char id[RAND_UUID_SIZE];

	for (size_t i = 0; i < given.len; i++) /* what would look odd in a log is not echoed */
		if (given.p[i] < 0x21 || given.p[i] > 0x7e)
			given.len = 0;
	if (given.len > 0 && given.len <= MAX_REQUEST_ID) {
		http_header_span(r, SPAN_LIT("X-Request-ID"), given);
		return;
	}
	rand_uuid(id);
	http_header(r, "X-Request-ID", id);
}

void api_refuse(struct http_req *r, int status, const char *why)
{
	if (own_call(r) == NULL) /* else it has one */
		api_set_request_id(r);
	write_error(r, error_of_status(status), "", why);
}

/* --- who may --- */

/* An address in full: "127.example.com" is a name, and anybody's. */
static bool is_loopback_ipv4(struct span host)
{
	char text[INET_ADDRSTRLEN];
	struct in_addr a;

	return span_copy(host, text, sizeof(text)) && inet_pton(AF_INET, text, &a) == 1 &&
	       ntohl(a.s_addr) >> 24 == 127;
}

static bool is_loopback_name(struct span host)
{
	struct url_authority a;

	return url_split_authority(host, &a) &&
	       (span_caseis(a.host, "localhost") || span_is(a.host, "::1") ||
		is_loopback_ipv4(a.host));
}

static bool origin_allowed(const struct server *s, struct span origin)
{
	const struct config_list *l = &s->config.cors_origins;
	struct url_parts parts;

	for (unsigned i = 0; i < l->n; i++)
		if (span_is(origin, l->items[i]) || strcmp(l->items[i], "*") == 0)
			return true;
	if (l->n > 0)
		return false;
	/* A page of any origin may ask, for it has no key; where none is needed, only pages of
	 * this machine may. Credentials of the browser are never asked for. */
	if (s->config.api_key[0] != '\0')
		return true;
	return url_split(origin, &parts) && is_loopback_name(parts.authority);
}

bool api_cors(struct http_req *r)
{
	struct span origin = http_field(r, "origin");
	struct span method = http_field(r, "access-control-request-method");
	struct span headers = http_field(r, "access-control-request-headers");

	if (origin.p == NULL)
		return false;
	http_header(r, "Vary", "Origin");
	if (!origin_allowed(api_server(r), origin))
		return false;
	http_header_span(r, SPAN_LIT("Access-Control-Allow-Origin"), origin);
	http_header(r, "Access-Control-Expose-Headers", "X-Request-ID");
	if (r->head->method != H1_OPTIONS || method.p == NULL)
		return false;
	http_header(r, "Access-Control-Allow-Methods",
		    "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
	http_header(r, "Access-Control-Max-Age", "600");
	if (headers.p != NULL)
		http_header_span(r, SPAN_LIT("Access-Control-Allow-Headers"), headers);
	count_answer(r, 200);
	http_reply(r, 200, "text/plain; charset=utf-8", SPAN_LIT("OK"));
	return true;
}

static bool is_public(const struct http_req *r)
{
	static const char *const open[] = { "/health", "/readyz", "/v1/health", "/v1/readyz" };

	for (size_t i = 0; i < ARRAY_LEN(open); i++)
		if (span_is(r->head->path, open[i]))
			return true;
	return false;
}

static struct span bearer_token(struct span authorization)
{
	if (authorization.len <= 7 || !span_caseis(span_first(authorization, 7), "bearer "))
		return span_of(NULL, 0);
	return span_trim(span_skip(authorization, 7));
}

/* The key itself, or as a bearer token: what scrapes /metrics can send only that. */
static struct span given_key(const struct http_req *r)
{
	struct span key = http_field(r, KEY_HEADER);

	return key.len > 0 ? key : bearer_token(http_field(r, "authorization"));
}

static bool is_key(const struct http_req *r, struct span given)
{
	const char *key = api_server(r)->config.api_key;

	return key[0] != '\0' && span_eq_secret(given, span_str(key));
}

bool api_bears_key(const struct http_req *r)
{
	for (const struct h1_field *f = h1_find(r->head, "authorization"); f != NULL;
	     f = h1_next(r->head, f))
		if (is_key(r, bearer_token(f->value)))
			return true;
	return false;
}

static bool authorized(struct http_req *r)
{
	const struct server *s = api_server(r);
	struct span key;

	if (s->config.api_key[0] == '\0') {
		/* A name that somebody made resolve to 127.0.0.1 must not open this door. */
		if (!s->loopback || r->head->host.len == 0 || is_loopback_name(r->head->host))
			return true;
		api_error(r, E_BAD_HOST, "a server without an API key answers to localhost only");
		return false;
	}
	if (is_public(r))
		return true;
	key = given_key(r);
	if (key.len == 0)
		api_error(r, E_MISSING_API_KEY, "the header " KEY_HEADER " is missing");
	else if (!is_key(r, key))
		api_error(r, E_INVALID_API_KEY, "the API key is not valid");
	else
		return true;
	return false;
}

/* --- the way in --- */

static void call_done(struct http_req *r)
{
	struct api_call *c = r->user;

	list_remove(&c->waiter.link);
	if (c->creation != NULL) {
		struct creation *creation = TAKE(c->creation);

		creation_abandon(creation);
	}
	if (c->gone != NULL && r->aborted)
		c->gone(c);
	if (c->sb != NULL)
		sandbox_drop(TAKE(c->sb));
}

static const struct http_router router_template = {
	.prefix = "/v1",
	.head_as_get = true,
};

void api_handle(struct http_req *r)
{
	struct http_router router = router_template;
	struct api_call *c;

	if (gateway_is_path(r->head->path)) {
		gateway_handle(r);
		return;
	}
	api_set_request_id(r);
	c = arena_zalloc(&r->arena, sizeof(*c));
	if (c == NULL) {
		http_refuse(r, 500, "out of memory");
		return;
	}
	c->server = api_server(r);
	c->req = r;
	c->started_us = clock_mono_us();
	list_init(&c->waiter.link);
	r->user = c;
	r->done = call_done;
	if (api_cors(r) || !authorized(r))
		return;
	router.routes = api_routes;
	router.n_routes = api_n_routes;
	http_router_handle(&router, r);
}

/* --- for the routes --- */

struct sandbox *api_sandbox(struct http_req *r, bool ended)
{
	struct span id = http_param(r, "id");
	struct span wish = http_query(r, "includeTerminated", 0);
	bool hidden = false;
	struct sandbox *sb;

	if (ended && wish.p != NULL)
		(void)request_flag(wish, &hidden);
	sb = manager_find(&api_server(r)->manager, id, hidden);
	if (sb == NULL || (!ended && sandbox_ended(sb))) {
		api_error(r, E_SANDBOX_NOT_FOUND, "sandbox '%.*s' was not found",
			  (int)MIN(id.len, (size_t)64), id.p);
		return NULL;
	}
	return sb;
}

static bool is_json_type(struct span type)
{
	struct span rest, media = param_first(type, &rest);

	return span_caseis(media, "application/json") ||
	       (media.len > 17 && span_caseis(span_first(media, 12), "application/") &&
		span_caseis(span_skip(media, media.len - 5), "+json"));
}

struct json_read {
	bool optional;
	void (*then)(struct http_req *r, json_t *body);
};

static void on_body(struct http_req *r, struct span body)
{
	struct json_read *jr = api_call(r)->own;
	struct refusal rf = { .error = E_OK };
	json_t *tree = NULL;
	struct err e = ERR_INIT;
	int n;

	if (span_trim(body).len == 0 && jr->optional) {
		jr->then(r, NULL);
		return;
	}
	if (!is_json_type(http_field(r, "content-type"))) {
		(void)refuse_at(&rf, "body", "the body must be declared as application/json");
		api_refusal(r, &rf);
		return;
	}
	n = json_parse(body, &json_default_limits, &tree, &e);
	if (n == -ENOMEM) {
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	if (n < 0) {
		(void)refuse_at(&rf, "body", "the body is not acceptable JSON: %s", e.msg);
		api_refusal(r, &rf);
		return;
	}
	jr->then(r, tree);
	json_decref(tree);
}

void api_read_json(struct http_req *r, bool optional,
		   void (*then)(struct http_req *r, json_t *body))
{
	struct json_read *jr = arena_alloc(&r->arena, sizeof(*jr));

	if (jr == NULL) {
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	*jr = (struct json_read){ optional, then };
	api_call(r)->own = jr;
	http_read_body(r, API_MAX_BODY, on_body);
}

struct waiter *api_wait(struct http_req *r, struct sandbox *sb,
			void (*done)(struct waiter *w, struct sandbox *sb, enum error error,
				     const char *why))
{
	struct api_call *c = api_call(r);

	if (sb != NULL) {
		c->sb = sb;
		sandbox_hold(sb);
	}
	c->waiter.done = done;
	return &c->waiter;
}

struct http_req *api_waited(struct waiter *w)
{
	return CONTAINER_OF(w, struct api_call, waiter)->req;
}

bool api_paging(struct http_req *r, int64_t *ret_page, int64_t *ret_size)
{
	const struct {
		const char *name;
		int64_t fallback, max, *ret;
	} params[] = {
		{ "page", 1, INT32_MAX, ret_page },
		{ "pageSize", 20, API_MAX_PAGE, ret_size },
	};

	for (size_t i = 0; i < ARRAY_LEN(params); i++) {
		struct span text = http_query(r, params[i].name, 0);
		struct refusal rf;
		char where[32];

		*params[i].ret = params[i].fallback;
		if (text.p == NULL || request_number(text, 1, params[i].max, params[i].ret))
			continue;
		(void)snprintf(where, sizeof(where), "query.%s", params[i].name);
		(void)refuse_at(&rf, where, "%s must be a whole number from 1 to %lld",
				params[i].name, (long long)params[i].max);
		api_refusal(r, &rf);
		return false;
	}
	return true;
}

void api_pagination(struct jw *w, int64_t page, int64_t size, int64_t total)
{
	int64_t pages = (total + size - 1) / size;

	jw_key(w, "pagination");
	jw_object(w);
	jw_field_i64(w, "page", page);
	jw_field_i64(w, "pageSize", size);
	jw_field_i64(w, "totalItems", total);
	jw_field_i64(w, "totalPages", pages);
	jw_field_bool(w, "hasNextPage", page < pages);
	jw_end(w);
}
