/* Every route, once; each is served with and without /v1 in front. */
#include "server/routes.h"

static void route_health(struct http_req *r)
{
	struct buf out = BUF_INIT(64);

	(void)buf_add_str(&out, "{\"status\":\"healthy\"}");
	api_json(r, 200, &out);
}

static void route_ready(struct http_req *r)
{
	struct server *s = api_server(r);
	struct buf out = BUF_INIT(KIB(2));
	struct jw w = JW_INIT(&out);

	if (s->stopping || !s->driver->ops->is_up(s->driver)) {
		api_error(r, E_RUNTIME_DOWN, "%s",
			  s->stopping ? "the server is stopping" : "the runtime cannot be reached");
		return;
	}
	jw_object(&w);
	jw_field_cstr(&w, "status", "ready");
	jw_field_cstr(&w, "runtime", s->driver->ops->name);
	if (s->manager.missing[0] != '\0')
		jw_field_cstr(&w, "missing", s->manager.missing);
	jw_end(&w);
	api_json(r, 200, &out);
}

static void metrics_event_read(struct http_req *r, struct span body)
{
	(void)body; /* a client's word about its own latency; accepted, not kept */
	api_empty(r, 204);
}

static void route_metrics_event(struct http_req *r)
{
	http_read_body(r, KIB(64), metrics_event_read);
}

/* What is not there yet says so, whatever it is asked. */
static void route_no_snapshots(struct http_req *r)
{
	api_error(r, E_SNAPSHOT_NOT_IMPLEMENTED, "this runtime has no snapshots");
}

static void route_no_pools(struct http_req *r)
{
	api_error(r, E_POOL_NOT_SUPPORTED, "this runtime has no pools");
}

#define ROW(method, path, handler, doc)               \
	{                                             \
		H1_##method, path, handler, NULL, doc \
	}

const struct http_route api_routes[] = {
	ROW(GET, "/health", route_health, "the process lives; needs no key"),
	ROW(GET, "/readyz", route_ready, "it can make sandboxes (503 if not); needs no key"),
	ROW(GET, "/metrics", route_metrics, "Prometheus text; key also as bearer token"),
	ROW(POST, "/sandboxes", route_create, "202; create"),
	ROW(GET, "/sandboxes", route_list, "list; `state`, `metadata`, `page`, `pageSize`"),
	ROW(GET, "/sandboxes/{id}", route_get, "one; `includeTerminated`"),
	ROW(DELETE, "/sandboxes/{id}", route_delete, "204; end it, whatever its state"),
	ROW(PATCH, "/sandboxes/{id}/metadata", route_metadata, "JSON merge patch"),
	ROW(POST, "/sandboxes/{id}/pause", route_pause, "202; freeze its processes"),
	ROW(POST, "/sandboxes/{id}/resume", route_resume, "202; let them go on"),
	ROW(POST, "/sandboxes/{id}/renew-expiration", route_renew,
	    "another `expiresAt`, later or earlier"),
	ROW(GET, "/sandboxes/{id}/endpoints/{port}", route_endpoint,
	    "where a port is reached, and with which headers"),
	ROW(GET, "/sandboxes/{id}/diagnostics/logs", route_logs,
	    "output of its main process; `scope`, or `tail` and `since` for text"),
	ROW(GET, "/sandboxes/{id}/diagnostics/events", route_events,
	    "what happened to it; `scope`, or `limit` for text"),
	ROW(GET, "/sandboxes/{id}/diagnostics/inspect", route_inspect, "facts, as text"),
	ROW(GET, "/sandboxes/{id}/diagnostics/summary", route_summary, "all three, as text"),
	ROW(POST, "/metrics/events", route_metrics_event, "204; clients' own timings, not kept"),
	ROW(POST, "/sandboxes/{id}/snapshots", route_no_snapshots, "501"),
	ROW(GET, "/snapshots", route_no_snapshots, "501"),
	ROW(GET, "/snapshots/{snapshot}", route_no_snapshots, "501"),
	ROW(DELETE, "/snapshots/{snapshot}", route_no_snapshots, "501"),
	ROW(POST, "/pools", route_no_pools, "501"),
	ROW(GET, "/pools", route_no_pools, "501"),
	ROW(GET, "/pools/{pool}", route_no_pools, "501"),
	ROW(PUT, "/pools/{pool}", route_no_pools, "501"),
	ROW(DELETE, "/pools/{pool}", route_no_pools, "501"),
};
const unsigned api_n_routes = ARRAY_LEN(api_routes);

void route_docs(struct buf *out)
{
	(void)buf_add_str(out, "| Method | Path | What |\n|---|---|---|\n");
	for (unsigned i = 0; i < api_n_routes; i++)
		(void)buf_printf(out, "| %s | `%s` | %s |\n",
				 h1_method_name((enum h1_method)api_routes[i].method),
				 api_routes[i].path, api_routes[i].doc);
}
