/* WebSocket (RFC 6455), server and client, on a wire that left HTTP. Whole messages, size-capped;
 * fragments are put together, pings answered, the close handshake kept by itself. */
#ifndef OSB_HTTP_WEBSOCKET_H
#define OSB_HTTP_WEBSOCKET_H

#include "codec/ws.h"
#include "http/client.h"
#include "http/server.h"

struct websocket;

struct websocket_options {
	size_t max_message;        /* 1009 beyond; default 16 MiB when 0 */
	uint64_t ping_ms;          /* ping a silent peer this often; 0: never */
	uint64_t close_timeout_ms; /* for the peer's close frame; default 5 s when 0 */
	void *user;
	/* opcode is WS_TEXT (valid UTF-8) or WS_BINARY. `data` is only for the call. */
	void (*message)(struct websocket *ws, enum ws_opcode opcode, struct span data);
	void (*drain)(struct websocket *ws); /* after websocket_send said WIRE_FULL; may be NULL */
	/* Exactly once, last: 1005 no code given, 1006 cut off. The memory goes after it returns.
	 */
	void (*closed)(struct websocket *ws, unsigned code, struct span reason);
};

/* Is this request a WebSocket handshake? A malformed one is answered (400, or 426 for another
 * version) and false is returned; a request that is none at all is left alone with *ret_none =
 * true. */
bool websocket_check(struct http_req *r, bool *ret_none);

/* Answer 101 and take the connection. `protocol`: chosen subprotocol or NULL. The request is gone.
 */
int websocket_accept(struct http_req *r, const char *protocol, const struct websocket_options *opt,
		     struct websocket **ret, struct err *e);

struct websocket_connect_options {
	struct span target;
	const struct h1_field *fields; /* extra ones, e.g. Origin, a token */
	unsigned n_fields;
	const char *protocols; /* offered, or NULL */
	struct websocket_options ws;
	void (*opened)(struct websocket *ws, const char *protocol);
	/* instead of opened: could not connect (status 0) or refused with that HTTP status */
	void (*failed)(void *user, int status, const char *why);
};
int websocket_connect(struct http_upstream *u, const struct websocket_connect_options *opt,
		      struct err *e);

void *websocket_user(const struct websocket *ws);
/* 0, WIRE_FULL (stop until drain) or -EPIPE. One message of max_message bytes always fits; text
 * must be UTF-8. */
int websocket_send(struct websocket *ws, enum ws_opcode opcode, const void *p, size_t len);
/* Header and payload in two pieces, one message (a channel byte in front of data, say). */
int websocket_send2(struct websocket *ws, enum ws_opcode opcode, struct span a, struct span b);
void websocket_pause(struct websocket *ws); /* no more messages for now */
void websocket_resume(struct websocket *ws);
/* Start the close handshake; `closed` follows. Idempotent. */
void websocket_close(struct websocket *ws, unsigned code, const char *reason);
/* Cut the connection, without handshake and without `closed`. */
void websocket_abort(struct websocket *ws);

/* Private to src/http: a client's, on a wire whose handshake is through (ws_connect.c). NULL
 * without memory. */
struct websocket *websocket_on_wire(struct io_loop *l, const struct websocket_options *opt,
				    struct wire *w);

#endif
