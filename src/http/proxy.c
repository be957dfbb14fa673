/* Theory of operation. A request and a call are tied together; each side's bytes are written to the
 * other as they come, and a full side pauses the other until it drains. The request ends in one of
 * four ways: the answer is complete (http_end), no answer came (an answer of our own), the answer
 * broke off (the connection is cut, so that the client cannot take the part for the whole), or the
 * upstream agreed to change protocols (a tunnel). Whichever side goes first takes the other along:
 * `done` of the request cancels the call. */
#include "http/proxy.h"

#include <stdlib.h>
#include <string.h>

#include "http/tunnel.h"

struct proxy {
	struct http_req *req;
	struct http_call *call; /* NULL once it is over */
	struct http_proxy_options opt;
	bool upgrading; /* the request ends in a tunnel, which is not over yet */
};

static void active(const struct proxy *p)
{
	if (p->opt.activity != NULL)
		p->opt.activity(p->opt.ctx);
}

/* --- heads --- */

static bool is_one_of(struct span name, const struct h1_field *fields, unsigned n_fields)
{
	for (unsigned i = 0; i < n_fields; i++)
		if (span_caseeq(name, fields[i].name))
			return true;
	return false;
}

static bool is_stripped(struct span name, const char *const *strip)
{
	for (; strip != NULL && *strip != NULL; strip++)
		if (span_caseis(name, *strip))
			return true;
	return false;
}

static bool is_forwarding(struct span name)
{
	return span_caseis(name, "x-forwarded-for") || span_caseis(name, "x-forwarded-proto") ||
	       span_caseis(name, "x-forwarded-host");
}

/* Does a field of the client's go on to the upstream? Host is set apart; Expect was between the
 * client and us, who read the body in any case. */
static bool passes(const struct http_req *r, const struct http_proxy_options *opt, struct span name)
{
	if (h1_is_hop_by_hop(r->head, name) || span_caseis(name, "content-length") ||
	    span_caseis(name, "host") || span_caseis(name, "expect"))
		return false;
	if (opt->forwarded && is_forwarding(name))
		return false;
	return !is_stripped(name, opt->strip) && !is_one_of(name, opt->add, opt->n_add);
}

/* "192.0.2.1:4711" -> "192.0.2.1", "[::1]:80" -> "::1"; nothing for other peers. */
static struct span peer_address(struct http_req *r)
{
	struct span peer = span_str(http_peer(r));
	const char *colon = memrchr(peer.p, ':', peer.len);

	if (colon == NULL)
		return span_of(NULL, 0);
	peer.len = (size_t)(colon - peer.p);
	if (peer.len >= 2 && peer.p[0] == '[')
		peer = span_of(peer.p + 1, peer.len - 2);
	return peer;
}

/* All that came so far in the one field that lists them, and the client we see. */
static struct span forwarded_for(struct http_req *r)
{
	struct span peer = peer_address(r);
	const char *list = "";

	for (const struct h1_field *f = h1_find(r->head, "x-forwarded-for"); f != NULL;
	     f = h1_next(r->head, f))
		if (list != NULL && f->value.len > 0)
			list = arena_printf(&r->arena, "%s%s%.*s", list,
					    list[0] != '\0' ? ", " : "", SPAN_FMT(f->value));
	if (list != NULL && peer.len > 0)
		list = arena_printf(&r->arena, "%s%s%.*s", list, list[0] != '\0' ? ", " : "",
				    SPAN_FMT(peer));
	return span_str(list);
}

#define MAX_OWN_FIELDS 5 /* Host, Upgrade, X-Forwarded-... */

static void put(struct h1_field *fields, unsigned *n, const char *name, struct span value)
{
	if (value.len > 0)
		fields[(*n)++] = (struct h1_field){ span_str(name), value };
}

/* The fields for the upstream, in the request's arena; NULL when out of memory. */
static struct h1_field *request_fields(struct http_req *r, const struct http_proxy_options *opt,
				       unsigned *ret_n)
{
	const struct h1_head *head = r->head;
	struct h1_field *fields;
	unsigned n = 0;

	fields = arena_alloc(&r->arena,
			     (head->n_fields + opt->n_add + MAX_OWN_FIELDS) * sizeof(*fields));
	if (fields == NULL)
		return NULL;
	put(fields, &n, "Host", opt->host.p != NULL ? opt->host : head->host);
	for (unsigned i = 0; i < head->n_fields; i++)
		if (passes(r, opt, head->fields[i].name))
			fields[n++] = head->fields[i];
	for (unsigned i = 0; i < opt->n_add; i++)
		fields[n++] = opt->add[i];
	if (head->upgrade)
		put(fields, &n, "Upgrade", head->upgrade_to);
	if (opt->forwarded) {
		put(fields, &n, "X-Forwarded-For", forwarded_for(r));
		put(fields, &n, "X-Forwarded-Proto",
		    r->server->opt.secure != NULL ? SPAN_LIT("https") : SPAN_LIT("http"));
		put(fields, &n, "X-Forwarded-Host", head->host);
	}
	*ret_n = n;
	return fields;
}

/* Fields of the answer: all but those of the hop, the framing, and what the server says itself. */
static void reply_fields(const struct proxy *p, const struct h1_head *head)
{
	for (unsigned i = 0; i < head->n_fields; i++) {
		struct span name = head->fields[i].name;

		if (!h1_is_hop_by_hop(head, name) && !span_caseis(name, "content-length") &&
		    !span_caseis(name, "date") &&
		    !is_one_of(name, p->opt.add_reply, p->opt.n_add_reply))
			http_header_span(p->req, name, head->fields[i].value);
	}
	for (unsigned i = 0; i < p->opt.n_add_reply; i++)
		http_header_span(p->req, p->opt.add_reply[i].name, p->opt.add_reply[i].value);
}

/* --- from the upstream --- */

static void call_on_head(struct http_call *c, const struct h1_head *head)
{
	struct proxy *p = http_call_user(c);
	int64_t length = HTTP_LENGTH_UNKNOWN;

	if (head->has_length && head->length <= INT64_MAX)
		length = (int64_t)head->length;
	reply_fields(p, head);
	active(p);
	http_start(p->req, head->status, length);
}

static void call_on_data(struct http_call *c, struct span data)
{
	struct proxy *p = http_call_user(c);

	active(p);
	/* a negative result comes with `done` of the request, which may have been here already */
	if (http_write(p->req, data.p, data.len) == WIRE_FULL)
		http_call_pause(c);
}

static void call_on_drain(struct http_call *c)
{
	struct proxy *p = http_call_user(c);

	http_resume_body(p->req);
}

/* No answer came: 504 if time ran out, 503 if we ran out of something, otherwise 502. */
static int status_of(int error)
{
	switch (-error) {
	case ETIMEDOUT:
		return 504;
	case EAGAIN:
	case EMFILE:
	case ENFILE:
	case ENOMEM:
		return 503;
	default:
		return 502;
	}
}

static void refuse(struct proxy *p, int error, const char *why)
{
	if (p->opt.failed != NULL)
		p->opt.failed(p->req, status_of(error), why);
	else
		http_refuse(p->req, status_of(error), why);
}

static void call_done(struct http_call *c, int error, const char *why)
{
	struct proxy *p = http_call_user(c);

	p->call = NULL;
	p->req->on_data = NULL;
	p->req->on_end = NULL;
	if (error == 0)
		http_end(p->req);
	else if (!http_started(p->req))
		refuse(p, error, why);
	else
		http_abort(p->req);
}

static void call_on_upgrade(struct http_call *c, const struct h1_head *head, struct wire *w)
{
	struct proxy *p = http_call_user(c);
	const struct tunnel_options opt = { p->opt.activity, p->opt.over, p->opt.ctx };
	struct wire *client;
	struct tunnel *t;

	if (tunnel_new(&opt, &t, NULL) < 0) {
		refuse(p, -ENOMEM, "out of memory");
		return;
	}
	reply_fields(p, head);
	http_header(p->req, "Connection", "Upgrade");
	http_header_span(p->req, SPAN_LIT("Upgrade"), head->upgrade_to);
	active(p);
	p->upgrading = true;
	client = http_upgrade(p->req, 101, &tunnel_ops, t);
	/* `done` of the request has been here: p is gone, the call cancelled */
	if (client == NULL) {
		tunnel_discard(t);
		if (opt.over != NULL)
			opt.over(opt.ctx);
		return;
	}
	wire_take_over(w, &tunnel_ops, t);
	tunnel_join(t, client, w);
}

/* --- from the client --- */

static void req_on_data(struct http_req *r, struct span data)
{
	struct proxy *p = r->user;

	active(p);
	if (http_call_write(p->call, data.p, data.len) == WIRE_FULL)
		http_pause_body(r);
}

static void req_on_end(struct http_req *r)
{
	struct proxy *p = r->user;

	http_call_end_body(p->call);
}

static void req_on_drain(struct http_req *r)
{
	struct proxy *p = r->user;

	if (p->call != NULL)
		http_call_resume(p->call);
}

/* The request is over, by its end or its client's going. */
static void req_done(struct http_req *r)
{
	struct proxy *p = r->user;
	struct http_proxy_options opt = p->opt;
	bool upgrading = p->upgrading;

	if (p->call != NULL)
		http_call_cancel(p->call);
	free(p);
	if (!upgrading && opt.over != NULL)
		opt.over(opt.ctx);
}

/* --- the start --- */

/* What is looked at again when the answer comes must live as long as the request. */
static int keep_options(struct proxy *p, struct http_req *r)
{
	struct http_proxy_options *opt = &p->opt;
	struct h1_field *copy;

	if (opt->n_add_reply == 0)
		return 0;
	copy = arena_alloc(&r->arena, opt->n_add_reply * sizeof(*copy));
	if (copy == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < opt->n_add_reply; i++) {
		const char *name = arena_dup(&r->arena, opt->add_reply[i].name);
		const char *value = arena_dup(&r->arena, opt->add_reply[i].value);

		if (name == NULL || value == NULL)
			return -ENOMEM;
		copy[i].name = span_of(name, opt->add_reply[i].name.len);
		copy[i].value = span_of(value, opt->add_reply[i].value.len);
	}
	opt->add_reply = copy;
	return 0;
}

static int start_call(struct proxy *p, struct http_upstream *u, struct err *e)
{
	struct http_req *r = p->req;
	const struct h1_head *head = r->head;
	struct http_call_options call = {
		.method = arena_dup(&r->arena, head->method_name),
		.target = p->opt.target,
		.body_length = head->chunked ? HTTP_LENGTH_UNKNOWN : (int64_t)head->length,
		.upgrade = head->upgrade,
		.user = p,
		.on_head = call_on_head,
		.on_data = call_on_data,
		.on_drain = call_on_drain,
		.on_upgrade = call_on_upgrade,
		.done = call_done,
	};

	call.fields = request_fields(r, &p->opt, &call.n_fields);
	if (call.fields == NULL || call.method == NULL || keep_options(p, r) < 0)
		return err_code(e, ENOMEM, "pass the request on");
	return http_call_start(u, &call, &p->call, e);
}

void http_proxy(struct http_req *r, struct http_upstream *u, const struct http_proxy_options *opt)
{
	struct proxy *p = calloc(1, sizeof(*p));
	struct err e = ERR_INIT;
	int error;

	if (p == NULL) {
		if (opt->failed != NULL)
			opt->failed(r, 503, "out of memory");
		else
			http_refuse(r, 503, "out of memory");
		if (opt->over != NULL)
			opt->over(opt->ctx);
		return;
	}
	p->req = r;
	p->opt = *opt;
	r->user = p;
	r->done = req_done;
	/* A client that half-closes is taken for gone: whether it is cannot be told from here, and
	 * the upstream of a silent stream would never learn. */
	r->abort_on_eof = true;
	error = start_call(p, u, &e);
	if (error < 0) {
		refuse(p, error, e.msg);
		return;
	}
	r->on_data = req_on_data;
	r->on_end = req_on_end;
	r->on_drain = req_on_drain;
	http_stream_body(r);
}
