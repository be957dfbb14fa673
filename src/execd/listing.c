/* GET /files/search and GET /directories/list: trees of any size as one JSON array.
 *
 * The walk is done in steps, each a job of its own that fills a bounded piece of the answer. The
 * next step begins when the client has taken enough of the last, so that neither memory nor a
 * thread is held by a slow reader. A short answer is one step and goes out with its length. */
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "codec/glob.h"
#include "execd/fileinfo.h"
#include "execd/filejob.h"
#include "execd/walk.h"

#define STEP_BYTES   KIB(48)
#define STEP_ENTRIES 4096 /* looked at, whether they match or not */

struct listing {
	const char *path;
	struct walk walk;
	struct users *users;
	struct jw w;
	struct glob glob;
	unsigned depth;
	bool search;   /* files that match; otherwise everything */
	bool opened;   /* the walk has begun */
	bool started;  /* the answer has */
	bool finished; /* the walk is through */
};

static bool wanted(const struct listing *l, const struct walk_entry *it)
{
	struct span text;

	if (!l->search)
		return true;
	if (S_ISDIR(it->st.stx_mode))
		return false;
	if (!l->glob.has_slash)
		text = span_str(it->name);
	else /* a pattern that begins with a slash means whole paths */
		text = span_str(l->glob.absolute ? it->path : it->relative);
	return glob_match(&l->glob, text);
}

/* The root of a search may be a file. */
static void search_file(struct filejob *f, const struct statx *st)
{
	struct listing *l = f->user;
	const char *name = path_base(l->path);
	struct walk_entry it = { .path = l->path, .relative = name, .name = name, .st = *st };

	if (wanted(l, &it))
		fileinfo_write(&l->w, l->path, st, l->users);
	l->finished = true;
}

static void begin(struct filejob *f)
{
	struct listing *l = f->user;
	struct err e = ERR_INIT;
	struct statx st;
	struct stat target;
	int r = walk_stat(l->path, &st);

	l->users = filejob_users(f);
	if (l->users == NULL)
		return;
	if (r < 0) {
		(void)err_code(&e, r, "%s", l->path);
		filejob_fail_err(f, &e);
		return;
	}
	l->w = JW_INIT(&f->out);
	jw_array(&l->w);
	l->opened = true;
	if (!l->search && !S_ISDIR(st.stx_mode)) {
		filejob_fail(f, 400, API_INVALID_BODY, "path is %s directory: %s",
			     S_ISLNK(st.stx_mode) ? "a symbolic link, not a" : "not a", l->path);
		return;
	}
	if (l->search && !S_ISDIR(st.stx_mode) &&
	    (stat(l->path, &target) < 0 || !S_ISDIR(target.st_mode))) {
		search_file(f, &st);
		return;
	}
	if (walk_open(&l->walk, l->path, l->depth, &e) < 0)
		filejob_fail_err(f, &e);
}

static void step_work(struct filejob *f)
{
	struct listing *l = f->user;
	struct walk_entry it;
	int r = 1;

	if (!l->opened)
		begin(f);
	for (unsigned i = 0; f->status == 0 && !l->finished && i < STEP_ENTRIES; i++) {
		struct err e = ERR_INIT;

		if (f->out.len >= STEP_BYTES)
			return;
		r = walk_next(&l->walk, &it, &e);
		if (r < 0)
			filejob_fail_err(f, &e);
		else if (r == 0)
			l->finished = true;
		else if (wanted(l, &it))
			fileinfo_write(&l->w, it.path, &it.st, l->users);
	}
	if (l->finished)
		jw_end(&l->w);
}

static void listing_drain(struct http_req *r)
{
	struct filejob *f = r->user;

	if (f != NULL && f->waiting)
		filejob_start(f, step_work);
}

/* A step is done: send it, and see whether to go on. */
static void listing_after(struct filejob *f)
{
	struct listing *l = f->user;
	struct http_req *r = f->req;
	int full;

	if (!l->started && (r == NULL || f->status != 0 || l->finished)) {
		filejob_answer(f);
		return;
	}
	if (r == NULL) {
		filejob_end(f);
		return;
	}
	if (f->status != 0 || buf_failed(&f->out)) { /* too late for another answer */
		filejob_end(f);
		http_abort(r);
		return;
	}
	if (!l->started) {
		l->started = true;
		r->on_drain = listing_drain;
		http_header(r, "Content-Type", API_JSON_TYPE);
		http_start(r, 200, HTTP_LENGTH_UNKNOWN);
	}
	full = http_write(r, f->out.data, f->out.len);
	buf_clear(&f->out);
	if (f->req == NULL || full < 0) {
		filejob_end(f);
	} else if (l->finished) {
		filejob_end(f);
		http_end(r);
	} else if (full != WIRE_FULL) {
		filejob_start(f, step_work);
	} else {
		filejob_wait(f);
	}
}

static void listing_release(struct filejob *f)
{
	struct listing *l = f->user;

	walk_close(&l->walk);
	users_free(l->users);
	glob_free(&l->glob);
}

/* The client went while it was waited for. */
static void listing_gone(struct filejob *f)
{
	filejob_end(f);
}

static struct filejob *listing_new(struct http_req *r, const char *path)
{
	struct filejob *f = filejob_new(r);
	struct listing *l;

	if (f == NULL)
		return NULL;
	l = arena_zalloc(&f->arena, sizeof(*l));
	if (l == NULL) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
		return NULL;
	}
	f->user = l;
	f->release = listing_release;
	l->path = filejob_path(f, span_str(path));
	f->after = listing_after;
	f->gone = listing_gone;
	return f;
}

void files_search(struct http_req *r)
{
	struct span pattern = http_query(r, "pattern", 0);
	const char *path = api_need_query(r, "path");
	struct err e = ERR_INIT;
	struct listing *l;
	struct filejob *f;

	f = path != NULL ? listing_new(r, path) : NULL;
	if (f == NULL)
		return;
	l = f->user;
	l->search = true;
	l->depth = WALK_UNLIMITED;
	if (pattern.len == 0)
		pattern = SPAN_LIT("**");
	if (glob_init(&l->glob, pattern, &e) < 0)
		filejob_fail(f, 500, API_RUNTIME_ERROR, "error searching files: %s", e.msg);
	filejob_start(f, step_work);
}

void directories_list(struct http_req *r)
{
	struct span depth = http_query(r, "depth", 0);
	const char *path = api_need_query(r, "path");
	struct listing *l;
	struct filejob *f;
	uint64_t n = 1;

	if (path == NULL)
		return;
	if (depth.len > 0 && !span_u64(depth, &n)) {
		api_error(r, 400, API_INVALID_BODY, "depth must be a number, 0 or greater");
		return;
	}
	f = listing_new(r, path);
	if (f == NULL)
		return;
	l = f->user;
	l->depth = (unsigned)MIN(n, WALK_UNLIMITED);
	filejob_start(f, step_work);
}
