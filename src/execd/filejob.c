#include "execd/filejob.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/url.h"
#include "execd/env.h"

#define MAX_ARENA MIB(16)
#define MAX_OUT   MIB(64)

static void req_done(struct http_req *r)
{
	struct filejob *f = r->user;

	if (f == NULL)
		return;
	r->user = NULL;
	f->req = NULL;
	if (f->waiting && f->gone != NULL)
		f->gone(f);
}

struct filejob *filejob_new(struct http_req *r)
{
	struct filejob *f = calloc(1, sizeof(*f));

	if (f == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return NULL;
	}
	f->x = execd_of(r);
	f->req = r;
	f->arena = ARENA_INIT(MAX_ARENA);
	f->out = BUF_INIT(MAX_OUT);
	r->user = f;
	r->done = req_done;
	return f;
}

struct http_req *filejob_detach(struct filejob *f)
{
	if (f->req != NULL)
		f->req->user = NULL;
	return TAKE(f->req);
}

void filejob_wait(struct filejob *f)
{
	f->waiting = true;
	if (f->req == NULL && f->gone != NULL)
		f->gone(f);
}

void filejob_end(struct filejob *f)
{
	(void)filejob_detach(f);
	if (f->release != NULL)
		f->release(f);
	json_decref(f->body);
	buf_free(&f->out);
	arena_free(&f->arena);
	free(f);
}

void filejob_answer(struct filejob *f)
{
	struct http_req *r = filejob_detach(f);

	if (r == NULL) {
		filejob_end(f);
		return;
	}
	if (f->status != 0)
		api_error(r, f->status, f->code, f->why);
	else if (f->out.len > 0 || buf_failed(&f->out))
		api_json(r, 200, &f->out);
	else
		api_ok(r);
	filejob_end(f);
}

static void on_work(struct job *j)
{
	struct filejob *f = CONTAINER_OF(j, struct filejob, job);

	f->work(f);
}

static void on_done(struct job *j)
{
	struct filejob *f = CONTAINER_OF(j, struct filejob, job);

	if (f->after != NULL)
		f->after(f);
	else
		filejob_answer(f);
}

void filejob_start(struct filejob *f, void (*work)(struct filejob *f))
{
	if (f->status != 0) {
		filejob_answer(f);
		return;
	}
	f->work = work;
	f->waiting = false;
	if (job_start(&f->x->loop, &f->job, on_work, on_done, NULL) < 0) {
		filejob_fail(f, 500, API_RUNTIME_ERROR, "cannot start a job");
		filejob_answer(f);
	}
}

PRINTF(4, 0)
static void set_failure(struct filejob *f, int status, const char *code, const char *fmt,
			va_list ap)
{
	if (f->status != 0)
		return;
	if (f->arena.starved && status < 500) { /* not the client's fault, see api_error */
		f->status = 500;
		f->code = API_RUNTIME_ERROR;
		(void)snprintf(f->why, sizeof(f->why), "out of memory");
		return;
	}
	f->status = status;
	f->code = code;
	(void)vsnprintf(f->why, sizeof(f->why), fmt, ap);
}

void filejob_fail(struct filejob *f, int status, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_failure(f, status, code, fmt, ap);
	va_end(ap);
}

void filejob_refuse(struct filejob *f, int status, const char *code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	set_failure(f, status, code, fmt, ap);
	va_end(ap);
	filejob_answer(f);
}

void filejob_fail_err(struct filejob *f, const struct err *e)
{
	if (e->code == ENOENT)
		filejob_fail(f, 404, API_FILE_NOT_FOUND, "file not found. %s", e->msg);
	else
		filejob_fail(f, 500, API_RUNTIME_ERROR, "error accessing file: %s", e->msg);
}

void filejob_fail_file(struct filejob *f, const struct err *e)
{
	if (e->code == EISDIR || e->code == EMEDIUMTYPE)
		filejob_fail(f, 400, API_INVALID_FILE, "%s", e->msg);
	else
		filejob_fail_err(f, e);
}

const char *filejob_path(struct filejob *f, struct span path)
{
	autofree char *full = NULL;
	struct err e = ERR_INIT;
	const char *copy;

	if (env_expand_path(f->x, path, &full, &e) < 0) {
		if (e.code == ENOMEM)
			filejob_fail_err(f, &e);
		else
			filejob_fail(f, 400, API_INVALID_BODY, "invalid path: %s", e.msg);
		return NULL;
	}
	copy = arena_strdup(&f->arena, full);
	if (copy == NULL)
		filejob_fail(f, 413, API_INVALID_BODY, "too many paths");
	return copy;
}

static unsigned count_query(struct span query, const char *key)
{
	struct span raw_key, raw_value;
	unsigned n = 0;

	while (url_query_next(&query, &raw_key, &raw_value))
		n += url_decodes_to(raw_key, URL_QUERY, span_str(key));
	return n;
}

bool filejob_query_paths(struct filejob *f, struct filejob_paths *ret)
{
	unsigned n = count_query(f->req->head->query, "path");
	struct filejob_paths p = { .n = n };

	p.items = arena_alloc(&f->arena, MAX(n, 1u) * sizeof(p.items[0]));
	for (unsigned i = 0; i < n; i++) {
		struct span sent = http_query(f->req, "path", i);

		if (sent.p == NULL) {
			filejob_fail(f, 400, API_INVALID_BODY, "invalid query parameter 'path'");
			return false;
		}
		if (p.items != NULL)
			p.items[i].sent = arena_dup(&f->arena, sent);
		if (p.items == NULL || p.items[i].sent == NULL) {
			filejob_fail(f, 413, API_INVALID_BODY, "too many paths");
			return false;
		}
		p.items[i].path = filejob_path(f, sent);
		if (p.items[i].path == NULL)
			return false;
	}
	*ret = p;
	return true;
}

struct users *filejob_users(struct filejob *f)
{
	struct users *u = users_load();

	if (u == NULL)
		filejob_fail(f, 500, API_RUNTIME_ERROR, "out of memory");
	return u;
}
