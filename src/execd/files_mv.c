/* POST /files/mv: [{src, dest}, ...] */
#include "execd/filejob.h"
#include "execd/move.h"

struct moves {
	size_t n;
	struct {
		const char *src, *dest;
	} items[];
};

static void mv_work(struct filejob *f)
{
	const struct moves *m = f->user;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < m->n; i++) {
		if (move(m->items[i].src, m->items[i].dest, &e) == 0)
			continue;
		if (e.code == ENOENT)
			filejob_fail_err(f, &e);
		else
			filejob_fail(f, 500, API_RUNTIME_ERROR, "error moving file: %s", e.msg);
		return;
	}
}

static void read_items(struct filejob *f, const json_t *list, struct moves *m)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *v = json_array_get(list, i);
		struct span src = SPAN_LIT(""), dest = SPAN_LIT("");
		struct err e = ERR_INIT;

		if (json_need_object(v, &e) < 0 ||
		    json_get_span(v, "src", JSON_ANY_CASE | JSON_MUST, &src, &e) < 0 ||
		    json_get_span(v, "dest", JSON_ANY_CASE | JSON_MUST, &dest, &e) < 0) {
			filejob_fail(f, 400, API_INVALID_BODY,
				     "error parsing request, MAYBE invalid body format. %s", e.msg);
			return;
		}
		if (src.len == 0 || dest.len == 0) {
			filejob_fail(f, 400, API_INVALID_BODY, "src and dest must not be empty");
			return;
		}
		m->items[i].src = filejob_path(f, src);
		m->items[i].dest = filejob_path(f, dest);
		m->n++;
	}
}

static void mv_body(struct http_req *r, struct span body)
{
	struct err e = ERR_INIT;
	struct filejob *f;
	struct moves *m;
	json_t *list;

	if (!api_parse_value(r, body, &list))
		return;
	if (list != NULL && !json_is_null(list) && json_need_array(list, &e) < 0) {
		api_invalid_err(r, &e);
		json_decref(list);
		return;
	}
	f = filejob_new(r);
	if (f == NULL) {
		json_decref(list);
		return;
	}
	f->body = list;
	m = arena_zalloc(&f->arena, sizeof(*m) + json_array_size(list) * sizeof(m->items[0]));
	if (m == NULL) {
		filejob_refuse(f, 413, API_INVALID_BODY, "too many paths");
		return;
	}
	f->user = m;
	read_items(f, list, m);
	filejob_start(f, mv_work);
}

void files_mv(struct http_req *r)
{
	http_read_body(r, API_MAX_BODY, mv_body);
}
