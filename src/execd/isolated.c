/* /v1/isolated/...: the outside of isolated sessions. */
#include "execd/isolated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "execd/api.h"
#include "execd/isolate.h"
#include "execd/launch.h"
#include "http/proxy.h"

#define MAX_SESSIONS 64

struct isolated_session {
	struct isolated *all;
	struct list link;
	char id[RAND_UUID_SIZE];
	char token[65]; /* of the inner execd */
	struct isolated_request request;
	struct launch launch;
	struct sockaddr_un address; /* of its socket, in no file system */
	socklen_t address_len;
	struct http_upstream *upstream;
	struct http_req *creator; /* waits for the start */
	struct io_timer idle;
	int64_t created_us, last_run_us;
	uint64_t idle_since_ms;
	unsigned active; /* requests under way */
	unsigned holds;  /* launch and timer */
	enum { SESSION_STARTING, SESSION_ACTIVE, SESSION_DEAD } state;
	bool deleted;
};

struct isolated *isolated_of(struct http_req *r)
{
	struct execd *x = execd_of(r);
	struct isolated *all = x->isolated;

	if (all != NULL)
		return all;
	all = calloc(1, sizeof(*all));
	if (all == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return NULL;
	}
	all->x = x;
	map_init(&all->by_id);
	list_init(&all->sessions);
	list_init(&all->waiting);
	x->isolated = all;
	return all;
}

static void unavailable(struct http_req *r, const char *why)
{
	api_errorf(r, 503, API_NOT_SUPPORTED, "isolation unavailable: %s", why);
}

/* --- sessions --- */

static void session_release(struct isolated_session *s)
{
	if (--s->holds > 0)
		return;
	isolated_request_free(&s->request);
	free(s);
}

static void idle_closed(struct io_timer *t)
{
	session_release(CONTAINER_OF(t, struct isolated_session, idle));
}

/* End it; the memory goes when its last process has. */
static void session_delete_now(struct isolated_session *s)
{
	if (s->deleted)
		return;
	s->deleted = true;
	(void)map_remove(&s->all->by_id, span_str(s->id));
	list_remove(&s->link);
	http_upstream_free(TAKE(s->upstream));
	io_timer_close(&s->idle, idle_closed);
	launch_kill(&s->launch);
}

static void idle_fired(struct io_timer *t)
{
	session_delete_now(CONTAINER_OF(t, struct isolated_session, idle));
}

static void idle_restart(struct isolated_session *s)
{
	s->idle_since_ms = clock_mono_ms();
	if (s->request.idle_ms > 0 && !s->deleted)
		io_timer_start(&s->idle, s->request.idle_ms, 0);
}

static void write_state(const struct isolated_session *s, struct jw *w)
{
	static const char *const names[] = { "active", "active", "dead" };
	uint64_t past = clock_mono_ms() - s->idle_since_ms;

	jw_field_cstr(w, "status", names[s->state]);
	jw_field_time(w, "created_at", s->created_us);
	jw_field_time(w, "last_run_at", s->last_run_us);
	if (s->request.idle_ms > 0)
		jw_field_u64(w, "idle_remaining_seconds",
			     s->active > 0
				     ? s->request.idle_ms / 1000
				     : (s->request.idle_ms - MIN(past, s->request.idle_ms)) / 1000);
}

static void launch_ready(struct launch *l, char kind, const char *words)
{
	struct isolated_session *s = l->user;
	struct buf out = BUF_INIT(KIB(64));
	struct http_req *r = TAKE(s->creator);
	struct jw w = JW_INIT(&out);

	if (r != NULL) {
		r->user = NULL;
		r->done = NULL;
	}
	if (kind != 0 || s->deleted) {
		if (r != NULL && kind == ISOLATE_WRONG)
			api_invalid(r, words);
		else if (r != NULL)
			unavailable(r, words);
		session_delete_now(s);
		return;
	}
	s->state = SESSION_ACTIVE;
	idle_restart(s);
	if (r == NULL) /* nobody will ever know its name */
		session_delete_now(s);
	if (r == NULL)
		return;
	jw_object(&w);
	jw_field_cstr(&w, "session_id", s->id);
	jw_field_time(&w, "created_at", s->created_us);
	isolated_request_echo(&s->request, &w);
	jw_end(&w);
	api_json(r, 201, &out);
}

static void launch_ended(struct launch *l, int wait_status)
{
	struct isolated_session *s = l->user;

	(void)wait_status;
	s->state = SESSION_DEAD;
}

static void launch_gone(struct launch *l)
{
	struct isolated_session *s = l->user;

	s->state = SESSION_DEAD;
	session_release(s);
}

/* --- POST session --- */

static int open_socket(struct isolated_session *s, int *ret_fd, struct err *e)
{
	autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	s->address.sun_family = AF_UNIX;
	s->address_len = sizeof(s->address);
	/* the kernel makes up a name in the abstract namespace, which goes with the socket */
	if (fd < 0 || bind(fd, (struct sockaddr *)&s->address, sizeof(sa_family_t)) < 0 ||
	    listen(fd, 128) < 0 ||
	    getsockname(fd, (struct sockaddr *)&s->address, &s->address_len) < 0)
		return err_sys(e, "make a socket");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void dial(void *ctx, struct http_dial *d)
{
	const struct isolated_session *s = ctx;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd >= 0 && connect(fd, (const struct sockaddr *)&s->address, s->address_len) < 0) {
		int error = errno;

		(void)close(fd);
		http_dialed(d, -error, "the session cannot be reached");
		return;
	}
	http_dialed(d, fd >= 0 ? fd : -errno, "no socket");
}

static int session_launch(struct isolated_session *s, struct err *e)
{
	AUTO(buf_free) struct buf *plan = &BUF_INIT(MIB(1)), *spec = &BUF_INIT(MIB(4));
	struct http_upstream_options opt = http_upstream_defaults;
	const struct execd *x = s->all->x;
	autofd int fd = -EBADF;
	int r;

	r = isolated_request_plan(x, &s->request, plan, e);
	if (r == 0)
		r = isolated_request_spec(x, &s->request, s->token, spec, e);
	if (r == 0)
		r = open_socket(s, &fd, e);
	if (r < 0)
		return r;
	opt.dial = dial;
	opt.dial_ctx = s;
	opt.response_timeout_ms = 0;
	r = http_upstream_new(&s->all->x->loop, &opt, &s->upstream, e);
	if (r < 0)
		return r;
	s->launch.user = s;
	s->launch.ready = launch_ready;
	s->launch.ended = launch_ended;
	s->launch.gone = launch_gone;
	io_timer_init(&s->all->x->loop, &s->idle, idle_fired);
	s->holds = 2;
	r = launch_start(s->all->x, &s->launch, buf_span(plan), buf_span(spec), fd, e);
	if (r < 0) { /* it never was */
		s->deleted = true;
		http_upstream_free(TAKE(s->upstream));
		(void)map_remove(&s->all->by_id, span_str(s->id));
		list_remove(&s->link);
		s->holds = 1;
		io_timer_close(&s->idle, idle_closed);
	}
	return r;
}

static void creator_gone(struct http_req *r)
{
	struct isolated_session *s = r->user;

	if (s != NULL)
		s->creator = NULL;
}

static void create_body(struct http_req *r, struct span body)
{
	struct isolated *all = isolated_of(r);
	struct isolated_session *s;
	struct err e = ERR_INIT;
	json_t *v = NULL;

	if (all == NULL || !api_parse(r, body, false, &v))
		return;
	s = calloc(1, sizeof(*s));
	if (s == NULL || all->by_id.count >= MAX_SESSIONS) {
		json_decref(v);
		free(s);
		api_error(r, 503, API_RUNTIME_ERROR, "too many isolated sessions");
		return;
	}
	if (isolated_request_read(all->x, v, &s->request, &e) < 0) {
		free(s);
		api_invalid_err(r, &e);
		return;
	}
	s->all = all;
	rand_uuid(s->id);
	rand_hex(s->token, 32);
	s->created_us = s->last_run_us = clock_wall_us();
	s->idle_since_ms = clock_mono_ms();
	s->creator = r;
	r->user = s;
	r->done = creator_gone;
	list_init(&s->link);
	if (map_put(&all->by_id, span_str(s->id), s, NULL) < 0) {
		r->user = NULL;
		isolated_request_free(&s->request);
		free(s);
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	list_push_back(&all->sessions, &s->link);
	if (session_launch(s, &e) < 0) {
		r->user = NULL;
		if (!s->deleted) { /* it failed before there was anything to wait for */
			(void)map_remove(&all->by_id, span_str(s->id));
			list_remove(&s->link);
			http_upstream_free(s->upstream);
			isolated_request_free(&s->request);
			free(s);
		}
		if (e.code == EINVAL)
			api_invalid_err(r, &e);
		else
			api_errorf(r, 500, API_RUNTIME_ERROR, "error creating isolated session: %s",
				   e.msg);
	}
}

void isolated_create(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, create_body);
}

/* --- the others --- */

static struct isolated_session *find(struct http_req *r)
{
	struct span id = http_param(r, "sessionId");
	struct isolated *all = isolated_of(r);
	struct isolated_session *s;

	if (all == NULL)
		return NULL;
	s = map_get(&all->by_id, id);
	if (s != NULL && s->state != SESSION_STARTING)
		return s;
	api_errorf(r, 404, API_CONTEXT_NOT_FOUND, "isolated session %.*s not found",
		   (int)MIN(id.len, 64u), id.p);
	return NULL;
}

void isolated_list(struct http_req *r)
{
	struct isolated *all = isolated_of(r);
	struct buf out = BUF_INIT(MIB(1));
	struct jw w = JW_INIT(&out);

	if (all == NULL)
		return;
	jw_object(&w);
	jw_key(&w, "sessions");
	jw_array(&w);
	list_for_each (it, &all->sessions) {
		const struct isolated_session *s = LIST_ENTRY(it, struct isolated_session, link);

		if (s->state == SESSION_STARTING)
			continue;
		jw_object(&w);
		jw_field_cstr(&w, "session_id", s->id);
		write_state(s, &w);
		jw_end(&w);
	}
	jw_end(&w);
	jw_end(&w);
	api_json(r, 200, &out);
}

void isolated_get(struct http_req *r)
{
	struct isolated_session *s = find(r);
	struct buf out = BUF_INIT(KIB(64));
	struct jw w = JW_INIT(&out);

	if (s == NULL)
		return;
	jw_object(&w);
	jw_field_cstr(&w, "session_id", s->id);
	write_state(s, &w);
	isolated_request_echo(&s->request, &w);
	jw_end(&w);
	api_json(r, 200, &out);
}

void isolated_delete(struct http_req *r)
{
	struct isolated_session *s = find(r);

	if (s == NULL)
		return;
	session_delete_now(s);
	api_ok(r);
}

void isolated_diff(struct http_req *r)
{
	if (find(r) != NULL)
		api_error(r, 503, API_NOT_SUPPORTED, "diff is not supported");
}

void isolated_commit(struct http_req *r)
{
	if (find(r) != NULL)
		api_error(r, 503, API_NOT_SUPPORTED, "commit is not supported");
}

/* --- passing on --- */

static void pass_over(void *ctx)
{
	struct isolated_session *s = ctx;

	if (--s->active == 0)
		idle_restart(s);
	session_release(s);
}

static void pass_failed(struct http_req *r, int status, const char *why)
{
	api_errorf(r, status, API_RUNTIME_ERROR, "the isolated session does not answer: %s", why);
}

static void pass_on(struct http_req *r, struct isolated_session *s, const char *path)
{
	const struct h1_field token = { SPAN_LIT("X-EXECD-ACCESS-TOKEN"), span_str(s->token) };
	const char *target = path;

	if (s->state == SESSION_DEAD) {
		api_errorf(r, 410, API_CONTEXT_NOT_FOUND, "isolated session %s has ended", s->id);
		return;
	}
	if (r->head->query.len > 0)
		target = arena_printf(&r->arena, "%s?%.*s", path, SPAN_FMT(r->head->query));
	if (target == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	s->active++;
	s->holds++;
	io_timer_stop(&s->idle);
	http_proxy(r, s->upstream,
		   &(struct http_proxy_options){
			   .target = span_str(target),
			   .host = SPAN_LIT("localhost"),
			   .add = &token,
			   .n_add = 1,
			   .failed = pass_failed,
			   .over = pass_over,
			   .ctx = s,
		   });
}

void isolated_run(struct http_req *r)
{
	struct isolated_session *s;

	if (isolate_is_inside() && span_is(http_param(r, "sessionId"), "self")) {
		isolated_inside_run(r);
		return;
	}
	s = find(r);
	if (s == NULL)
		return;
	s->last_run_us = clock_wall_us();
	pass_on(r, s, "/v1/isolated/session/self/run");
}

/* Files and directories of the session, as that sees them; other routes of the inner execd are not
 * for the outside. */
void isolated_files(struct http_req *r)
{
	struct span rest = http_param(r, "path");
	struct isolated_session *s = find(r);
	const char *path;

	if (s == NULL)
		return;
	if (!span_is(rest, "files") && !span_starts(rest, "files/") &&
	    !span_is(rest, "directories") && !span_starts(rest, "directories/")) {
		http_reply(r, 404, "text/plain", SPAN_LIT("404 page not found"));
		return;
	}
	path = arena_printf(&r->arena, "/%.*s", SPAN_FMT(rest));
	if (path != NULL)
		pass_on(r, s, path);
	else
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
}
