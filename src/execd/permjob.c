#include "execd/permjob.h"

static void read_items(struct filejob *f, json_t *root, struct permjob *p)
{
	struct err e = ERR_INIT;
	const char *key;
	json_t *v;

	json_object_foreach (root, key, v) {
		struct permjob_item *it = &p->items[p->n++];

		if ((!json_is_null(v) && json_need_object(v, &e) < 0) ||
		    perm_read(json_is_null(v) ? NULL : v, &it->want, &e) < 0) {
			filejob_fail(f, 400, API_INVALID_BODY,
				     "error parsing request, MAYBE invalid body format. %s", e.msg);
			return;
		}
		it->path = filejob_path(f, span_str(key));
	}
}

void permjob_start(struct http_req *r, struct span body, void (*work)(struct filejob *f))
{
	struct permjob *p;
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
	f->user = p;
	read_items(f, root, p);
	filejob_start(f, work);
}
