/* A server-side connection: heads in, one exchange at a time, timers by state.
 *
 * Theory of operation. conn_bytes() is offered everything that arrives and takes what the state
 * allows. A complete head becomes a request and its handler is called. While an exchange runs,
 * bytes of its body go to the handler (or wait while it has not asked for them); bytes of a
 * pipelined next request stay in the wire, paused. The exchange is over when the answer has ended
 * and the body has been consumed; conn_step() notices and the next head is looked for. One deadline
 * at a time watches over the state. */
#include "http/conn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const struct wire_ops conn_wire_ops;

static void enter(struct http_conn *c, enum conn_state to)
{
	static const unsigned edges[] = {
		[CONN_IDLE] = 1u << CONN_HEAD | 1u << CONN_EXCHANGE | 1u << CONN_LINGER |
			      1u << CONN_CLOSED,
		[CONN_HEAD] = 1u << CONN_EXCHANGE | 1u << CONN_LINGER | 1u << CONN_CLOSED,
		[CONN_EXCHANGE] = 1u << CONN_IDLE | 1u << CONN_LINGER | 1u << CONN_UPGRADED |
				  1u << CONN_CLOSED,
		[CONN_LINGER] = 1u << CONN_CLOSED,
		[CONN_UPGRADED] = 1u << CONN_CLOSED,
		[CONN_CLOSED] = 0,
	};

	assert((edges[c->state] & 1u << to) != 0);
	c->state = to;
}

static void set_deadline(struct http_conn *c)
{
	struct http_server *s = c->server;
	const struct http_req *r = c->req;
	bool unsent = wire_pending(&c->wire) > 0;

	c->unsent = wire_pending(&c->wire);
	switch (c->state) {
	case CONN_IDLE: /* the last answer may still be on its way */
		deadline_set(unsent ? &s->write_deadlines : &s->idle_deadlines, &c->deadline);
		break;
	case CONN_HEAD:
		break; /* set once at its beginning: a slow head is not a progress */
	case CONN_EXCHANGE:
		if (unsent || r->sending_file)
			deadline_set(&s->write_deadlines, &c->deadline);
		else if (!r->body_in.done && (r->reading || r->reply == HTTP_REPLY_ENDED) &&
			 !r->body_paused)
			deadline_set(&s->body_deadlines, &c->deadline);
		else
			deadline_clear(&c->deadline);
		break;
	case CONN_LINGER:
		deadline_set(unsent ? &s->write_deadlines : &s->linger_deadlines, &c->deadline);
		break;
	case CONN_UPGRADED:
	case CONN_CLOSED:
		break;
	}
}

/* --- requests --- */

/* Everything a request needs hangs off its arena, the request itself included. What its parameters
 * need is there from the start: one that was lost would look as if it had not been given. */
static struct http_req *req_new(struct http_conn *c, const struct h1_head *parsed, struct span raw)
{
	struct arena arena = ARENA_INIT(c->server->opt.limits.max_arena);
	size_t head_size = offsetof(struct h1_head, fields) +
			   parsed->n_fields * sizeof(struct h1_field);
	struct http_req *r = arena_zalloc(&arena, sizeof(*r));
	struct h1_head *head = arena_alloc(&arena, head_size);
	char *bytes = arena_dup(&arena, raw);
	bool escaped = span_find(parsed->query, '%') >= 0 || span_find(parsed->query, '+') >= 0;
	char *query = escaped ? arena_alloc(&arena, parsed->query.len) : NULL;

	if (r == NULL || head == NULL || bytes == NULL || (escaped && query == NULL)) {
		arena_free(&arena);
		return NULL;
	}
	memcpy(head, parsed, head_size);
	h1_head_move(head, raw.p, bytes);
	r->server = c->server;
	r->conn = c;
	r->arena = arena;
	r->head = head;
	r->query = query;
	r->keep_alive = head->keep_alive && !c->server->draining;
	h1_body_init_request(&r->body_in, head);
	r->no_body = head->method == H1_HEAD;
	c->req = r;
	return r;
}

/* Tell the handler and forget the request. */
static void req_end(struct http_conn *c, bool aborted)
{
	struct http_req *r = TAKE(c->req);
	struct arena arena;

	if (r == NULL)
		return;
	r->aborted = aborted;
	if (r->done != NULL)
		r->done(r);
	buf_free(&r->collected);
	arena = r->arena; /* the request lies in it */
	arena_free(&arena);
}

/* The layer answers in the handler's stead, for the last time on this connection. */
static void give_up(struct http_req *r, int status, const char *why)
{
	r->server->stats[HTTP_STAT_REFUSED]++;
	r->conn->expect_more = true;
	r->keep_alive = false;
	r->reading = false;
	if (r->reply == HTTP_REPLY_NONE)
		http_refuse(r, status, why);
	else if (r->reply == HTTP_REPLY_STARTED)
		http_abort(r);
}

/* Answer a head that never became a request. */
static void conn_refuse(struct http_conn *c, int status, const char *why)
{
	static const struct h1_head none = { .version_minor = 1 };
	struct http_req *r = req_new(c, &none, span_of(NULL, 0));

	if (r == NULL) {
		conn_close(c);
		return;
	}
	enter(c, CONN_EXCHANGE);
	r->body_in.done = true; /* whatever follows is not understood */
	give_up(r, status, why);
}

static void start_exchange(struct http_conn *c, const char *data, size_t head_len)
{
	struct http_server *s = c->server;
	enum h1_reason why = h1_parse_request(data, head_len, &s->opt.limits.head, &s->scratch);
	struct http_req *r;

	if (why != H1_OK) {
		conn_refuse(c, h1_reason_status(why), h1_reason_text(why));
		return;
	}
	r = req_new(c, &s->scratch, span_of(data, head_len));
	if (r == NULL) {
		conn_close(c);
		return;
	}
	s->stats[HTTP_STAT_REQUESTS]++;
	enter(c, CONN_EXCHANGE);
	deadline_clear(&c->deadline);
	s->opt.handler(r);
}

/* --- bytes in --- */

static void deliver_body(struct http_req *r, struct span data)
{
	if (r->reply == HTTP_REPLY_ENDED || !r->reading) {
		r->discarded += data.len;
		return;
	}
	if (r->on_collected != NULL) {
		int q = buf_add_span(&r->collected, data);

		if (q == -ENOMEM)
			give_up(r, 500, "out of memory");
		else if (q < 0)
			give_up(r, 413, "request body is too large");
	} else if (r->on_data != NULL && data.len > 0) {
		r->on_data(r, data);
	}
}

static void deliver_end(struct http_req *r)
{
	if (r->body_ended || !r->reading || r->reply == HTTP_REPLY_ENDED)
		return;
	r->body_ended = true;
	if (r->on_collected != NULL)
		r->on_collected(r, buf_span(&r->collected));
	else if (r->on_end != NULL)
		r->on_end(r);
}

/* Body bytes of the running exchange; returns how many were taken. */
static size_t take_body(struct http_conn *c, char *data, size_t len)
{
	struct http_req *r = c->req;
	size_t used = 0;

	while (c->req == r && !r->body_in.done) {
		bool discard = r->reply == HTTP_REPLY_ENDED;
		struct span piece = { NULL, 0 };
		ptrdiff_t n;

		if (!discard && (!r->reading || r->body_paused)) {
			wire_pause(&c->wire);
			break;
		}
		n = h1_body_next(&r->body_in, data + used, len - used, &piece);
		if (n < 0) {
			give_up(r, h1_reason_status((enum h1_reason) - n),
				h1_reason_text((enum h1_reason) - n));
			return len;
		}
		if (n == 0)
			break;
		used += (size_t)n;
		deliver_body(r, piece);
		if (c->req != r)
			break;
		if (discard && r->discarded > c->server->opt.limits.max_discard) {
			r->keep_alive = false;
			r->body_in.done = true;
		}
	}
	return used;
}

static size_t take_head(struct http_conn *c, char *data, size_t len)
{
	struct http_server *s = c->server;
	size_t skip = c->scan.seen == 0 ? h1_skip_empty_lines(data, len) : 0;
	ptrdiff_t n;

	if (skip == len)
		return skip;
	if (c->wire.full) { /* answers pile up: first let the client take them */
		c->starved = true;
		wire_pause(&c->wire);
		return skip;
	}
	n = h1_scan(&c->scan, data + skip, len - skip, &s->opt.limits.head);
	if (n == 0) {
		if (c->state == CONN_IDLE) {
			enter(c, CONN_HEAD);
			deadline_set(&s->head_deadlines, &c->deadline);
		}
		return skip;
	}
	c->scan = (struct h1_scan){ 0 };
	if (n < 0) {
		conn_refuse(c, h1_reason_status((enum h1_reason) - n),
			    h1_reason_text((enum h1_reason) - n));
		return len;
	}
	start_exchange(c, data + skip, (size_t)n);
	return skip + (size_t)n;
}

static bool exchange_over(const struct http_req *r)
{
	return r->reply == HTTP_REPLY_ENDED && (r->body_in.done || !r->keep_alive);
}

/* No more requests; what is answered already still goes out. */
static void linger(struct http_conn *c)
{
	enter(c, CONN_LINGER);
	set_deadline(c);
	wire_shutdown(&c->wire);
}

/* The answer is complete: on to the next request, or to the end of the connection. */
static void finish_exchange(struct http_conn *c)
{
	struct http_req *r = c->req;
	bool keep = r->keep_alive && !c->server->draining;

	c->expect_more |= !r->body_in.done || c->wire.in.len > 0;
	req_end(c, c->wire.error != 0); /* what was answered may not have found room */
	if (c->state != CONN_EXCHANGE)
		return; /* `done` closed the server */
	if (keep) {
		enter(c, CONN_IDLE);
		set_deadline(c);
		if (!c->dispatching)
			wire_resume(&c->wire);
		return;
	}
	linger(c);
	/* Closing with unread bytes would reset the connection under the answer, so read on where
	 * some are to be expected; otherwise `flushed` closes at once. */
	wire_resume(&c->wire);
}

void conn_step(struct http_conn *c)
{
	if (c->dispatching || c->state != CONN_EXCHANGE)
		return;
	if (exchange_over(c->req)) {
		finish_exchange(c);
		return;
	}
	if (c->req->reply == HTTP_REPLY_ENDED)
		wire_resume(&c->wire); /* the rest of a body nobody wants */
	set_deadline(c);
}

static size_t conn_bytes(struct wire *w, char *data, size_t len)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);
	size_t used = 0;

	c->dispatching = true;
	do {
		size_t n = 0;

		if (c->state == CONN_LINGER)
			n = len - used;
		else if (used < len && (c->state == CONN_IDLE || c->state == CONN_HEAD))
			n = take_head(c, data + used, len - used);
		else if (c->state == CONN_EXCHANGE && !c->req->body_in.done)
			n = take_body(c, data + used, len - used);
		else if (c->state == CONN_EXCHANGE && used < len)
			wire_pause(w); /* a pipelined request waits for its turn */
		used += n;
		if (c->state == CONN_EXCHANGE && c->req->body_in.done)
			deliver_end(c->req);
		/* A request without a body ends as soon as its handler has answered. */
		if (c->state == CONN_EXCHANGE && exchange_over(c->req))
			finish_exchange(c);
		else if (n == 0)
			break;
	} while (used < len);
	c->dispatching = false;
	if (c->state == CONN_EXCHANGE)
		set_deadline(c);
	return used;
}

/* --- other facts --- */

static void conn_eof(struct wire *w)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);
	struct http_req *r = c->req;

	if (c->state == CONN_EXCHANGE && r->body_in.done && !r->abort_on_eof) {
		r->keep_alive = false; /* half-closed: it still gets its answer */
		conn_step(c);
		return;
	}
	c->expect_more = false;
	if ((c->state == CONN_IDLE || c->state == CONN_HEAD) && w->unflushed)
		linger(c); /* half-closed behind a request that is answered, but not sent yet */
	else if (c->state != CONN_LINGER || !w->unflushed)
		conn_close(c); /* otherwise `flushed` does */
}

static void conn_drained(struct wire *w)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);

	if (c->req != NULL && c->req->on_drain != NULL && c->req->reply == HTTP_REPLY_STARTED)
		c->req->on_drain(c->req);
}

static void conn_flushed(struct wire *w)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);

	if (c->state == CONN_EXCHANGE && c->req->sending_file) {
		c->req->sending_file = false;
		c->req->reply = HTTP_REPLY_ENDED;
	}
	if (c->state == CONN_LINGER && !c->expect_more) {
		conn_close(c);
	} else if (c->state == CONN_IDLE || c->state == CONN_LINGER) {
		set_deadline(c);
		if (c->starved)
			wire_resume(w);
		c->starved = false;
	} else {
		conn_step(c);
	}
}

static void conn_progress(struct wire *w)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);

	if (c->state == CONN_EXCHANGE ? !c->dispatching
				      : wire_pending(w) > 0 && wire_pending(w) < c->unsent)
		set_deadline(c);
}

static void conn_broken(struct wire *w, int error)
{
	(void)error;
	conn_close(CONTAINER_OF(w, struct http_conn, wire));
}

void conn_expired(struct http_conn *c)
{
	if (c->state == CONN_HEAD)
		conn_refuse(c, 408, "the request head did not arrive in time");
	else if (c->state == CONN_EXCHANGE && c->req->reply == HTTP_REPLY_NONE)
		give_up(c->req, 408, "the request body did not arrive in time");
	else
		conn_close(c);
	conn_step(c);
}

static void conn_free(struct wire *w)
{
	struct http_conn *c = CONTAINER_OF(w, struct http_conn, wire);
	struct http_server *s = c->server;

	if (c->state != CONN_CLOSED) /* the one who upgraded it closed it */
		enter(c, CONN_CLOSED);
	list_remove(&c->link);
	s->n_connections--;
	free(c);
	if (s->n_connections == 0 && s->drained != NULL)
		s->drained(s);
}

void conn_close(struct http_conn *c)
{
	if (c->state == CONN_CLOSED)
		return;
	deadline_clear(&c->deadline);
	enter(c, CONN_CLOSED);
	req_end(c, true);
	wire_close(&c->wire);
}

struct wire *conn_upgrade(struct http_conn *c, const struct wire_ops *ops, void *user)
{
	deadline_clear(&c->deadline);
	enter(c, CONN_UPGRADED);
	req_end(c, false);
	wire_take_over(&c->wire, ops, user);
	return &c->wire;
}

static const struct wire_ops conn_wire_ops = {
	.bytes = conn_bytes,
	.eof = conn_eof,
	.drained = conn_drained,
	.flushed = conn_flushed,
	.progress = conn_progress,
	.broken = conn_broken,
	.closed = conn_free,
};

int conn_new(struct http_server *s, int fd, struct err *e)
{
	const struct http_limits *lim = &s->opt.limits;
	struct http_conn *c = calloc(1, sizeof(*c));
	int r;

	if (c == NULL) {
		(void)close(fd);
		return err_code(e, ENOMEM, "connection");
	}
	c->server = s;
	deadline_init(&c->deadline);
	r = wire_open(s->loop, &c->wire, fd, &conn_wire_ops,
		      MAX(lim->head.max_head, IO_READ_SIZE) * 2, lim->soft_out, lim->hard_out, e);
	if (r < 0) {
		free(c);
		return r;
	}
	list_push_back(&s->connections, &c->link);
	s->n_connections++;
	s->stats[HTTP_STAT_ACCEPTED]++;
	deadline_set(&s->head_deadlines, &c->deadline);
	if (s->opt.secure != NULL) {
		r = s->opt.secure(s->opt.secure_ctx, &c->wire.stream, e);
		if (r < 0)
			conn_close(c);
	}
	return r;
}
