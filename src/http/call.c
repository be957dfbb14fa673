/* One exchange of a client: the request out, the answer in. Where its connection comes from is
 * client.c's matter. */
#include "http/call.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* "100 Continue", "103 Early Hints" ...; a peer that sends more is playing for time. */
#define MAX_INTERIM 32

void call_enter(struct http_call *c, enum call_state to)
{
	static const unsigned edges[] = {
		[CALL_WAITING] = 1u << CALL_DIALING | 1u << CALL_HEAD | 1u << CALL_OVER,
		[CALL_DIALING] = 1u << CALL_HEAD | 1u << CALL_OVER,
		[CALL_HEAD] = 1u << CALL_WAITING | 1u << CALL_BODY | 1u << CALL_OVER,
		[CALL_BODY] = 1u << CALL_OVER,
		[CALL_OVER] = 0,
	};

	assert((edges[c->state] & 1u << to) != 0);
	c->state = to;
}

static void call_drop(struct http_call *c)
{
	if (--c->holds > 0)
		return;
	upstream_drop(c->upstream);
	buf_free(&c->request);
	free(c->head);
	free(c);
}

/* Nothing is called back from here on, but what the caller of this calls itself. */
static void call_end(struct http_call *c)
{
	struct client_conn *conn = TAKE(c->conn);
	struct http_dial *dial = TAKE(c->dial);

	call_enter(c, CALL_OVER);
	list_remove(&c->link);
	list_remove(&c->wait);
	deadline_clear(&c->deadline);
	io_defer_cancel(&c->fail_turn);
	if (conn != NULL)
		client_conn_close(conn);
	if (dial != NULL)
		upstream_cancel_dial(dial);
}

static void call_done(struct http_call *c, int error, const char *why)
{
	call_end(c);
	if (c->opt.done != NULL)
		c->opt.done(c, -error, why);
	call_drop(c);
}

void call_fail(struct http_call *c, int error, const char *why)
{
	call_done(c, error, why);
}

void http_call_cancel(struct http_call *c)
{
	if (c->state == CALL_OVER)
		return;
	call_end(c);
	call_drop(c);
}

static void on_fail_turn(struct io_defer *d)
{
	struct http_call *c = CONTAINER_OF(d, struct http_call, fail_turn);

	call_fail(c, c->error, c->why);
}

/* The caller is in the middle of a call of its own. */
static int fail_later(struct http_call *c, int error, const char *why)
{
	if (c->error == 0) {
		c->error = error;
		c->why = why;
		io_defer_add(c->upstream->loop, &c->fail_turn);
	}
	return -EPIPE;
}

/* --- the request --- */

int http_call_start(struct http_upstream *u, const struct http_call_options *opt,
		    struct http_call **ret, struct err *e)
{
	int64_t length = opt->body.p != NULL ? (int64_t)opt->body.len : opt->body_length;
	struct http_call *c;
	int r;

	if (u->freed)
		return err_set(e, ECANCELED, "the upstream is gone");
	r = call_check(opt, e);
	if (r < 0)
		return r;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_code(e, ENOMEM, "call");
	c->upstream = u;
	c->opt = *opt;
	c->state = CALL_WAITING;
	c->holds = 1;
	c->request = BUF_INIT(u->opt.hard_out);
	c->idempotent = call_is_idempotent(opt->method);
	c->to_head = strcmp(opt->method, "HEAD") == 0;
	c->chunked = length < 0;
	c->body_left = length > 0 ? (uint64_t)length : 0;
	c->body_ended = length == 0 || opt->body.p != NULL;
	list_init(&c->wait);
	deadline_init(&c->deadline);
	io_defer_init(&c->fail_turn, on_fail_turn);
	call_compose(c, length);
	if (opt->body.p != NULL)
		(void)buf_add_span(&c->request, opt->body);
	if (buf_failed(&c->request)) {
		bool starved = c->request.starved;

		buf_free(&c->request);
		free(c);
		if (starved)
			return err_code(e, ENOMEM, "request");
		return err_set(e, EMSGSIZE, "the request is too large to be sent as a whole");
	}
	u->holds++;
	list_push_back(&u->calls, &c->link);
	list_push_back(&u->waiting, &c->wait);
	deadline_set(&u->connect_deadlines, &c->deadline);
	upstream_pump(u);
	*ret = c;
	return 0;
}

void *http_call_user(const struct http_call *c)
{
	return c->opt.user;
}

/* An upstream that takes nothing of the request, or has all of it and does not begin to answer, is
 * given so much time. While the caller is the slow one, or the answer comes in, there is no hurry.
 */
static void watch(struct http_call *c)
{
	if (!c->conn->connected)
		return; /* the deadline for that is still running */
	if (wire_pending(&c->conn->wire) > 0 || (c->state == CALL_HEAD && c->body_ended))
		deadline_set(&c->upstream->response_deadlines, &c->deadline);
	else
		deadline_clear(&c->deadline);
}

void call_attach(struct http_call *c, struct client_conn *conn)
{
	bool was_full = c->full;

	call_enter(c, CALL_HEAD);
	c->conn = conn;
	conn->call = c;
	c->sent = false;
	if (c->paused)
		wire_pause(&conn->wire);
	c->full = wire_write(&conn->wire, c->request.data, c->request.len) == WIRE_FULL;
	if (!conn->used)
		buf_free(&c->request);
	watch(c);
	if (was_full && !c->full && c->opt.on_drain != NULL)
		c->opt.on_drain(c);
}

static int send_pieces(struct http_call *c, const struct iovec *iov, int n_iov)
{
	int r;

	if (c->conn != NULL) {
		buf_free(&c->request); /* more has gone than is in there */
		r = wire_writev(&c->conn->wire, iov, n_iov);
		if (r >= 0)
			watch(c);
		return r;
	}
	for (int i = 0; i < n_iov; i++)
		(void)buf_add(&c->request, iov[i].iov_base, iov[i].iov_len);
	if (c->request.starved)
		return fail_later(c, ENOMEM, "out of memory");
	if (buf_failed(&c->request))
		return fail_later(c, ENOBUFS, "too much was written before there was a connection");
	c->full = c->request.len > c->upstream->opt.soft_out;
	return c->full ? WIRE_FULL : 0;
}

int http_call_write(struct http_call *c, const void *p, size_t len)
{
	char chunk[H1_CHUNK_HEAD_SIZE];
	struct iovec iov[3] = { { (void *)(uintptr_t)p, len } };

	if (c->state == CALL_OVER || c->body_ended || c->error != 0)
		return -EPIPE;
	if (len == 0)
		return 0;
	if (!c->chunked) {
		if (len > c->body_left)
			return fail_later(c, EINVAL, "more request body than announced");
		c->body_left -= len;
		return send_pieces(c, iov, 1);
	}
	iov[1] = iov[0];
	iov[0] = (struct iovec){ chunk, h1_chunk_head(chunk, len) };
	iov[2] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
	return send_pieces(c, iov, 3);
}

void http_call_end_body(struct http_call *c)
{
	const struct iovec last = { (void *)(uintptr_t) "0\r\n\r\n", 5 };

	if (c->state == CALL_OVER || c->body_ended || c->error != 0)
		return;
	if (c->body_left > 0) {
		(void)fail_later(c, EINVAL, "less request body than announced");
		return;
	}
	c->body_ended = true;
	if (c->chunked)
		(void)send_pieces(c, &last, 1);
	else if (c->conn != NULL)
		watch(c);
}

/* --- the answer --- */

/* The exchange is complete. The connection can serve again if all of the request has gone, too. */
static void finish(struct http_call *c)
{
	struct client_conn *conn = c->conn;

	if (c->head->keep_alive && c->body_ended && wire_pending(&conn->wire) == 0) {
		c->conn = NULL;
		conn_park(conn);
	}
	call_done(c, 0, "");
}

/* Keep the head as long as the call: one block, the bytes behind the fields. */
static bool keep_head(struct http_call *c, const struct h1_head *head, struct span raw)
{
	size_t size = offsetof(struct h1_head, fields) + head->n_fields * sizeof(struct h1_field);
	char *block = malloc(size + raw.len);

	if (block == NULL)
		return false;
	memcpy(block, head, size);
	memcpy(block + size, raw.p, raw.len);
	c->head = (struct h1_head *)(void *)block;
	h1_head_move(c->head, raw.p, block + size);
	return true;
}

static void take_upgrade(struct http_call *c)
{
	struct client_conn *conn = TAKE(c->conn);

	client_conn_release(conn);
	c->opt.on_upgrade(c, c->head, &conn->wire);
	/* whoever wants the wire has taken it over by now */
	if (conn->wire.ops->closed == conn->wire.free)
		wire_close(&conn->wire);
	if (c->state != CALL_OVER)
		call_done(c, 0, "");
}

static void take_answer(struct http_call *c)
{
	bool upgraded = c->head->status == 101;

	if (upgraded && (!c->opt.upgrade || c->opt.on_upgrade == NULL || !c->head->upgrade)) {
		call_fail(c, EPROTO, "the upstream changed protocols unasked");
		return;
	}
	if (upgraded) {
		take_upgrade(c);
		return;
	}
	call_enter(c, CALL_BODY);
	watch(c);
	h1_body_init_response(&c->body, c->head, c->to_head);
	if (c->opt.on_head != NULL)
		c->opt.on_head(c, c->head);
	if (c->state == CALL_BODY && c->body.done)
		finish(c);
}

static size_t broken_head(struct http_call *c, enum h1_reason why, size_t len)
{
	call_fail(c, EPROTO, h1_reason_text(why));
	return len;
}

/* Returns the bytes taken; 0: the head is not complete yet. */
static size_t take_head(struct http_call *c, const char *data, size_t len)
{
	const struct h1_limits *limits = &c->upstream->opt.head;
	struct h1_head head;
	enum h1_reason why;
	ptrdiff_t n;

	buf_free(&c->request); /* it was understood: it is not sent again */
	n = h1_scan(&c->scan, data, len, limits);
	if (n == 0)
		return 0;
	if (n < 0)
		return broken_head(c, (enum h1_reason) - n, len);
	why = h1_parse_response(data, (size_t)n, limits, &head);
	if (why != H1_OK)
		return broken_head(c, why, len);
	c->scan = (struct h1_scan){ 0 };
	if (head.status < 200 && head.status != 101) {
		if (++c->n_interim > MAX_INTERIM)
			call_fail(c, EPROTO, "too many interim answers");
		else if (head.status == 100 && c->opt.on_continue != NULL)
			c->opt.on_continue(c);
		return (size_t)n;
	}
	if (!keep_head(c, &head, span_of(data, (size_t)n)))
		call_fail(c, ENOMEM, "out of memory");
	else
		take_answer(c);
	return (size_t)n;
}

static size_t take_body(struct http_call *c, const char *data, size_t len)
{
	struct span piece;
	ptrdiff_t n = h1_body_next(&c->body, data, len, &piece);

	if (n < 0) {
		call_fail(c, EPROTO, h1_reason_text((enum h1_reason) - n));
		return len;
	}
	if (piece.len > 0 && c->opt.on_data != NULL)
		c->opt.on_data(c, piece);
	if (c->state == CALL_BODY && c->body.done)
		finish(c);
	return (size_t)n;
}

size_t call_bytes(struct http_call *c, char *data, size_t len)
{
	size_t used = 0;

	assert(c->holds > 0);
	c->holds++;
	while (used < len && !c->paused && (c->state == CALL_HEAD || c->state == CALL_BODY)) {
		size_t n = c->state == CALL_HEAD ? take_head(c, data + used, len - used)
						 : take_body(c, data + used, len - used);

		if (n == 0)
			break;
		used += n;
	}
	call_drop(c);
	return used;
}

/* The connection was gone before the upstream can have meant this request. */
static bool can_retry(const struct http_call *c)
{
	return c->state == CALL_HEAD && c->conn->used && !c->retried && c->request.len > 0 &&
	       (c->idempotent || !c->sent);
}

static void retry(struct http_call *c)
{
	struct http_upstream *u = c->upstream;
	struct client_conn *conn = TAKE(c->conn);

	client_conn_close(conn);
	c->retried = true;
	call_enter(c, CALL_WAITING);
	list_push_front(&u->waiting, &c->wait);
	deadline_set(&u->connect_deadlines, &c->deadline);
	upstream_pump(u);
}

void call_eof(struct http_call *c)
{
	if (can_retry(c))
		retry(c);
	else if (c->state == CALL_HEAD)
		call_fail(c, ECONNRESET, "the upstream closed the connection without an answer");
	else if (h1_body_eof_ok(&c->body))
		finish(c);
	else
		call_fail(c, ECONNRESET, "the upstream broke off its answer");
}

void call_broken(struct http_call *c, int error)
{
	struct err e = ERR_INIT;

	if (can_retry(c)) {
		retry(c);
		return;
	}
	(void)err_code(&e, error, "connection to the upstream");
	call_fail(c, error, e.msg);
}

void call_progress(struct http_call *c)
{
	c->sent = true;
	/* An answer that trickles in does not get more time with every byte. */
	if (c->scan.seen == 0)
		watch(c);
}

void call_drained(struct http_call *c)
{
	if (!c->body_ended && c->opt.on_drain != NULL)
		c->opt.on_drain(c);
}

void http_call_pause(struct http_call *c)
{
	if (c->paused || c->state == CALL_OVER)
		return;
	c->paused = true;
	if (c->conn != NULL)
		wire_pause(&c->conn->wire);
}

void http_call_resume(struct http_call *c)
{
	if (!c->paused || c->state == CALL_OVER)
		return;
	c->paused = false;
	if (c->conn != NULL)
		wire_resume(&c->conn->wire);
}
