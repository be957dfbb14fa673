/* Making and removing directories; tree.c lists them. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "execd/filejob.h"
#include "execd/mkdirs.h"
#include "execd/permjob.h"
#include "execd/rmtree.h"

/* --- POST /directories --- */

/* A directory that was there already keeps its mode and owner. */
static int make_one(const struct permjob_item *it, const struct users *u, struct err *e)
{
	unsigned made;
	struct perm p;
	int r;

	r = perm_resolve(&it->want, u, &p, e);
	if (r == 0)
		r = mkdirs(it->path, 0777, &made, e);
	if (r == 0 && made > 0)
		r = perm_apply(&p, it->path, e);
	return r;
}

static void make_work(struct filejob *f)
{
	const struct permjob *d = f->user;
	AUTO(users_free) struct users *u = filejob_users(f);
	struct err e = ERR_INIT;

	for (size_t i = 0; u != NULL && i < d->n; i++) {
		if (make_one(&d->items[i], u, &e) < 0) {
			filejob_fail(f, 500, API_RUNTIME_ERROR, "error making directory: %s",
				     e.msg);
			return;
		}
	}
}

static void make_body(struct http_req *r, struct span body)
{
	permjob_start(r, body, make_work);
}

void directories_make(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, make_body);
}

/* --- DELETE /directories --- */

static void delete_work(struct filejob *f)
{
	const struct filejob_paths *p = f->user;
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < p->n; i++) {
		if (rmtree(p->items[i].path, &e) < 0) {
			filejob_fail_err(f, &e);
			return;
		}
	}
}

void directories_delete(struct http_req *r)
{
	struct filejob *f = filejob_new(r);
	struct filejob_paths *p;

	if (f == NULL)
		return;
	p = arena_alloc(&f->arena, sizeof(*p));
	if (p == NULL) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	if (!filejob_query_paths(f, p))
		p->n = 0;
	for (unsigned i = 0; i < p->n; i++)
		/* an empty path would be our own directory: surely not what was meant */
		if (p->items[i].sent[0] == '\0' || strcmp(p->items[i].path, "/") == 0)
			filejob_fail(f, 400, API_INVALID_BODY, "refusing to delete '%s'",
				     p->items[i].sent);
	f->user = p;
	filejob_start(f, delete_work);
}
