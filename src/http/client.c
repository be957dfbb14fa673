/* Upstreams: their connections, kept alive or being made, and the line of calls that wait for one.
 *
 * Theory of operation. A call enters the line; the pump, which runs at the end of the loop's turn,
 * gives its head an idle connection, or dials for it, or leaves it there while the upstream has as
 * many connections as it may. A dial belongs to the call it was made for. Since calls only ever
 * begin in the pump, no callback comes before http_call_start() has returned. */
#include "http/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/call.h"

const struct http_upstream_options http_upstream_defaults = {
	.max_idle = 64,
	.max_connections = 256,
	.connect_timeout_ms = 5000,
	.response_timeout_ms = 60000,
	/* below the 5 s after which many servers hang up: better to close first than to meet */
	.idle_timeout_ms = 4000,
	.head = { .max_target = KIB(8), .max_head = KIB(32), .max_fields = H1_MAX_FIELDS },
	.soft_out = KIB(64),
	.hard_out = MIB(1),
};

struct http_dial {
	struct http_upstream *upstream;
	struct http_call *call; /* NULL: cancelled */
};

void upstream_drop(struct http_upstream *u)
{
	if (--u->holds > 0)
		return;
	free(u->host);
	free(u);
}

/* --- connections --- */

static void lost_connection(struct http_upstream *u)
{
	u->n_connections--;
	upstream_pump(u);
}

static void unpark(struct client_conn *conn)
{
	if (list_empty(&conn->link))
		return;
	list_remove(&conn->link);
	deadline_clear(&conn->deadline);
	conn->upstream->n_idle--;
}

void client_conn_release(struct client_conn *conn)
{
	struct http_upstream *u = TAKE(conn->upstream);

	conn->call = NULL;
	lost_connection(u);
	upstream_drop(u);
}

void client_conn_close(struct client_conn *conn)
{
	if (conn->wire.stream.closing)
		return;
	unpark(conn);
	client_conn_release(conn);
	wire_close(&conn->wire);
}

static void conn_closed(struct wire *w)
{
	free(CONTAINER_OF(w, struct client_conn, wire));
}

static size_t conn_bytes(struct wire *w, char *data, size_t len)
{
	struct client_conn *conn = CONTAINER_OF(w, struct client_conn, wire);
	size_t used = 0;

	if (conn->call != NULL)
		used = call_bytes(conn->call, data, len);
	/* Words that nobody asked for: whose answer would they be? */
	if (used < len && conn->upstream != NULL && conn->call == NULL)
		client_conn_close(conn);
	return used;
}

static void conn_eof(struct wire *w)
{
	struct client_conn *conn = CONTAINER_OF(w, struct client_conn, wire);

	if (conn->call != NULL)
		call_eof(conn->call);
	else
		client_conn_close(conn);
}

static void conn_drained(struct wire *w)
{
	struct client_conn *conn = CONTAINER_OF(w, struct client_conn, wire);

	if (conn->call != NULL)
		call_drained(conn->call);
}

static void conn_progress(struct wire *w)
{
	struct client_conn *conn = CONTAINER_OF(w, struct client_conn, wire);

	conn->connected = true;
	if (conn->call != NULL)
		call_progress(conn->call);
}

/* A peer that refuses a long body answers and hangs up. The write that then fails must not hide the
 * answer, which may lie in the socket already. */
static void read_last_words(struct client_conn *conn)
{
	struct wire *w = &conn->wire;

	for (int turn = 0; turn < 64 && conn->call != NULL && !conn->call->paused; turn++) {
		ssize_t n;

		if (buf_reserve(&w->in, KIB(4)) < 0)
			return;
		n = stream_read(&w->stream, w->in.data + w->in.len, w->in.cap - w->in.len);
		if (n == 0)
			conn_eof(w);
		if (n <= 0)
			return;
		w->in.len += (size_t)n;
		buf_consume(&w->in, conn_bytes(w, w->in.data, w->in.len));
	}
}

static void conn_broken(struct wire *w, int error)
{
	struct client_conn *conn = CONTAINER_OF(w, struct client_conn, wire);

	if (error == EPIPE || error == ECONNRESET)
		read_last_words(conn);
	if (conn->call != NULL)
		call_broken(conn->call, error);
	else if (conn->upstream != NULL)
		client_conn_close(conn);
}

static const struct wire_ops conn_ops = {
	.bytes = conn_bytes,
	.eof = conn_eof,
	.drained = conn_drained,
	.progress = conn_progress,
	.broken = conn_broken,
	.closed = conn_closed,
};

static int conn_open(struct http_upstream *u, int fd, struct client_conn **ret, struct err *e)
{
	struct client_conn *conn = calloc(1, sizeof(*conn));
	int r;

	if (conn == NULL) {
		(void)close(fd);
		return err_code(e, ENOMEM, "connection");
	}
	r = wire_open(u->loop, &conn->wire, fd, &conn_ops, u->opt.head.max_head + IO_READ_SIZE,
		      u->opt.soft_out, u->opt.hard_out, e);
	if (r < 0) {
		free(conn);
		return r;
	}
	list_init(&conn->link);
	deadline_init(&conn->deadline);
	conn->upstream = u;
	u->holds++;
	*ret = conn;
	return 0;
}

static void idle_expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	client_conn_close(CONTAINER_OF(d, struct client_conn, deadline));
}

void conn_park(struct client_conn *conn)
{
	struct http_upstream *u = conn->upstream;

	conn->call = NULL;
	conn->used = true;
	if (conn->wire.dead || conn->wire.eof || u->freed || u->n_idle >= u->opt.max_idle) {
		client_conn_close(conn);
		return;
	}
	list_push_front(&u->idle, &conn->link);
	u->n_idle++;
	deadline_set(&u->idle_deadlines, &conn->deadline);
	wire_resume(&conn->wire); /* to hear it being closed */
	upstream_pump(u);
}

/* Has the peer closed it, or said something out of turn, since the loop looked last? */
static bool is_silent(const struct client_conn *conn)
{
	char c;

	return recv(conn->wire.stream.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static struct client_conn *take_idle(struct http_upstream *u)
{
	while (!list_empty(&u->idle)) {
		struct client_conn *conn = LIST_ENTRY(u->idle.next, struct client_conn, link);

		if (conn->wire.error == 0 && conn->wire.in.len == 0 && is_silent(conn)) {
			unpark(conn);
			return conn;
		}
		client_conn_close(conn);
	}
	return NULL;
}

static bool evict_idle(struct http_upstream *u)
{
	if (list_empty(&u->idle))
		return false;
	client_conn_close(LIST_ENTRY(u->idle.prev, struct client_conn, link));
	return true;
}

/* --- dialing --- */

static void dial_address(struct http_upstream *u, struct http_dial *d)
{
	struct err e = ERR_INIT;
	int fd, r;

	r = address_connect(&u->address, &fd, &e);
	http_dialed(d, r < 0 ? r : fd, e.msg);
}

static void dial(struct http_upstream *u, struct http_call *c)
{
	struct http_dial *d = malloc(sizeof(*d));

	if (d == NULL) {
		call_fail(c, ENOMEM, "out of memory");
		return;
	}
	*d = (struct http_dial){ u, c };
	u->holds++;
	u->n_connections++;
	c->dial = d;
	call_enter(c, CALL_DIALING);
	if (u->opt.dial != NULL)
		u->opt.dial(u->opt.dial_ctx, d);
	else
		dial_address(u, d);
}

void http_dialed(struct http_dial *d, int fd_or_error, const char *why)
{
	struct http_upstream *u = d->upstream;
	struct http_call *c = d->call;
	struct client_conn *conn = NULL;
	struct err e = ERR_INIT;
	int r = fd_or_error;

	free(d);
	if (c == NULL) {
		if (fd_or_error >= 0)
			(void)close(fd_or_error);
		upstream_drop(u);
		return;
	}
	c->dial = NULL;
	if (fd_or_error >= 0)
		r = conn_open(u, fd_or_error, &conn, &e);
	else if (why != NULL)
		(void)err_set(&e, -fd_or_error, "%s", why);
	else
		(void)err_code(&e, fd_or_error, "connect");
	if (conn == NULL) {
		lost_connection(u);
		call_fail(c, -r, e.msg);
	} else {
		call_attach(c, conn);
	}
	upstream_drop(u);
}

void upstream_cancel_dial(struct http_dial *d)
{
	struct http_upstream *u = d->upstream;

	d->call = NULL;
	lost_connection(u);
	if (u->opt.dial_cancel != NULL)
		u->opt.dial_cancel(u->opt.dial_ctx, d);
}

/* --- the line --- */

/* Calls served at a time: one whose owner starts it anew from `done` must not keep the loop. */
#define PUMP_MAX 64

static void on_pump(struct io_defer *d)
{
	struct http_upstream *u = CONTAINER_OF(d, struct http_upstream, pump);

	u->holds++; /* callbacks may free it */
	for (int n = 0; !list_empty(&u->waiting); n++) {
		struct http_call *c = LIST_ENTRY(u->waiting.next, struct http_call, wait);
		struct client_conn *conn;

		if (n == PUMP_MAX) {
			upstream_pump(u);
			break;
		}
		/* one that has met a dead connection gets a new one: the others are as old */
		conn = c->retried ? NULL : take_idle(u);
		if (conn == NULL && u->n_connections >= u->opt.max_connections && !evict_idle(u))
			break;
		list_remove(&c->wait);
		if (conn != NULL)
			call_attach(c, conn);
		else
			dial(u, c);
	}
	upstream_drop(u);
}

void upstream_pump(struct http_upstream *u)
{
	if (!u->freed && !list_empty(&u->waiting))
		io_defer_add(u->loop, &u->pump);
}

static void connect_expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	call_fail(CONTAINER_OF(d, struct http_call, deadline), ETIMEDOUT,
		  "the upstream could not be reached in time");
}

static void response_expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	call_fail(CONTAINER_OF(d, struct http_call, deadline), ETIMEDOUT,
		  "the upstream did not answer in time");
}

/* --- life --- */

int http_upstream_new(struct io_loop *l, const struct http_upstream_options *opt,
		      struct http_upstream **ret, struct err *e)
{
	struct http_upstream *u;
	struct address address = { 0 };
	int r;

	if ((opt->address == NULL) == (opt->dial == NULL) || opt->max_connections == 0 ||
	    opt->soft_out >= opt->hard_out || opt->head.max_fields > H1_MAX_FIELDS)
		return err_set(e, EINVAL, "upstream options do not make sense");
	if (opt->host != NULL && (opt->host[0] == '\0' || !h1_is_field_value(span_str(opt->host))))
		return err_set(e, EINVAL, "bad Host for upstream");
	if (opt->address != NULL) {
		r = address_parse(opt->address, &address, e);
		if (r < 0)
			return r;
	}
	u = calloc(1, sizeof(*u));
	if (u == NULL)
		return err_code(e, ENOMEM, "upstream");
	u->host = strdup(opt->host != NULL ? opt->host : "localhost");
	if (u->host == NULL) {
		free(u);
		return err_code(e, ENOMEM, "upstream");
	}
	u->loop = l;
	u->opt = *opt;
	u->opt.address = NULL; /* the caller's */
	u->opt.host = u->host;
	u->address = address;
	u->holds = 1;
	list_init(&u->calls);
	list_init(&u->waiting);
	list_init(&u->idle);
	io_defer_init(&u->pump, on_pump);
	deadline_queue_init(l, &u->connect_deadlines, opt->connect_timeout_ms, connect_expired);
	deadline_queue_init(l, &u->response_deadlines, opt->response_timeout_ms, response_expired);
	deadline_queue_init(l, &u->idle_deadlines, opt->idle_timeout_ms, idle_expired);
	*ret = u;
	return 0;
}

struct io_loop *http_upstream_loop(const struct http_upstream *u)
{
	return u->loop;
}

#define TIMER_CLOSED(queue)                                                               \
	static void queue##_closed(struct io_timer *t)                                    \
	{                                                                                 \
		struct deadline_queue *q = CONTAINER_OF(t, struct deadline_queue, timer); \
                                                                                          \
		upstream_drop(CONTAINER_OF(q, struct http_upstream, queue));              \
	}
TIMER_CLOSED(connect_deadlines)
TIMER_CLOSED(response_deadlines)
TIMER_CLOSED(idle_deadlines)

void http_upstream_free(struct http_upstream *u)
{
	if (u == NULL || u->freed)
		return;
	u->freed = true;
	io_defer_cancel(&u->pump);
	u->holds += 3; /* the timers */
	while (!list_empty(&u->calls))
		call_fail(LIST_ENTRY(u->calls.next, struct http_call, link), ECANCELED,
			  "the upstream is gone");
	while (evict_idle(u))
		;
	deadline_queue_close(&u->connect_deadlines, connect_deadlines_closed);
	deadline_queue_close(&u->response_deadlines, response_deadlines_closed);
	deadline_queue_close(&u->idle_deadlines, idle_deadlines_closed);
	upstream_drop(u);
}
