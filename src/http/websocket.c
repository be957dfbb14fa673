/* Theory of operation. Frames are made sense of by ws_reader; here are the server's handshake, the
 * one that closes, the timer, and the wire. OPEN -> CLOSE_SENT when we want to end; the peer's
 * close frame (or our refusal of what it sent) leads to LINGER, where `closed` has been told: we
 * half-close and read on without listening until the peer hangs up, so that a reset does not
 * overtake our last frame. One timer serves all states: pings while open, then the patience for the
 * end. */
#include "http/websocket.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "codec/utf8.h"
#include "http/ws_reader.h"

#define DEFAULT_MAX_MESSAGE      MIB(16)
#define DEFAULT_CLOSE_TIMEOUT_MS 5000
#define CONTROL_MAX              125
#define REASON_MAX               (CONTROL_MAX - 2)

enum { CODE_NONE = 1005, CODE_CUT_OFF = 1006 };

enum websocket_state {
	WEBSOCKET_OPEN,
	WEBSOCKET_CLOSE_SENT, /* the peer's close frame is awaited, messages are dropped */
	WEBSOCKET_LINGER,     /* told; its end of the connection is awaited */
	WEBSOCKET_GONE,       /* the wire is closed, the timer is on its way */
};

struct websocket {
	struct wire *wire;
	struct websocket_options opt;
	struct ws_reader reader;
	struct io_timer timer;
	enum websocket_state state;
	bool client; /* our frames are masked */
	bool paused;
	bool heard;    /* something, since the timer last ran */
	bool awaiting; /* a ping has gone out and nothing came back yet */
};

static void enter(struct websocket *ws, enum websocket_state to)
{
	static const unsigned edges[] = {
		[WEBSOCKET_OPEN] = 1u << WEBSOCKET_CLOSE_SENT | 1u << WEBSOCKET_LINGER |
				   1u << WEBSOCKET_GONE,
		[WEBSOCKET_CLOSE_SENT] = 1u << WEBSOCKET_LINGER | 1u << WEBSOCKET_GONE,
		[WEBSOCKET_LINGER] = 1u << WEBSOCKET_GONE,
		[WEBSOCKET_GONE] = 0,
	};

	assert((edges[ws->state] & 1u << to) != 0);
	ws->state = to;
}

void *websocket_user(const struct websocket *ws)
{
	return ws->opt.user;
}

/* --- sending --- */

/* Clients must mask what they send (RFC 6455 5.3), with bytes nobody can foresee. */
static int write_masked(struct websocket *ws, const struct span *parts, int n_parts,
			const unsigned char mask[4])
{
	char piece[KIB(8)];
	uint64_t at = 0;
	int r = 0;

	for (int i = 0; i < n_parts && r >= 0; i++) {
		struct span rest = parts[i];

		while (rest.len > 0 && r >= 0) {
			size_t n = MIN(rest.len, sizeof(piece));

			memcpy(piece, rest.p, n);
			ws_mask(piece, n, mask, at);
			r = wire_write(ws->wire, piece, n);
			rest = span_skip(rest, n);
			at += n;
		}
	}
	return r;
}

static int send_frame(struct websocket *ws, enum ws_opcode opcode, struct span a, struct span b)
{
	const struct span parts[2] = { a, b };
	char head[WS_HEAD_MAX];
	unsigned char mask[4];
	struct iovec iov[3];
	int n = 1, r;

	if (ws->client) {
		rand_bytes(mask, sizeof(mask));
		r = wire_write(ws->wire, head,
			       ws_frame_head(head, true, opcode, a.len + b.len, mask));
		return r < 0 || a.len + b.len == 0 ? r : write_masked(ws, parts, 2, mask);
	}
	iov[0] = (struct iovec){ head, ws_frame_head(head, true, opcode, a.len + b.len, NULL) };
	for (int i = 0; i < 2; i++)
		if (parts[i].len > 0)
			iov[n++] = (struct iovec){ (void *)(uintptr_t)parts[i].p, parts[i].len };
	return wire_writev(ws->wire, iov, n);
}

int websocket_send2(struct websocket *ws, enum ws_opcode opcode, struct span a, struct span b)
{
	return ws->state == WEBSOCKET_OPEN ? send_frame(ws, opcode, a, b) : -EPIPE;
}

int websocket_send(struct websocket *ws, enum ws_opcode opcode, const void *p, size_t len)
{
	return websocket_send2(ws, opcode, span_of(p, len), span_of(NULL, 0));
}

static void send_close(struct websocket *ws, unsigned code, struct span reason)
{
	const char number[2] = { (char)(code >> 8), (char)code };

	if (!ws_close_code_ok(code)) { /* 1005 and the like are for ourselves */
		(void)send_frame(ws, WS_CLOSE, span_of(NULL, 0), span_of(NULL, 0));
		return;
	}
	if (reason.len > REASON_MAX) {
		reason.len = REASON_MAX;
		reason.len -= utf8_tail(reason); /* not in the middle of a character */
	}
	(void)send_frame(ws, WS_CLOSE, span_of(number, sizeof(number)), reason);
}

/* --- the end --- */

static void timer_closed(struct io_timer *t)
{
	struct websocket *ws = CONTAINER_OF(t, struct websocket, timer);

	ws_reader_free(&ws->reader);
	free(ws);
}

/* The memory goes when the timer has gone; the wire's goes by itself. */
static void gone(struct websocket *ws)
{
	enter(ws, WEBSOCKET_GONE);
	if (ws->wire != NULL)
		wire_close(ws->wire);
	io_timer_close(&ws->timer, timer_closed);
}

static void cut_off(struct websocket *ws)
{
	bool told = ws->state == WEBSOCKET_LINGER;

	gone(ws);
	if (!told)
		ws->opt.closed(ws, CODE_CUT_OFF, span_of(NULL, 0));
}

/* The last frames have been exchanged. */
static void linger(struct websocket *ws, unsigned code, struct span reason)
{
	enter(ws, WEBSOCKET_LINGER);
	wire_shutdown(ws->wire);
	io_timer_start(&ws->timer, ws->opt.close_timeout_ms, 0);
	ws->opt.closed(ws, code, reason);
}

void websocket_close(struct websocket *ws, unsigned code, const char *reason)
{
	if (ws->state != WEBSOCKET_OPEN)
		return;
	send_close(ws, code, span_str(reason));
	enter(ws, WEBSOCKET_CLOSE_SENT);
	io_timer_start(&ws->timer, ws->opt.close_timeout_ms, 0);
	websocket_resume(ws); /* to see the peer's */
}

void websocket_abort(struct websocket *ws)
{
	if (ws->state != WEBSOCKET_GONE)
		gone(ws);
}

static void on_timer(struct io_timer *t)
{
	struct websocket *ws = CONTAINER_OF(t, struct websocket, timer);

	if (ws->state != WEBSOCKET_OPEN || (ws->awaiting && !ws->heard && !ws->paused)) {
		cut_off(ws); /* patience is at its end, or the ping had no echo */
		return;
	}
	ws->awaiting = !ws->heard && !ws->paused;
	ws->heard = false;
	if (ws->awaiting)
		(void)send_frame(ws, WS_PING, span_of(NULL, 0), span_of(NULL, 0));
}

/* --- receiving --- */

static void on_event(struct websocket *ws, const struct ws_event *ev)
{
	bool open = ws->state == WEBSOCKET_OPEN;

	switch (ev->kind) {
	case WS_EVENT_MESSAGE:
		if (open)
			ws->opt.message(ws, ev->opcode, ev->data);
		break;
	case WS_EVENT_PING:
		/* one that pings and does not read has as many echoes as it needs */
		if (open && !ws->wire->full)
			(void)send_frame(ws, WS_PONG, ev->data, span_of(NULL, 0));
		break;
	case WS_EVENT_CLOSE:
		if (open)
			send_close(ws, ev->code, span_of(NULL, 0));
		linger(ws, ev->code, ev->data);
		break;
	case WS_EVENT_ERROR:
		if (open)
			send_close(ws, ev->code, ev->data);
		linger(ws, ev->code, ev->data);
		break;
	case WS_EVENT_PONG: /* that it was heard is noted */
	case WS_EVENT_NONE:
		break;
	}
}

static bool is_listening(const struct websocket *ws)
{
	return (ws->state == WEBSOCKET_OPEN && !ws->paused) || ws->state == WEBSOCKET_CLOSE_SENT;
}

static size_t on_bytes(struct wire *w, char *data, size_t len)
{
	struct websocket *ws = w->user;
	size_t used = 0;

	ws->heard |= len > 0;
	while (is_listening(ws)) {
		struct ws_event ev;

		used += ws_reader_next(&ws->reader, data + used, len - used, &ev);
		if (ev.kind == WS_EVENT_NONE)
			return used;
		on_event(ws, &ev);
	}
	return ws->state == WEBSOCKET_OPEN ? used : len;
}

static void on_eof(struct wire *w)
{
	cut_off(w->user);
}

static void on_broken(struct wire *w, int error)
{
	(void)error;
	cut_off(w->user);
}

static void on_drained(struct wire *w)
{
	struct websocket *ws = w->user;

	if (ws->state == WEBSOCKET_OPEN && ws->opt.drain != NULL)
		ws->opt.drain(ws);
}

static const struct wire_ops websocket_ops = {
	.bytes = on_bytes,
	.eof = on_eof,
	.drained = on_drained,
	.broken = on_broken,
};

void websocket_pause(struct websocket *ws)
{
	if (ws->state != WEBSOCKET_OPEN || ws->paused)
		return;
	ws->paused = true;
	wire_pause(ws->wire);
}

void websocket_resume(struct websocket *ws)
{
	if (!ws->paused || ws->state >= WEBSOCKET_LINGER)
		return;
	ws->paused = false;
	wire_resume(ws->wire);
}

/* --- the handshake --- */

static struct websocket *websocket_new(struct io_loop *l, const struct websocket_options *opt,
				       bool client)
{
	struct websocket *ws = calloc(1, sizeof(*ws));

	if (ws == NULL)
		return NULL;
	ws->opt = *opt;
	if (ws->opt.max_message == 0)
		ws->opt.max_message = DEFAULT_MAX_MESSAGE;
	if (ws->opt.close_timeout_ms == 0)
		ws->opt.close_timeout_ms = DEFAULT_CLOSE_TIMEOUT_MS;
	ws->client = client;
	ws_reader_init(&ws->reader, !client, ws->opt.max_message);
	io_timer_init(l, &ws->timer, on_timer);
	return ws;
}

static void websocket_begin(struct websocket *ws, struct wire *w)
{
	ws->wire = w;
	/* A message is written as a whole: one of full size must fit, whatever the socket takes. */
	w->out.max += ws->opt.max_message;
	if (ws->opt.ping_ms > 0)
		io_timer_start(&ws->timer, ws->opt.ping_ms, ws->opt.ping_ms);
}

bool websocket_check(struct http_req *r, bool *ret_none)
{
	const struct h1_head *head = r->head;
	const struct h1_field *key = h1_find(head, "sec-websocket-key");
	char accept[WS_ACCEPT_SIZE];

	*ret_none = !head->upgrade || !h1_has_token(head, "upgrade", "websocket");
	if (*ret_none)
		return false;
	if (!span_is(http_field(r, "sec-websocket-version"), "13")) {
		http_header(r, "Sec-WebSocket-Version", "13");
		http_refuse(r, 426, "only version 13 of WebSocket is spoken here");
		return false;
	}
	if (head->method != H1_GET || key == NULL || h1_next(head, key) != NULL ||
	    !ws_accept_key(key->value, accept)) {
		http_refuse(r, 400, "not a valid WebSocket handshake");
		return false;
	}
	return true;
}

int websocket_accept(struct http_req *r, const char *protocol, const struct websocket_options *opt,
		     struct websocket **ret, struct err *e)
{
	char accept[WS_ACCEPT_SIZE];
	struct websocket *ws;
	struct wire *w;

	if (!ws_accept_key(http_field(r, "sec-websocket-key"), accept))
		return err_set(e, EINVAL, "not a valid WebSocket handshake");
	ws = websocket_new(http_loop(r), opt, false);
	if (ws == NULL)
		return err_code(e, ENOMEM, "WebSocket");
	http_header(r, "Connection", "Upgrade");
	http_header(r, "Upgrade", "websocket");
	http_header(r, "Sec-WebSocket-Accept", accept);
	if (protocol != NULL)
		http_header(r, "Sec-WebSocket-Protocol", protocol);
	w = http_upgrade(r, 101, &websocket_ops, ws);
	if (w == NULL) {
		gone(ws);
		return err_set(e, EPIPE, "the client is gone");
	}
	websocket_begin(ws, w);
	*ret = ws;
	return 0;
}

struct websocket *websocket_on_wire(struct io_loop *l, const struct websocket_options *opt,
				    struct wire *w)
{
	struct websocket *ws = websocket_new(l, opt, true);

	if (ws == NULL)
		return NULL;
	wire_take_over(w, &websocket_ops, ws);
	websocket_begin(ws, w);
	return ws;
}
