/* The client of a terminal. One place in the output is all that is kept of it: what lies behind is
 * sent as the connection takes it, and a client that was overtaken by the ring is told where it
 * is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execd/api.h"
#include "execd/pty.h"
#include "http/websocket.h"

#define MAX_MESSAGE MIB(1)
#define MAX_CHUNK   KIB(32)
#define PING_MS     30000
#define REPLAY      3
#define TAKEN_OVER  4001

struct pty_client {
	struct pty *pty; /* NULL: another took over, or it is on its way out */
	struct websocket *ws;
	uint64_t cursor;
	uint64_t replay_to; /* where the output ended when it came: what follows is live */
	enum { CLIENT_WAITING, CLIENT_LIVE, CLIENT_DONE } state;
	bool full;
};

/* --- to the client --- */

/* A terminal with a hole in it is worse than none: the client may come again. */
static void out_of_memory(struct pty_client *c)
{
	websocket_close(c->ws, 1011, "out of memory");
}

static bool send_json(struct pty_client *c, struct buf *out)
{
	int r = buf_error(out);

	if (r < 0)
		out_of_memory(c);
	else
		r = websocket_send(c->ws, WS_TEXT, out->data, out->len);
	c->full |= r == WIRE_FULL;
	buf_free(out);
	return r >= 0;
}

static void send_error(struct pty_client *c, const char *code, const char *text)
{
	struct buf out = BUF_INIT(KIB(8));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_cstr(&w, "type", "error");
	jw_field_cstr(&w, "error", text);
	jw_field_cstr(&w, "code", code);
	jw_end(&w);
	(void)send_json(c, &out);
}

static void send_connected(struct pty_client *c)
{
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_cstr(&w, "type", "connected");
	jw_field_cstr(&w, "session_id", c->pty->id);
	jw_field_cstr(&w, "mode", c->pty->run->pipe ? "pipe" : "pty");
	if (c->pty->run->restarted)
		jw_field_bool(&w, "restarted", true);
	jw_end(&w);
	(void)send_json(c, &out);
}

static bool send_exit(struct pty_client *c)
{
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_cstr(&w, "type", "exit");
	jw_field_i64(&w, "exit_code", c->pty->run->exit_code);
	jw_end(&w);
	return send_json(c, &out);
}

/* In pipe mode, which of the replayed bytes were stderr: announced in front of each such part. */
static void send_mark(struct pty_client *c, uint64_t at, size_t len)
{
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_cstr(&w, "type", "replay");
	jw_field_cstr(&w, "stream", "stderr");
	jw_field_u64(&w, "offset", at);
	jw_field_u64(&w, "length", len);
	jw_end(&w);
	(void)send_json(c, &out);
}

static void put_offset(char out[9], uint64_t at)
{
	out[0] = REPLAY;
	for (int i = 0; i < 8; i++)
		out[1 + i] = (char)(at >> (56 - 8 * i));
}

/* What it missed, in one message where the channel allows. */
static void send_replay(struct pty_client *c)
{
	const struct ring *ring = &c->pty->ring;
	struct buf out = BUF_INIT(ring->size + 16);
	unsigned char channel, now;
	struct span part;
	char head[9];

	c->cursor = MIN(MAX(c->cursor, ring->start), ring->end);
	while (c->cursor < c->replay_to &&
	       ring_get(ring, c->cursor, (size_t)(c->replay_to - c->cursor), &part, &channel)) {
		uint64_t from = c->cursor;

		put_offset(head, from);
		buf_clear(&out);
		(void)buf_add(&out, head, sizeof(head));
		now = channel;
		do {
			(void)buf_add_span(&out, part);
			c->cursor += part.len;
		} while (c->cursor < c->replay_to &&
			 ring_get(ring, c->cursor, (size_t)(c->replay_to - c->cursor), &part,
				  &channel) &&
			 channel == now);
		if (buf_failed(&out)) {
			out_of_memory(c);
			break;
		}
		if (now == PTY_STDERR)
			send_mark(c, from, out.len - sizeof(head));
		c->full |= websocket_send(c->ws, WS_BINARY, out.data, out.len) == WIRE_FULL;
	}
	buf_free(&out);
}

static void send_live(struct pty_client *c)
{
	const struct ring *ring = &c->pty->ring;
	unsigned char channel;
	struct span part;

	while (!c->full) {
		char head[9];
		size_t head_len = 1;

		if (c->cursor < ring->start) { /* it was too slow: this is where it goes on */
			c->cursor = ring->start;
			put_offset(head, c->cursor);
			head_len = sizeof(head);
		}
		if (!ring_get(ring, c->cursor, MAX_CHUNK, &part, &channel))
			break;
		if (head_len == 1)
			head[0] = (char)channel;
		c->cursor += part.len;
		c->full = websocket_send2(c->ws, WS_BINARY, span_of(head, head_len), part) ==
			  WIRE_FULL;
	}
}

static void leave(struct pty_client *c)
{
	struct pty *p = TAKE(c->pty);

	c->state = CLIENT_DONE;
	if (p != NULL && p->client == c) {
		p->client = NULL;
		pty_settle(p);
	}
}

/* The connection is to end, and knows why. */
static void dismiss(struct pty_client *c, unsigned code, const char *reason)
{
	websocket_close(c->ws, code, reason);
	leave(c);
}

void pty_client_step(struct pty *p)
{
	struct pty_client *c = p->client;

	if (c == NULL || c->full || p->run == NULL || p->run->state == PTY_RUN_STARTING)
		return;
	if (c->state == CLIENT_WAITING) {
		send_replay(c);
		send_connected(c);
		c->state = CLIENT_LIVE;
	}
	send_live(c);
	if (!c->full && p->run->state == PTY_RUN_ENDED && c->cursor >= p->ring.end) {
		p->exit_told = send_exit(c);
		dismiss(c, 1000, "process exited");
	}
}

void pty_client_failed(struct pty *p, const struct err *e)
{
	if (p->client == NULL)
		return;
	send_error(p->client, "START_FAILED", e->msg);
	dismiss(p->client, 1011, "start failed");
}

void pty_client_input_drained(struct pty *p)
{
	if (p->client != NULL)
		websocket_resume(p->client->ws);
}

void pty_client_close(struct pty *p, unsigned code, const char *reason)
{
	if (p->client != NULL)
		dismiss(p->client, code, reason);
}

/* --- from the client --- */

static void take_input(struct pty_client *c, struct span data)
{
	struct pty_run *run = c->pty->run;
	int r = run != NULL ? pty_run_input(run, data) : -EPIPE;

	if (r > 0) {
		websocket_pause(c->ws);
	} else if (r < 0 && run != NULL && run->state != PTY_RUN_ENDED) {
		send_error(c, "STDIN_WRITE_FAILED", "the shell takes no more input");
		dismiss(c, 1011, "stdin write failed");
	} /* a shell that has ended: the exit message is under way */
}

static void take_resize(struct pty_client *c, const json_t *v)
{
	int64_t cols = 0, rows = 0;

	if (json_get_i64(v, "cols", JSON_MAY, &cols, NULL) > 0 &&
	    json_get_i64(v, "rows", JSON_MAY, &rows, NULL) > 0 && cols > 0 && rows > 0)
		pty_run_resize(c->pty->run, (unsigned)MIN(cols, 65535), (unsigned)MIN(rows, 65535));
}

static void take_signal(struct pty_client *c, const json_t *v)
{
	static const struct {
		const char *name;
		int number;
	} signals[] = {
		{ "SIGINT", SIGINT },   { "SIGTERM", SIGTERM }, { "SIGKILL", SIGKILL },
		{ "SIGQUIT", SIGQUIT }, { "SIGHUP", SIGHUP },
	};
	const char *name = "";

	(void)json_get_str(v, "signal", JSON_MAY, &name, NULL);
	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (strcmp(name, signals[i].name) == 0)
			pty_run_signal(c->pty->run, signals[i].number);
}

static void take_stdin(struct pty_client *c, const json_t *v)
{
	struct span data = { NULL, 0 };

	if (json_get_span(v, "data", JSON_MAY, &data, NULL) > 0 && data.len > 0)
		take_input(c, data);
}

static void take_ping(struct pty_client *c, const json_t *v)
{
	static const char pong[] = "{\"type\":\"pong\"}";

	(void)v;
	c->full |= websocket_send(c->ws, WS_TEXT, pong, sizeof(pong) - 1) == WIRE_FULL;
}

static void take_text(struct pty_client *c, struct span text)
{
	static const struct {
		const char *type;
		void (*take)(struct pty_client *c, const json_t *v);
	} kinds[] = {
		{ "stdin", take_stdin },
		{ "resize", take_resize },
		{ "signal", take_signal },
		{ "ping", take_ping },
	};
	static const struct json_limits limits = {
		.max_bytes = MAX_MESSAGE, .max_depth = 4, .max_values = 64, .allow_nul = true
	};
	AUTO(json_decref) json_t *v = NULL;
	const char *type = "";
	char words[128];

	if (json_parse(text, &limits, &v, NULL) < 0 || !json_is_object(v))
		return;
	(void)json_get_str(v, "type", JSON_MAY, &type, NULL);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (strcmp(type, kinds[i].type) == 0) {
			kinds[i].take(c, v);
			return;
		}
	}
	(void)snprintf(words, sizeof(words), "unknown frame type \"%.64s\"", type);
	send_error(c, "INVALID_FRAME", words);
}

static void on_message(struct websocket *ws, enum ws_opcode opcode, struct span data)
{
	struct pty_client *c = websocket_user(ws);

	if (c->pty == NULL || c->pty->run == NULL)
		return;
	if (opcode == WS_TEXT)
		take_text(c, data);
	else if (data.len > 1 && data.p[0] == 0)
		take_input(c, span_skip(data, 1));
}

static void on_drain(struct websocket *ws)
{
	struct pty_client *c = websocket_user(ws);

	c->full = false;
	if (c->pty != NULL)
		pty_client_step(c->pty);
}

static void on_closed(struct websocket *ws, unsigned code, struct span reason)
{
	struct pty_client *c = websocket_user(ws);

	(void)code;
	(void)reason;
	leave(c);
	free(c);
}

/* --- GET /pty/{id}/ws --- */

/* A shell for the client: the one there is, the one whose end nobody was told, or a new one. */
static void give_shell(struct pty *p, struct execd *x, bool pipe)
{
	struct err e = ERR_INIT;

	if (p->run != NULL && (p->run->state != PTY_RUN_ENDED || !p->exit_told)) {
		pty_client_step(p);
		return;
	}
	if (pty_run_start(x, p, pipe, &e) < 0)
		pty_client_failed(p, &e);
}

void pty_ws(struct http_req *r)
{
	bool pipe = span_is(http_query(r, "pty", 0), "0");
	bool takeover = span_is(http_query(r, "takeover", 0), "1");
	struct execd *x = execd_of(r);
	struct pty *p = pty_find(r);
	struct err e = ERR_INIT;
	struct pty_client *c;
	uint64_t since = 0;
	bool none;

	if (p == NULL)
		return;
	if (p->client != NULL && (!takeover || !r->head->upgrade)) {
		api_error(r, 409, API_ALREADY_CONNECTED, "another client is attached");
		return;
	}
	if (!websocket_check(r, &none)) {
		if (none)
			api_error(r, 400, API_INVALID_BODY, "a WebSocket handshake is needed");
		return;
	}
	(void)span_u64(http_query(r, "since", 0), &since);
	c = calloc(1, sizeof(*c));
	if (c == NULL) {
		http_refuse(r, 500, "out of memory");
		return;
	}
	if (websocket_accept(r, NULL,
			     &(struct websocket_options){
				     .max_message = MAX_MESSAGE,
				     .ping_ms = PING_MS,
				     .user = c,
				     .message = on_message,
				     .drain = on_drain,
				     .closed = on_closed,
			     },
			     &c->ws, &e) < 0) {
		free(c);
		if (e.code != EPIPE) /* otherwise the request is gone with its connection */
			http_refuse(r, 500, e.msg);
		return;
	}
	pty_client_close(p, TAKEN_OVER, "TAKEN_OVER");
	c->pty = p;
	c->cursor = since;
	c->replay_to = p->ring.end;
	p->client = c;
	pty_settle(p);
	give_shell(p, x, pipe);
}
