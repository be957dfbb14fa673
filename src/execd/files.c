/* Files by name: what they are, whose they are, and away with them. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "execd/fileinfo.h"
#include "execd/filejob.h"
#include "execd/permjob.h"
#include "execd/walk.h"

/* --- GET /files/info --- */

static void info_work(struct filejob *f)
{
	const struct filejob_paths *p = f->user;
	AUTO(users_free) struct users *u = filejob_users(f);
	struct jw w = JW_INIT(&f->out);

	if (u == NULL)
		return;
	jw_object(&w);
	for (unsigned i = 0; i < p->n; i++) {
		struct err e = ERR_INIT;
		struct statx st;
		int r = walk_stat(p->items[i].path, &st);

		if (r < 0) {
			(void)err_code(&e, r, "%s", p->items[i].path);
			filejob_fail_err(f, &e);
			return;
		}
		jw_key(&w, p->items[i].sent);
		fileinfo_write(&w, p->items[i].path, &st, u);
	}
	jw_end(&w);
}

/* --- DELETE /files --- */

static void delete_work(struct filejob *f)
{
	const struct filejob_paths *p = f->user;

	for (unsigned i = 0; i < p->n && f->status == 0; i++) {
		const char *path = p->items[i].path;
		struct err e = ERR_INIT;
		struct stat st;

		if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
			continue;
		(void)err_sys(&e, "remove %s", path);
		if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
			filejob_fail(f, 500, API_RUNTIME_ERROR, "path is a directory: %s", path);
		else
			filejob_fail_err(f, &e);
	}
}

/* A job about all paths of the query. */
static void with_paths(struct http_req *r, void (*work)(struct filejob *f))
{
	struct filejob *f = filejob_new(r);
	struct filejob_paths *p;

	if (f == NULL)
		return;
	p = arena_alloc(&f->arena, sizeof(*p));
	if (p == NULL) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
	} else {
		(void)filejob_query_paths(f, p);
		f->user = p;
		filejob_start(f, work);
	}
}

void files_info(struct http_req *r)
{
	with_paths(r, info_work);
}

void files_delete(struct http_req *r)
{
	with_paths(r, delete_work);
}

/* --- POST /files/permissions --- */

static void permissions_work(struct filejob *f)
{
	const struct permjob *c = f->user;
	AUTO(users_free) struct users *u = filejob_users(f);
	struct err e = ERR_INIT;

	for (size_t i = 0; u != NULL && i < c->n; i++) {
		struct perm p;

		if (perm_resolve(&c->items[i].want, u, &p, &e) < 0 ||
		    perm_apply(&p, c->items[i].path, &e) < 0) {
			filejob_fail_err(f, &e);
			return;
		}
		/* nothing to change is still a question about a file */
		if (access(c->items[i].path, F_OK) < 0) {
			(void)err_sys(&e, "%s", c->items[i].path);
			filejob_fail_err(f, &e);
			return;
		}
	}
}

static void permissions_body(struct http_req *r, struct span body)
{
	permjob_start(r, body, permissions_work);
}

void files_permissions(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, permissions_body);
}
