#include "execd/pty.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "execd/api.h"
#include "execd/filejob.h"
#include "execd/mkdirs.h"

#define MAX_SESSIONS 256
#define EXPIRY_MS    3600000u /* of a session that has neither shell nor client */

struct ptys {
	struct execd *x;
	struct map by_id;
	struct deadline_queue expiries;
};

/* --- sessions --- */

static void pty_free(struct pty *p)
{
	deadline_clear(&p->expiry);
	if (p->run != NULL) {
		buf_free(&p->run->input);
		free(p->run);
	}
	ring_free(&p->ring);
	free(p->cwd);
	free(p->command);
	free(p);
}

void pty_settle(struct pty *p)
{
	bool idle = p->client == NULL && list_empty(&p->runs);

	if (idle && p->deleted)
		pty_free(p);
	else if (idle)
		deadline_set(&p->all->expiries, &p->expiry);
	else
		deadline_clear(&p->expiry);
}

/* Forget the session; its memory goes when its processes and its client have gone. */
static void pty_forget(struct pty *p)
{
	(void)map_remove(&p->all->by_id, span_str(p->id));
	list_for_each_safe (it, &p->runs)
		proc_kill(&LIST_ENTRY(it, struct pty_run, link)->proc);
	if (p->run == NULL || p->run->state == PTY_RUN_ENDED)
		pty_client_close(p, 1000, "session deleted");
	p->deleted = true;
	pty_settle(p);
}

static void expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	pty_forget(CONTAINER_OF(d, struct pty, expiry));
}

static struct ptys *ptys_of(struct execd *x)
{
	struct ptys *all = x->ptys;

	if (all != NULL)
		return all;
	all = calloc(1, sizeof(*all));
	if (all == NULL)
		return NULL;
	all->x = x;
	map_init(&all->by_id);
	deadline_queue_init(&x->loop, &all->expiries, EXPIRY_MS, expired);
	x->ptys = all;
	return all;
}

struct pty *pty_find(struct http_req *r)
{
	struct span id = http_param(r, "sessionId");
	struct ptys *all = execd_of(r)->ptys;
	struct pty *p = all != NULL ? map_get(&all->by_id, id) : NULL;

	if (p == NULL)
		api_errorf(r, 404, API_CONTEXT_NOT_FOUND, "pty session %.*s not found",
			   (int)MIN(id.len, 64u), id.p);
	return p;
}

/* --- POST /pty --- */

static char *dup_or_null(const char *s)
{
	return s != NULL ? strdup(s) : NULL;
}

static void create(struct http_req *r, const char *cwd, const char *command)
{
	struct buf out = BUF_INIT(KIB(1));
	struct ptys *all = ptys_of(execd_of(r));
	struct pty *p = all != NULL ? calloc(1, sizeof(*p)) : NULL;
	struct jw w = JW_INIT(&out);

	if (p == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	p->all = all;
	p->cwd = dup_or_null(cwd);
	p->command = dup_or_null(command);
	list_init(&p->runs);
	deadline_init(&p->expiry);
	rand_uuid(p->id);
	if (all->by_id.count >= MAX_SESSIONS || (cwd != NULL && p->cwd == NULL) ||
	    (command != NULL && p->command == NULL) ||
	    map_put(&all->by_id, span_str(p->id), p, NULL) < 0) {
		api_errorf(r, 500, API_RUNTIME_ERROR, "cannot make another of %zu pty sessions",
			   all->by_id.count);
		pty_free(p);
		return;
	}
	pty_settle(p);
	jw_object(&w);
	jw_field_cstr(&w, "session_id", p->id);
	jw_end(&w);
	api_json(r, 201, &out);
}

struct wish {
	const char *cwd, *command;
};

static void cwd_work(struct filejob *f)
{
	const struct wish *wish = f->user;
	struct err e = ERR_INIT;

	if (mkdirs(wish->cwd, 0777, NULL, &e) < 0)
		filejob_fail(f, 500, API_RUNTIME_ERROR,
			     "error creating pty session: working directory: %s", e.msg);
}

static void cwd_made(struct filejob *f)
{
	const struct wish *wish = f->user;
	struct http_req *r;

	if (f->req == NULL || f->status != 0) {
		filejob_answer(f);
		return;
	}
	r = filejob_detach(f);
	create(r, wish->cwd, wish->command);
	filejob_end(f);
}

static void create_body(struct http_req *r, struct span body)
{
	const char *cwd = NULL, *command = NULL;
	struct err e = ERR_INIT;
	struct filejob *f;
	struct wish *wish;
	json_t *v;

	if (!api_parse(r, body, true, &v))
		return;
	if (v != NULL && (json_get_str(v, "cwd", JSON_ANY_CASE, &cwd, &e) < 0 ||
			  json_get_str(v, "command", JSON_ANY_CASE, &command, &e) < 0)) {
		api_errorf(r, 400, API_INVALID_BODY,
			   "error parsing request, MAYBE invalid body format. %s", e.msg);
		json_decref(v);
		return;
	}
	if (command != NULL && command[0] == '\0')
		command = NULL;
	if (cwd == NULL || cwd[0] == '\0') {
		create(r, NULL, command);
		json_decref(v);
		return;
	}
	f = filejob_new(r);
	if (f == NULL) {
		json_decref(v);
		return;
	}
	f->body = v;
	wish = arena_zalloc(&f->arena, sizeof(*wish));
	if (wish == NULL) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	wish->command = command;
	wish->cwd = filejob_path(f, span_str(cwd));
	f->user = wish;
	f->after = cwd_made;
	filejob_start(f, cwd_work);
}

void pty_create(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, create_body);
}

/* --- GET and DELETE /pty/{id} --- */

void pty_get(struct http_req *r)
{
	struct pty *p = pty_find(r);
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	if (p == NULL)
		return;
	jw_object(&w);
	jw_field_cstr(&w, "session_id", p->id);
	jw_field_bool(&w, "running", p->run != NULL && p->run->state != PTY_RUN_ENDED);
	jw_field_u64(&w, "output_offset", p->ring.end);
	if (p->run != NULL) {
		jw_field_cstr(&w, "mode", p->run->pipe ? "pipe" : "pty");
		if (p->run->state == PTY_RUN_ENDED)
			jw_field_i64(&w, "exit_code", p->run->exit_code);
	}
	jw_field_bool(&w, "attached", p->client != NULL);
	jw_end(&w);
	api_json(r, 200, &out);
}

void pty_delete(struct http_req *r)
{
	struct pty *p = pty_find(r);

	if (p == NULL)
		return;
	pty_forget(p);
	api_ok(r);
}
