/* HTTP/1.1 server: one exchange at a time per connection, pipelined requests answered in order.
 *
 * A handler is called when a request's head is complete. It may answer at once, or read the body,
 * or keep the request and answer later. The request lives until `done` is called: exactly once,
 * when the answer has been handed over and the body consumed, or when the connection broke (then
 * `aborted`). Never touch a request after `done`; if something asynchronous still points at it,
 * cut that there.
 *
 *	static void hello(struct http_req *r)
 *	{
 *		http_reply(r, 200, "text/plain", SPAN_LIT("hello\n"));
 *	}
 */
#ifndef OSB_HTTP_SERVER_H
#define OSB_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "codec/h1.h"
#include "http/wire.h"
#include "io/deadline.h"
#include "io/listener.h"

struct http_req;
struct http_server;
struct tls_context;

typedef void http_handler(struct http_req *r);

struct http_limits {
	struct h1_limits head;
	unsigned max_connections; /* 503 beyond */
	uint64_t head_timeout_ms; /* from a request's first byte (or the connect) to its head's end:
				     408 */
	uint64_t body_timeout_ms; /* without a byte of a body that is waited for: 408 */
	uint64_t idle_timeout_ms; /* keep-alive without a request */
	uint64_t write_timeout_ms; /* peer takes nothing of an answer */
	uint64_t linger_ms;   /* reading on after a refusal, so that the client sees the answer */
	uint64_t max_discard; /* unread request body swallowed to keep the connection */
	size_t soft_out, hard_out; /* of unsent answer bytes */
	size_t max_arena;          /* memory that hangs off one request */
};

extern const struct http_limits http_default_limits;

struct http_options {
	struct http_limits limits;
	http_handler *handler; /* every request */
	void *user;            /* reachable as r->server->user */
	/* An answer the layer itself gives (parse errors, 404 of the router, 503 ...); NULL: plain
	 * text. Must answer with http_reply(). `why` is for people. */
	void (*refuse)(struct http_req *r, int status, const char *why);
	/* How an accepted descriptor becomes a stream, NULL for plain (see http/secure.h for TLS).
	 */
	int (*secure)(void *ctx, struct stream *s, struct err *e);
	void *secure_ctx;
	/* What connections beyond max_connections get, head and all; NULL: a plain 503. */
	const char *busy_reply;
};

enum http_stat { HTTP_STAT_ACCEPTED, HTTP_STAT_REQUESTS, HTTP_STAT_REFUSED, HTTP_STAT_COUNT };

struct http_server {
	struct io_loop *loop;
	struct http_options opt;
	void *user;
	struct list connections;
	struct list listeners;
	unsigned n_connections;
	struct deadline_queue head_deadlines, body_deadlines, idle_deadlines, write_deadlines,
		linger_deadlines;
	struct h1_head scratch; /* where heads are parsed before they are copied to their request */
	char date[40];          /* "Date: ...\r\n", made anew when the second changes */
	uint64_t date_at_ms;
	struct buf head_out; /* where answers' heads are composed */
	uint64_t stats[HTTP_STAT_COUNT];
	bool draining;
	unsigned closing_parts;
	void (*drained)(struct http_server *s);
	void (*closed)(struct http_server *s);
};

int http_server_init(struct io_loop *l, struct http_server *s, const struct http_options *opt,
		     struct err *e);
/* Takes the listening socket over (io/listener.h makes one). May be called for several. */
int http_server_listen(struct http_server *s, int fd, struct err *e);
/* Graceful: no new connections, idle ones closed, running exchanges finished with "Connection:
 * close". `drained` is called once none is left (at once, at the end of the turn, if there is
 * none). */
void http_server_drain(struct http_server *s, void (*drained)(struct http_server *s));
/* Everything now; `closed` when the memory may go. */
void http_server_close(struct http_server *s, void (*closed)(struct http_server *s));

/* A server-side connection on a descriptor that came some other way (a socketpair, inetd style). */
int http_server_adopt(struct http_server *s, int fd, struct err *e);

struct http_req {
	struct http_server *server;
	const struct h1_head *head; /* spans live as long as the request */
	struct arena arena;
	void *user; /* the handler's own */

	/* The handler's callbacks, all optional. */
	void (*on_data)(struct http_req *r, struct span data); /* a piece of the request body */
	void (*on_end)(struct http_req *r);                    /* the body is complete */
	void (*on_drain)(struct http_req *r); /* after http_write() said WIRE_FULL */
	void (*done)(struct http_req *r);

	bool aborted;      /* set before `done`: the peer went, or was cut */
	bool abort_on_eof; /* treat the client's half-close as its going (default: finish the
			      answer) */
	bool keep_alive;   /* clear it to close after this exchange */

	/* filled by the router */
	const struct http_route *route;
	unsigned n_params;
	struct http_param {
		const char *name;
		size_t name_len;
		struct span value; /* decoded */
	} params[8];

	/* private to the http layer */
	struct http_conn *conn;
	struct http_header *headers;
	char *query; /* room for its values, decoded; NULL: there is no escape in it */
	struct h1_body body_in;
	struct buf collected;
	void (*on_collected)(struct http_req *r, struct span body);
	uint64_t length_left; /* of an answer of known length */
	uint64_t discarded;   /* of a body nobody reads */
	enum http_reply_state { HTTP_REPLY_NONE, HTTP_REPLY_STARTED, HTTP_REPLY_ENDED } reply;
	bool reading;    /* the handler wants the body */
	bool body_ended; /* on_end was called */
	bool body_paused;
	bool chunked;     /* the answer is */
	bool no_body;     /* the answer has none: HEAD, 204, 304 */
	bool until_close; /* the answer's end is the connection's */
	bool sending_file;
	bool continue_sent;
	bool bad_header;
};

/* --- the request --- */

struct io_loop *http_loop(const struct http_req *r);
/* The whole body at once, at most max bytes (413 beyond, answered by the layer). */
void http_read_body(struct http_req *r, size_t max,
		    void (*on_collected)(struct http_req *r, struct span body));
/* Piece by piece: set on_data and on_end first. A body that is not read is discarded. */
void http_stream_body(struct http_req *r);
void http_pause_body(struct http_req *r);
void http_resume_body(struct http_req *r);
/* Decoded value of the n-th `key` of the query; p == NULL if there is none. "?key" gives "". A
 * value with a broken escape counts as absent. */
struct span http_query(const struct http_req *r, const char *key, unsigned nth);
struct span http_param(const struct http_req *r, const char *name);
/* Value of the first field of that name; p == NULL if there is none. */
struct span http_field(const struct http_req *r, const char *name);
/* "192.0.2.1:4711" or "unix". */
const char *http_peer(struct http_req *r);

/* --- the answer --- */

/* Before http_start/http_reply. A name or value that could break the head is dropped, with the
 * answer turning into a 500: that is a bug here, never something to send. */
void http_header(struct http_req *r, const char *name, const char *value);
void http_header_span(struct http_req *r, struct span name, struct span value);
/* No header was dropped so far. */
bool http_answerable(const struct http_req *r);

/* All of it. content_type may be NULL. An empty body sends "Content-Length: 0". */
void http_reply(struct http_req *r, int status, const char *content_type, struct span body);

/* In pieces: start, write..., end. `length` < 0: unknown (chunked, or until close for HTTP/1.0). */
#define HTTP_LENGTH_UNKNOWN (-1)
void http_start(struct http_req *r, int status, int64_t length);
/* 0, WIRE_FULL (stop until on_drain), or -EPIPE when it is pointless to go on. */
int http_write(struct http_req *r, const void *p, size_t len);
void http_end(struct http_req *r);
/* After http_start with its length: sends the range and ends the answer. Takes the descriptor over.
 */
void http_send_file(struct http_req *r, int fd, off_t offset);
/* Cut the connection: the answer cannot be completed truthfully. */
void http_abort(struct http_req *r);
bool http_started(const struct http_req *r);

/* Answer through options.refuse. Only before http_start. */
void http_refuse(struct http_req *r, int status, const char *why);

/* Leave HTTP: sends the head ("101 Switching Protocols" or what status says) with the headers set
 * so far and hands the connection over. `done` is called at once (not aborted); the request is gone
 * then. The new owner ends with wire_close(), and needs no `closed`. */
struct wire *http_upgrade(struct http_req *r, int status, const struct wire_ops *ops, void *user);

#endif
