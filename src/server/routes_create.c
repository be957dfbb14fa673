/* POST /sandboxes */
#include "server/create.h"
#include "server/request_create.h"
#include "server/routes.h"

static void on_created(struct waiter *w, struct sandbox *sb, enum error error, const char *why)
{
	struct http_req *r = api_waited(w);
	struct buf out = BUF_INIT(MIB(2));
	struct jw jw = JW_INIT(&out);
	const char *location;

	if (error != E_OK) {
		api_error(r, error, "%s", why);
		return;
	}
	sandbox_write(sb, false, &jw);
	location = arena_printf(&r->arena, "/v1/sandboxes/%s", sb->rec.id);
	if (location != NULL)
		http_header(r, "Location", location);
	if (buf_failed(&out) || !http_answerable(r)) /* nobody will know of it */
		manager_end(sb, CAUSE_DELETED, "the client could not be told of it");
	api_json(r, 202, &out);
}

static void on_body(struct http_req *r, json_t *body)
{
	struct manager *m = &api_server(r)->manager;
	struct creation *c = creation_new();
	struct refusal rf;

	if (c == NULL) {
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	if (api_server(r)->stopping) {
		creation_free(c);
		api_error(r, E_OVERLOADED, "the server is stopping");
		return;
	}
	if (!request_create(m, body, c, &rf)) {
		creation_free(c);
		api_refusal(r, &rf);
		return;
	}
	c->started_us = api_call(r)->started_us;
	creation_start(m, c, api_wait(r, NULL, on_created), &api_call(r)->creation);
}

void route_create(struct http_req *r)
{
	api_read_json(r, false, on_body);
}
