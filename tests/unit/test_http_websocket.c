/* WebSockets of both roles in one loop, and clients against peers that break the handshake. */
#include "http_fixture.h"

#include <stdio.h>

#include "http/websocket.h"
#include "http/ws_reader.h"

/* What one end has seen. */
struct end {
	struct websocket *ws;
	unsigned n_messages, n_closed, n_drained, code;
	enum ws_opcode opcode;
	struct buf last;
	char reason[128];
	char protocol[32];
	/* of a client */
	unsigned n_opened, n_failed;
	int status;
	char why[128];
	bool pause, close_at_once, echo;
};

static struct end client, server;
static struct websocket_options server_options;

static void on_message(struct websocket *ws, enum ws_opcode opcode, struct span data)
{
	struct end *e = websocket_user(ws);

	e->n_messages++;
	e->opcode = opcode;
	buf_clear(&e->last);
	assert_int_equal(buf_add_span(&e->last, data), 0);
	if (e->echo)
		assert_true(websocket_send(ws, opcode, data.p, data.len) >= 0);
	if (e->pause)
		websocket_pause(ws);
	if (e->close_at_once)
		websocket_close(ws, 4000, "enough");
}

static void on_drain(struct websocket *ws)
{
	((struct end *)websocket_user(ws))->n_drained++;
}

static void on_closed(struct websocket *ws, unsigned code, struct span reason)
{
	struct end *e = websocket_user(ws);

	e->n_closed++;
	e->code = code;
	assert_true(span_copy(reason, e->reason, sizeof(e->reason)));
	assert_int_equal(websocket_send(ws, WS_TEXT, "x", 1), -EPIPE);
	websocket_close(ws, 1000, NULL); /* allowed, and does nothing */
	e->ws = NULL;
}

static void on_opened(struct websocket *ws, const char *protocol)
{
	client.n_opened++;
	client.ws = ws;
	(void)snprintf(client.protocol, sizeof(client.protocol), "%s",
		       protocol != NULL ? protocol : "");
}

static void on_failed(void *user, int status, const char *why)
{
	struct end *e = user;

	e->n_failed++;
	e->status = status;
	(void)snprintf(e->why, sizeof(e->why), "%s", why);
}

static void handle(struct http_req *r)
{
	bool none;

	if (!span_is(r->head->path, "/ws")) {
		http_reply(r, 404, NULL, SPAN_LIT("not here"));
		return;
	}
	assert_true(websocket_check(r, &none));
	assert_int_equal(
		websocket_accept(r, http_field(r, "sec-websocket-protocol").p != NULL ? "b" : NULL,
				 &server_options, &server.ws, NULL),
		0);
}

static struct websocket_options end_options(struct end *e)
{
	*e = (struct end){ .last = BUF_INIT(MIB(8)) };
	return (struct websocket_options){
		.user = e, .message = on_message, .drain = on_drain, .closed = on_closed
	};
}

static struct websocket_connect_options connect_options(const char *target)
{
	return (struct websocket_connect_options){
		.target = span_str(target),
		.ws = end_options(&client),
		.opened = on_opened,
		.failed = on_failed,
	};
}

static void open_pair(void)
{
	struct websocket_connect_options opt = connect_options("/ws");

	use_server(handle);
	use_default_upstream(DIAL_SERVER);
	if (server_options.message == NULL)
		server_options = end_options(&server);
	assert_int_equal(websocket_connect(fx.upstream, &opt, NULL), 0);
	WAIT_FOR(client.n_opened > 0 && server.ws != NULL);
}

static int ws_teardown(void **state)
{
	if (client.ws != NULL)
		websocket_abort(client.ws);
	buf_free(&client.last);
	buf_free(&server.last);
	server_options = (struct websocket_options){ 0 };
	return teardown(state);
}

static void test_messages(void **state)
{
	static const size_t sizes[] = { 0, 1, 125, 126, 65535, 65536, MIB(3) };

	(void)state;
	open_pair();
	server.echo = true;
	for (unsigned i = 0; i < ARRAY_LEN(sizes); i++) {
		autofree char *data = malloc(sizes[i] + 1);

		assert_non_null(data);
		for (size_t k = 0; k < sizes[i]; k++)
			data[k] = (char)(k * 7 + k / 251);
		assert_true(websocket_send(client.ws, WS_BINARY, data, sizes[i]) >= 0);
		WAIT_FOR(client.n_messages == i + 1);
		assert_int_equal(client.opcode, WS_BINARY);
		assert_true(span_eq(buf_span(&client.last), span_of(data, sizes[i])));
		assert_true(span_eq(buf_span(&server.last), span_of(data, sizes[i])));
	}
	assert_true(websocket_send2(client.ws, WS_TEXT, SPAN_LIT("chan"), SPAN_LIT("nel")) >= 0);
	WAIT_FOR(client.n_messages == ARRAY_LEN(sizes) + 1);
	assert_true(span_is(buf_span(&client.last), "channel"));
	assert_int_equal(client.opcode, WS_TEXT);
	assert_true(websocket_send2(server.ws, WS_TEXT, SPAN_LIT(""), SPAN_LIT("")) >= 0);
	WAIT_FOR(client.n_messages == ARRAY_LEN(sizes) + 2);
	assert_int_equal(client.last.len, 0);
}

static void test_close_by_either(void **state)
{
	(void)state;
	open_pair();
	websocket_close(client.ws, 1001, "going");
	websocket_close(client.ws, 1000, "twice");
	WAIT_FOR(client.n_closed > 0 && server.n_closed > 0);
	assert_int_equal(server.code, 1001);
	assert_string_equal(server.reason, "going");
	assert_int_equal(client.code, 1001);
	WAIT_FOR(fx.server.n_connections == 0); /* at once, without the timeout */
	assert_int_equal(client.n_closed + server.n_closed, 2);

	http_upstream_free(fx.upstream);
	client.n_opened = 0;
	use_default_upstream(DIAL_SERVER);
	server_options = end_options(&server);
	assert_int_equal(
		websocket_connect(fx.upstream,
				  &(struct websocket_connect_options){ .target = SPAN_LIT("/ws"),
								       .ws = end_options(&client),
								       .opened = on_opened,
								       .failed = on_failed },
				  NULL),
		0);
	WAIT_FOR(client.n_opened > 0 && server.ws != NULL);
	server.close_at_once = true; /* from within a message */
	assert_true(websocket_send(client.ws, WS_TEXT, "a", 1) >= 0);
	assert_true(websocket_send(client.ws, WS_TEXT, "b", 1) >= 0);
	WAIT_FOR(client.n_closed > 0 && server.n_closed > 0);
	assert_int_equal(server.n_messages, 1); /* what came after is dropped */
	assert_int_equal(client.code, 4000);
	assert_string_equal(client.reason, "enough");
	assert_int_equal(server.code, 4000);
}

static void test_long_reason_is_cut_between_characters(void **state)
{
	char reason[200];

	(void)state;
	open_pair();
	for (size_t i = 0; i + 2 < sizeof(reason); i += 3)
		memcpy(reason + i, "\xe2\x82\xac", 3);
	reason[198] = '\0';
	websocket_close(client.ws, 1000, reason);
	WAIT_FOR(server.n_closed > 0);
	assert_int_equal(server.code, 1000);
	assert_int_equal(strlen(server.reason), 123);
}

static void test_pause(void **state)
{
	(void)state;
	open_pair();
	server.pause = true;
	for (int i = 0; i < 10; i++)
		assert_true(websocket_send(client.ws, WS_TEXT, "m", 1) >= 0);
	for (unsigned i = 1; i <= 10; i++) {
		WAIT_FOR(server.n_messages == i);
		for (int k = 0; k < 10; k++)
			(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		assert_int_equal(server.n_messages, i);
		websocket_resume(server.ws);
	}
	/* a paused end can be closed all the same */
	assert_true(websocket_send(client.ws, WS_TEXT, "m", 1) >= 0);
	WAIT_FOR(server.n_messages == 11);
	websocket_close(server.ws, 1000, NULL);
	WAIT_FOR(client.n_closed > 0 && server.n_closed > 0);
}

static void test_backpressure(void **state)
{
	static const char piece[KIB(32)];
	unsigned sent = 0;

	(void)state;
	open_pair();
	websocket_pause(client.ws);
	for (int r = 0; r != WIRE_FULL; sent++) {
		r = websocket_send(server.ws, WS_BINARY, piece, sizeof(piece));
		assert_true(r >= 0);
	}
	for (int k = 0; k < 20; k++)
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
	assert_int_equal(server.n_drained, 0);
	websocket_resume(client.ws);
	WAIT_FOR(client.n_messages == sent);
	assert_int_equal(server.n_drained, 1);
}

static void test_cut_off(void **state)
{
	(void)state;
	open_pair();
	websocket_abort(TAKE(client.ws));
	WAIT_FOR(server.n_closed > 0);
	assert_int_equal(server.code, 1006);
	assert_int_equal(client.n_closed, 0);
}

static void test_server_closes_with_websockets_open(void **state)
{
	(void)state;
	open_pair();
	http_server_close(&fx.server, server_is_closed);
	WAIT_FOR(server.n_closed > 0 && client.n_closed > 0);
	assert_int_equal(server.code, 1006);
	assert_int_equal(client.code, 1006);
	WAIT_FOR(fx.server_closed);
	fx.serving = false;
}

/* --- against raw peers --- */

/* Connect to a peer that gives this answer, '@' standing for the right (or a wrong) accept key. */
static struct peer *raw_handshake(const char *answer, bool with_accept, const char *protocols,
				  const struct websocket_options *ws)
{
	struct websocket_connect_options opt = connect_options("/chat");
	char accept[WS_ACCEPT_SIZE], text[512];
	const char *head, *key, *mark;

	if (ws != NULL) {
		opt.ws.ping_ms = ws->ping_ms;
		opt.ws.close_timeout_ms = ws->close_timeout_ms;
		opt.ws.max_message = ws->max_message;
	}
	opt.protocols = protocols;
	use_default_upstream(DIAL_PEER);
	assert_int_equal(websocket_connect(fx.upstream, &opt, NULL), 0);
	WAIT_FOR(fx.n_peers > 0);
	head = peer_head(&fx.peers[fx.n_peers - 1]);
	assert_non_null(strstr(head, "GET /chat HTTP/1.1\r\n"));
	assert_non_null(strstr(head, "Connection: Upgrade"));
	assert_non_null(strstr(head, "Upgrade: websocket"));
	assert_non_null(strstr(head, "Sec-WebSocket-Version: 13"));
	key = strstr(head, "Sec-WebSocket-Key: ");
	assert_non_null(key);
	assert_true(ws_accept_key(span_of(key + 19, 24), accept));
	mark = strchr(answer, '@');
	assert_non_null(mark);
	(void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(mark - answer), answer,
		       with_accept ? accept : "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", mark + 1);
	peer_say(&fx.peers[fx.n_peers - 1], text);
	WAIT_FOR(client.n_opened + client.n_failed > 0);
	return &fx.peers[fx.n_peers - 1];
}

#define SWITCH                                                                              \
	"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" \
	"Sec-WebSocket-Accept: @\r\n"

static void test_handshake_answers(void **state)
{
	static const struct {
		const char *answer, *protocols;
		bool with_accept, opened;
		int status;
		const char *protocol;
	} cases[] = {
		{ SWITCH "\r\n", NULL, true, true, 0, "" },
		{ SWITCH "\r\n", NULL, false, false, 0, "" },
		{ SWITCH "\r\n", "a, b", true, true, 0, "" },
		{ SWITCH "Sec-WebSocket-Protocol: b\r\n\r\n", "a, b", true, true, 0, "b" },
		{ SWITCH "Sec-WebSocket-Protocol: c\r\n\r\n", "a, b", true, false, 0, "" },
		{ SWITCH "Sec-WebSocket-Protocol: b\r\n\r\n", NULL, true, false, 0, "" },
		{ SWITCH "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", NULL, true, false,
		  0, "" },
		{ "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX: @\r\n\r\n",
		  NULL, true, false, 0, "" },
		{ "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: chat\r\n"
		  "Sec-WebSocket-Accept: @\r\n\r\n",
		  NULL, true, false, 0, "" },
		{ "HTTP/1.1 101 Up\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: @\r\n\r\n", NULL,
		  true, false, 0, "" },
		{ "HTTP/1.1 403 Forbidden\r\nContent-Length: 100\r\nX: @\r\n\r\nbecause", NULL,
		  true, false, 403, "" },
		{ "nonsense @\r\n\r\n", NULL, true, false, 0, "" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct peer *p = raw_handshake(cases[i].answer, cases[i].with_accept,
					       cases[i].protocols, NULL);

		assert_int_equal(client.n_opened, cases[i].opened);
		assert_int_equal(client.n_failed, !cases[i].opened);
		assert_int_equal(client.status, cases[i].status);
		assert_string_equal(client.protocol, cases[i].protocol);
		if (client.ws != NULL)
			websocket_abort(TAKE(client.ws));
		WAIT_FOR(p->ended); /* nothing is kept of what went wrong */
		http_upstream_free(TAKE(fx.upstream));
		peer_close(p);
		buf_free(&p->in);
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		fx.n_peers = 0;
	}
}

static void test_handshake_without_connection(void **state)
{
	struct websocket_connect_options opt = connect_options("/chat");

	(void)state;
	use_default_upstream(DIAL_REFUSE);
	assert_int_equal(websocket_connect(fx.upstream, &opt, NULL), 0);
	assert_int_equal(client.n_failed, 0);
	WAIT_FOR(client.n_failed > 0);
	assert_int_equal(client.status, 0);
	assert_string_equal(client.why, "nobody at home");
	opt.target = SPAN_LIT("no target");
	assert_int_equal(websocket_connect(fx.upstream, &opt, NULL), -EINVAL);
	assert_int_equal(client.n_failed, 1);
}

/* The frames of a client, as its peer takes them apart. */
static struct ws_event client_frame(struct peer *p, struct ws_reader *reader)
{
	struct ws_event ev = { .kind = WS_EVENT_NONE };

	while (ev.kind == WS_EVENT_NONE) {
		static char copy[256];
		size_t n;

		WAIT_FOR(p->in.len > 0);
		n = MIN(p->in.len, sizeof(copy)); /* an event points into what it came from */
		memcpy(copy, p->in.data, n);
		n = ws_reader_next(reader, copy, n, &ev);
		buf_consume(&p->in, n);
		if (n == 0)
			turn();
	}
	return ev;
}

static void test_client_frames(void **state)
{
	struct ws_reader reader;
	struct ws_event ev;
	struct peer *p;

	(void)state;
	p = raw_handshake(SWITCH "\r\n\x81\x05"
				 "early",
			  true, NULL, NULL);
	ws_reader_init(&reader, true, KIB(1));
	WAIT_FOR(client.n_messages == 1); /* behind the head in the same segment */
	assert_true(span_is(buf_span(&client.last), "early"));
	assert_int_equal(websocket_send(client.ws, WS_TEXT, "masked", 6), 0);
	ev = client_frame(p, &reader);
	assert_true(ev.kind == WS_EVENT_MESSAGE && span_is(ev.data, "masked"));
	peer_say(p, "\x89\x01?");
	ev = client_frame(p, &reader);
	assert_true(ev.kind == WS_EVENT_PONG && span_is(ev.data, "?"));
	/* a server must not mask */
	peer_say(p, "\x81\x81mask?");
	ev = client_frame(p, &reader);
	assert_true(ev.kind == WS_EVENT_CLOSE && ev.code == 1002);
	WAIT_FOR(client.n_closed > 0);
	assert_int_equal(client.code, 1002);
	WAIT_FOR(p->ended);
	ws_reader_free(&reader);
}

static void test_pings(void **state)
{
	/* long enough for a busy machine to answer in time */
	const struct websocket_options opt = { .ping_ms = 300 };
	struct ws_reader reader;
	struct ws_event ev;
	struct peer *p;

	(void)state;
	p = raw_handshake(SWITCH "\r\n", true, NULL, &opt);
	ws_reader_init(&reader, true, KIB(1));
	for (int i = 0; i < 2; i++) {
		ev = client_frame(p, &reader);
		assert_int_equal(ev.kind, WS_EVENT_PING);
		assert_int_equal(client.n_closed, 0);
		assert_int_equal(write(p->stream.fd, "\x8a\x00", 2), 2);
	}
	ev = client_frame(p, &reader); /* this one is not answered */
	assert_int_equal(ev.kind, WS_EVENT_PING);
	WAIT_FOR(client.n_closed > 0);
	assert_int_equal(client.code, 1006);
	WAIT_FOR(p->ended);
	ws_reader_free(&reader);
}

static void test_peer_ignores_our_close(void **state)
{
	const struct websocket_options opt = { .close_timeout_ms = 5 };
	struct peer *p;

	(void)state;
	p = raw_handshake(SWITCH "\r\n", true, NULL, &opt);
	websocket_close(client.ws, 1000, NULL);
	peer_say(p, "\x81\x02hi");
	WAIT_FOR(client.n_closed > 0);
	assert_int_equal(client.n_messages, 0);
	assert_int_equal(client.code, 1006);
	WAIT_FOR(p->ended);
}

static void test_peer_lingers(void **state)
{
	const struct websocket_options opt = { .close_timeout_ms = 5 };
	struct peer *p;

	(void)state;
	p = raw_handshake(SWITCH "\r\n", true, NULL, &opt);
	peer_say(p, "\x88\x02\x03\xe8"); /* and never hangs up */
	WAIT_FOR(client.n_closed > 0);
	assert_int_equal(client.code, 1000);
	WAIT_FOR(p->ended);
	/* what it says is not listened to, until patience is at its end */
	while (send(p->stream.fd, "\x81\x02hi", 4, MSG_NOSIGNAL) > 0) {
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		assert_false(fx.late);
	}
	assert_int_equal(client.n_messages + client.n_closed, 1);
}

static void test_message_too_big(void **state)
{
	const struct websocket_options opt = { .max_message = 10 };
	struct peer *p;

	(void)state;
	p = raw_handshake(SWITCH "\r\n", true, NULL, &opt);
	peer_say(p, "\x82\x0a"
		    "0123456789"
		    "\x82\x0b");
	WAIT_FOR(client.n_closed > 0);
	assert_int_equal(client.n_messages, 1);
	assert_int_equal(client.code, 1009);
	peer_close(p);
}

int main(void)
{
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, ws_teardown)
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_messages),
		LOOP_TEST(test_close_by_either),
		LOOP_TEST(test_long_reason_is_cut_between_characters),
		LOOP_TEST(test_pause),
		LOOP_TEST(test_backpressure),
		LOOP_TEST(test_cut_off),
		LOOP_TEST(test_server_closes_with_websockets_open),
		LOOP_TEST(test_handshake_answers),
		LOOP_TEST(test_handshake_without_connection),
		LOOP_TEST(test_client_frames),
		LOOP_TEST(test_pings),
		LOOP_TEST(test_peer_ignores_our_close),
		LOOP_TEST(test_peer_lingers),
		LOOP_TEST(test_message_too_big),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
