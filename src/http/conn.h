/* Private to src/http: a server's connection and what its parts share. */
#ifndef OSB_HTTP_CONN_H
#define OSB_HTTP_CONN_H

#include "http/server.h"

/* IDLE -> HEAD -> EXCHANGE -> IDLE ...; from each of them to LINGER or CLOSED; from EXCHANGE to
 * UPGRADED, where the connection is somebody else's. */
enum conn_state {
	CONN_IDLE,     /* nothing of the next request yet */
	CONN_HEAD,     /* part of its head */
	CONN_EXCHANGE, /* a handler has it */
	CONN_LINGER,   /* answered for good; reading on so that the client gets to see it */
	CONN_UPGRADED,
	CONN_CLOSED,
};

struct http_conn {
	struct wire wire;
	struct http_server *server;
	struct list link;
	struct deadline deadline;
	struct http_req *req;
	struct h1_scan scan;
	enum conn_state state;
	size_t unsent;    /* of answers, when the deadline was set */
	bool dispatching; /* in conn_bytes: it looks after the exchange's end itself */
	bool starved;     /* the next request waits until the last answer has gone */
	bool expect_more; /* the client may still be sending what nobody will read */
};

int conn_new(struct http_server *s, int fd, struct err *e);
void conn_close(struct http_conn *c);

/* The exchange may be over, or its timer due for a change. */
void conn_step(struct http_conn *c);

void conn_expired(struct http_conn *c);

/* Hand the connection to a new owner of its bytes; the request ends. */
struct wire *conn_upgrade(struct http_conn *c, const struct wire_ops *ops, void *user);

struct http_header {
	struct http_header *next;
	struct span name, value;
};

#endif
