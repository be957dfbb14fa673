#include "server/gateway.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "http/proxy.h"
#include "server/api.h"

#define MAX_PORTS 64 /* of one sandbox, with connections kept to them */

/* --- the path --- */

struct route_parts {
	struct span id;
	uint64_t port;
	struct span rest; /* from behind the port to the end of the target */
};

static bool skip_text(struct span *s, const char *text)
{
	if (!span_starts(*s, text))
		return false;
	*s = span_skip(*s, strlen(text));
	return true;
}

static bool split(struct span path, struct route_parts *ret)
{
	size_t n = 0;

	(void)skip_text(&path, "/v1");
	if (!skip_text(&path, "/sandboxes/"))
		return false;
	while (n < path.len && path.p[n] != '/')
		n++;
	ret->id = span_first(path, n);
	path = span_skip(path, n);
	if (n == 0 || !skip_text(&path, "/proxy/"))
		return false;
	for (n = 0; n < path.len && path.p[n] >= '0' && path.p[n] <= '9'; n++)
		;
	if (n == 0 || (n < path.len && path.p[n] != '/') ||
	    !span_u64(span_first(path, n), &ret->port))
		return false;
	ret->rest = span_skip(path, n);
	return true;
}

bool gateway_is_path(struct span path)
{
	struct route_parts parts;

	return split(path, &parts);
}

/* --- ports --- */

/* Something that listens inside. */
struct port {
	struct list link; /* sandbox.ports, the last used first */
	struct sandbox *sb;
	struct http_upstream *upstream;
	uint16_t number;
	unsigned users;
};

/* A connection being made. It outlives the port that asked for it. */
struct dial {
	struct driver_call call;
	struct driver *driver;
	struct http_dial *http;
	char id[64];
	uint16_t port;
	bool ip6;
};

static void dial_start(struct dial *d);

static void on_dialed(struct driver_call *c, int error, const char *why)
{
	struct dial *d = CONTAINER_OF(c, struct dial, call);
	socklen_t len = sizeof(error);
	int fd = error == 0 ? c->fd : -EBADF;

	/* On loopback the verdict is there at once. Who listens on ::1 only gets a second
	 * chance. */
	if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error != 0) {
		fd_close(&fd);
		error = -error;
		why = "nothing listens at that port";
	}
	if (error == -ECONNREFUSED && !d->ip6) {
		d->ip6 = true;
		dial_start(d);
		return;
	}
	http_dialed(d->http, error == 0 ? fd : error, why);
	free(d);
}

static void dial_start(struct dial *d)
{
	d->call.done = on_dialed;
	d->driver->ops->dial(d->driver, d->id, d->port, d->ip6, &d->call);
}

static void dial_port(void *ctx, struct http_dial *http)
{
	struct port *p = ctx;
	struct dial *d = calloc(1, sizeof(*d));

	if (d == NULL) {
		http_dialed(http, -ENOMEM, "out of memory");
		return;
	}
	d->driver = p->sb->manager->driver;
	d->http = http;
	d->port = p->number;
	(void)span_copy(span_str(p->sb->rec.id), d->id, sizeof(d->id));
	dial_start(d);
}

static void port_free(struct port *p)
{
	list_remove(&p->link);
	http_upstream_free(p->upstream);
	free(p);
}

/* Room for one more: the longest unused goes. */
static bool make_room(struct sandbox *sb)
{
	unsigned n = 0;

	list_for_each (it, &sb->ports)
		n++;
	if (n < MAX_PORTS)
		return true;
	for (struct list *it = sb->ports.prev; it != &sb->ports; it = it->prev) {
		struct port *p = LIST_ENTRY(it, struct port, link);

		if (p->users == 0) {
			port_free(p);
			return true;
		}
	}
	return false;
}

static struct port *port_get(struct sandbox *sb, uint16_t number)
{
	struct http_upstream_options opt = http_upstream_defaults;
	struct port *p;

	list_for_each (it, &sb->ports) {
		p = LIST_ENTRY(it, struct port, link);
		if (p->number == number) {
			list_remove(&p->link);
			list_push_front(&sb->ports, &p->link);
			return p;
		}
	}
	p = make_room(sb) ? calloc(1, sizeof(*p)) : NULL;
	if (p == NULL)
		return NULL;
	p->sb = sb;
	p->number = number;
	opt.dial = dial_port;
	opt.dial_ctx = p;
	opt.max_idle = 32;           /* a new one goes through the runner */
	opt.response_timeout_ms = 0; /* services may think as long as their client waits */
	if (http_upstream_new(sb->manager->loop, &opt, &p->upstream, NULL) < 0) {
		free(p);
		return NULL;
	}
	list_push_front(&sb->ports, &p->link);
	return p;
}

void gateway_close(struct sandbox *sb)
{
	http_upstream_free(TAKE(sb->execd));
	while (!list_empty(&sb->ports))
		port_free(LIST_ENTRY(sb->ports.next, struct port, link));
}

/* --- one exchange --- */

struct passage {
	struct sandbox *sb;
	uint16_t number; /* 0: execd */
};

static struct port *passage_port(const struct passage *p)
{
	list_for_each (it, &p->sb->ports) {
		struct port *port = LIST_ENTRY(it, struct port, link);

		if (port->number == p->number)
			return port;
	}
	return NULL;
}

static void on_activity(void *ctx)
{
	struct passage *p = ctx;

	manager_touch(p->sb);
}

static void on_over(void *ctx)
{
	struct passage *p = ctx;
	struct port *port = passage_port(p);

	if (port != NULL && port->users > 0)
		port->users--;
	sandbox_drop(p->sb);
	free(p);
}

static void on_failed(struct http_req *r, int status, const char *why)
{
	api_server(r)->manager.metrics.gateway_failed++;
	api_set_request_id(r);
	api_error(r,
		  status == 504   ? E_UPSTREAM_TIMEOUT
		  : status == 503 ? E_OVERLOADED
				  : E_UPSTREAM_FAILED,
		  "%s", why);
}

static void refuse_at_gate(struct http_req *r, enum error error, const char *why)
{
	api_set_request_id(r);
	api_error(r, error, "%s", why);
}

static bool has_secret(const struct http_req *r, const char *header, const char *secret)
{
	return span_eq_secret(http_field(r, header), span_str(secret));
}

static void pass_on(struct http_req *r, struct sandbox *sb, uint16_t number, struct span target)
{
	/* What is the server's stays with the server; an Authorization of the application's own
	 * passes, one that is the server's key does not. */
	const char *strip[6] = { "open-sandbox-api-key", "opensandbox-secure-access" };
	unsigned n_strip = 2;
	struct http_upstream *u;
	struct port *port = NULL;
	struct passage *p;

	if (number == GATEWAY_EXECD_PORT) {
		u = manager_execd(sb);
	} else {
		port = port_get(sb, number);
		u = port != NULL ? port->upstream : NULL;
	}
	p = u != NULL ? calloc(1, sizeof(*p)) : NULL;
	if (p == NULL) {
		refuse_at_gate(r, E_OVERLOADED, "too many ports of this sandbox are in use");
		return;
	}
	if (api_bears_key(r))
		strip[n_strip++] = "authorization";
	p->sb = sb;
	sandbox_hold(sb);
	if (port != NULL) {
		strip[n_strip++] = "x-execd-access-token";
		strip[n_strip++] = "opensandbox-egress-auth";
		p->number = number;
		port->users++;
	}
	manager_touch(sb);
	sb->manager->metrics.gateway_requests++;
	http_proxy(r, u,
		   &(struct http_proxy_options){
			   .target = target,
			   .strip = strip,
			   .forwarded = true,
			   .failed = on_failed,
			   .activity = on_activity,
			   .over = on_over,
			   .ctx = p,
		   });
}

/* "/x?y" of "/sandboxes/ID/proxy/PORT/x?y", its bytes as they came. */
static struct span target_of(struct http_req *r, struct span rest_of_path)
{
	struct span rest = rest_of_path;
	const char *made;

	/* path and query lie side by side in the target */
	rest.len = (size_t)(r->head->target.p + r->head->target.len - rest.p);
	if (rest.len > 0 && rest.p[0] == '/')
		return rest;
	made = arena_printf(&r->arena, "/%.*s", SPAN_FMT(rest));
	return made != NULL ? span_str(made) : SPAN_LIT("/");
}

void gateway_handle(struct http_req *r)
{
	struct route_parts parts;
	struct sandbox *sb;

	if (!split(r->head->path, &parts)) {
		refuse_at_gate(r, E_NOT_FOUND, "no such path");
		return;
	}
	if (parts.port < 1 || parts.port > UINT16_MAX) {
		refuse_at_gate(r, E_INVALID_PORT, "the port must be from 1 to 65535");
		return;
	}
	sb = manager_find(&api_server(r)->manager, parts.id, false);
	if (sb == NULL || sandbox_ended(sb)) {
		refuse_at_gate(r, E_SANDBOX_NOT_FOUND, "no such sandbox");
		return;
	}
	/* Our own services speak to pages of other origins; what an application says is its own
	 * business. */
	if ((parts.port == GATEWAY_EXECD_PORT || parts.port == GATEWAY_EGRESS_PORT) && api_cors(r))
		return;
	if (sb->rec.secure_token != NULL &&
	    !has_secret(r, GATEWAY_SECURE_HEADER, sb->rec.secure_token)) {
		refuse_at_gate(r, E_MISSING_TOKEN,
			       "the header " GATEWAY_SECURE_HEADER " is missing or wrong");
		return;
	}
	if (parts.port == GATEWAY_EXECD_PORT &&
	    !has_secret(r, GATEWAY_EXECD_HEADER, sb->rec.token)) {
		refuse_at_gate(r, E_MISSING_TOKEN,
			       "the header " GATEWAY_EXECD_HEADER " is missing or wrong");
		return;
	}
	if (parts.port == GATEWAY_EGRESS_PORT) {
		egress_handle(r, sb, parts.rest);
		return;
	}
	if (sb->state != SANDBOX_RUNNING || sb->creation != NULL || sb->ending != CAUSE_NONE) {
		refuse_at_gate(r, E_SANDBOX_NOT_READY, "the sandbox is not running");
		return;
	}
	pass_on(r, sb, (uint16_t)parts.port, target_of(r, parts.rest));
}
