/* POST /files/replace: {path: {old, new}, ...} */
#include "execd/filejob.h"
#include "execd/replace.h"

struct replacements {
	bool verbose;
	size_t n;
	struct {
		const char *sent, *path;
		struct span old, new;
	} items[];
};

static void replace_work(struct filejob *f)
{
	const struct replacements *p = f->user;
	struct jw w = JW_INIT(&f->out);
	struct err e = ERR_INIT;

	if (p->verbose)
		jw_object(&w);
	for (size_t i = 0; i < p->n; i++) {
		uint64_t count;

		if (replace_in_file(p->items[i].path, p->items[i].old, p->items[i].new, &count,
				    &e) < 0) {
			filejob_fail_file(f, &e);
			return;
		}
		if (p->verbose) {
			jw_key(&w, p->items[i].sent);
			jw_object(&w);
			jw_field_u64(&w, "replacedCount", count);
			jw_end(&w);
		}
	}
	if (p->verbose)
		jw_end(&w);
}

static void read_items(struct filejob *f, json_t *root, struct replacements *p)
{
	const char *key;
	json_t *v;

	json_object_foreach (root, key, v) {
		struct span old = SPAN_LIT(""), new = SPAN_LIT("");
		struct err e = ERR_INIT;

		if ((!json_is_null(v) && json_need_object(v, &e) < 0) ||
		    json_get_span(v, "old", JSON_ANY_CASE, &old, &e) < 0 ||
		    json_get_span(v, "new", JSON_ANY_CASE, &new, &e) < 0) {
			filejob_fail(f, 400, API_INVALID_BODY,
				     "error parsing request, MAYBE invalid body format. %s", e.msg);
			return;
		}
		if (old.len == 0) {
			filejob_fail(f, 400, API_INVALID_BODY, "old content must not be empty");
			return;
		}
		p->items[p->n].sent = key;
		p->items[p->n].old = old;
		p->items[p->n].new = new;
		p->items[p->n].path = filejob_path(f, span_str(key));
		p->n++;
	}
}

static void replace_body(struct http_req *r, struct span body)
{
	struct replacements *p;
	struct filejob *f;
	json_t *root;

	if (!api_parse(r, body, false, &root))
		return;
	f = filejob_new(r);
	if (f == NULL) {
		json_decref(root);
		return;
	}
	f->body = root;
	p = arena_zalloc(&f->arena, sizeof(*p) + json_object_size(root) * sizeof(p->items[0]));
	if (p == NULL) {
		filejob_refuse(f, 413, API_INVALID_BODY, "too many paths");
		return;
	}
	p->verbose = span_is(http_query(r, "verbose", 0), "true");
	f->user = p;
	read_items(f, root, p);
	filejob_start(f, replace_work);
}

void files_replace(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, replace_body);
}
