/* /proxy/{port}/{path...}: services on 127.0.0.1 of this sandbox.
 *
 * Our own port is answered here, without a connection to ourselves: some servers give clients
 * "host/proxy/44772" as our address, so that it is the way most requests come. Any other has a pool
 * of connections that goes when nobody has used it for a while. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "execd/api.h"
#include "http/proxy.h"

#define WELL_KNOWN_PORT 44772
#define IDLE_MS         60000
#define MAX_PORTS       64 /* pools kept; those in use do not count */

struct port_proxy {
	struct execd *x;
	struct list ports; /* of struct port, those used last in front */
	struct deadline_queue idle;
	unsigned n_ports;
};

struct port {
	struct port_proxy *all;
	struct list link;
	struct deadline idle;
	struct http_upstream *upstream;
	unsigned active; /* exchanges and tunnels */
	uint16_t number;
};

static void port_free(struct port *p)
{
	deadline_clear(&p->idle);
	list_remove(&p->link);
	p->all->n_ports--;
	http_upstream_free(p->upstream);
	free(p);
}

static void port_expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	port_free(CONTAINER_OF(d, struct port, idle));
}

static void port_over(void *ctx)
{
	struct port *p = ctx;

	if (--p->active == 0)
		deadline_set(&p->all->idle, &p->idle);
}

static struct port_proxy *proxy_of(struct execd *x)
{
	struct port_proxy *all = x->proxy;

	if (all != NULL)
		return all;
	all = calloc(1, sizeof(*all));
	if (all == NULL)
		return NULL;
	all->x = x;
	list_init(&all->ports);
	deadline_queue_init(&x->loop, &all->idle, IDLE_MS, port_expired);
	x->proxy = all;
	return all;
}

/* Make room: away with the one that has been idle longest. */
static void shrink(struct port_proxy *all)
{
	struct port *oldest = NULL;

	list_for_each (it, &all->ports) {
		struct port *p = LIST_ENTRY(it, struct port, link);

		if (p->active == 0)
			oldest = p;
	}
	if (oldest != NULL)
		port_free(oldest);
}

static struct port *port_new(struct port_proxy *all, uint16_t number)
{
	struct http_upstream_options opt = http_upstream_defaults;
	struct port *p = calloc(1, sizeof(*p));
	char address[32];

	if (p == NULL)
		return NULL;
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", number);
	opt.address = address;
	opt.response_timeout_ms = 0; /* a long poll is no failure */
	opt.max_connections = 4096;  /* as good as any: those in line may wait for each other */
	if (http_upstream_new(&all->x->loop, &opt, &p->upstream, NULL) < 0) {
		free(p);
		return NULL;
	}
	p->all = all;
	p->number = number;
	deadline_init(&p->idle);
	list_init(&p->link);
	if (++all->n_ports > MAX_PORTS)
		shrink(all);
	return p;
}

static struct port *port_of(struct execd *x, uint16_t number)
{
	struct port_proxy *all = proxy_of(x);
	struct port *found = NULL;

	if (all == NULL)
		return NULL;
	list_for_each (it, &all->ports) {
		struct port *p = LIST_ENTRY(it, struct port, link);

		if (p->number == number)
			found = p;
	}
	if (found == NULL)
		found = port_new(all, number);
	if (found == NULL)
		return NULL;
	list_remove(&found->link);
	list_push_front(&all->ports, &found->link);
	return found;
}

static void bad_gateway(struct http_req *r, int status, const char *why)
{
	(void)why;
	http_reply(r, status, API_TEXT_TYPE,
		   status == 504 ? SPAN_LIT("Gateway Timeout") : SPAN_LIT("Bad Gateway"));
}

/* --- taking the target apart --- */

/* "/proxy/8080/a?b" -> 8080 and "/a?b", raw. False: it is not of that form. */
static bool split_target(struct span target, struct span *ret_port, struct span *ret_rest)
{
	static const char prefix[] = "/proxy/";
	size_t len = 0;

	if (!span_starts(target, prefix))
		return false;
	target = span_skip(target, sizeof(prefix) - 1);
	while (len < target.len && target.p[len] != '/' && target.p[len] != '?')
		len++;
	*ret_port = span_first(target, len);
	*ret_rest = span_skip(target, len);
	return true;
}

static bool parse_port(struct span text, uint16_t *ret)
{
	uint64_t n;

	if (text.len > 5 || !span_u64(text, &n) || n == 0 || n > 65535)
		return false;
	*ret = (uint16_t)n;
	return true;
}

static bool is_ours(const struct execd *x, uint16_t port)
{
	return x->port != 0 ? port == x->port : port == WELL_KNOWN_PORT;
}

/* Back to the router, with what is behind the prefix as the target. */
static void serve_here(struct http_req *r, struct span rest)
{
	size_t size = offsetof(struct h1_head, fields) +
		      r->head->n_fields * sizeof(struct h1_field);
	struct h1_head *inner = arena_alloc(&r->arena, size);
	ptrdiff_t mark = span_find(rest, '?');

	if (inner == NULL) {
		http_refuse(r, 500, "out of memory");
		return;
	}
	memcpy(inner, r->head, size);
	inner->target = rest;
	inner->path = mark < 0 ? rest : span_first(rest, (size_t)mark);
	inner->query = mark < 0 ? span_of(NULL, 0) : span_skip(rest, (size_t)mark + 1);
	r->head = inner;
	api_route(r);
}

void proxy_handle(struct http_req *r)
{
	static const char *const secret[] = { "X-EXECD-ACCESS-TOKEN", NULL };
	struct execd *x = execd_of(r);
	struct span target = r->head->target, text, rest;
	struct port *p;
	uint16_t port;

	/* "/proxy/44772/proxy/44772/..." is taken off in one go */
	for (;;) {
		if (!split_target(target, &text, &rest)) {
			if (target.p != r->head->target.p) {
				serve_here(r, target);
				return;
			}
			text.len = 0; /* "/proxy" alone, or "proxy" with percent-escapes */
		}
		if (text.len == 0) {
			http_reply(r, 400, API_TEXT_TYPE, SPAN_LIT("port is required"));
			return;
		}
		if (!parse_port(text, &port)) {
			http_reply(r, 400, API_TEXT_TYPE, SPAN_LIT("invalid port"));
			return;
		}
		if (rest.len == 0 || rest.p[0] == '?') {
			char *slashed = arena_printf(&r->arena, "/%.*s", SPAN_FMT(rest));

			rest = span_str(slashed != NULL ? slashed : "/");
		}
		if (!is_ours(x, port))
			break;
		target = rest;
	}
	p = port_of(x, port);
	if (p == NULL) {
		http_refuse(r, 500, "out of memory");
		return;
	}
	p->active++;
	deadline_clear(&p->idle);
	http_proxy(r, p->upstream,
		   &(struct http_proxy_options){
			   .target = rest,
			   .strip = secret,
			   .forwarded = true,
			   .failed = bad_gateway,
			   .over = port_over,
			   .ctx = p,
		   });
}
