/* Private to src/http: what client.c (upstreams and their connections), call.c (one exchange) and
 * call_request.c (its first bytes) share. The public face is client.h. */
#ifndef OSB_HTTP_CALL_H
#define OSB_HTTP_CALL_H

#include "http/client.h"
#include "io/address.h"

/* WAITING -> DIALING -> HEAD -> BODY -> OVER; an idle connection saves the dialing; a kept-alive
 * one that turns out to be gone leads from HEAD back to WAITING, once. Any state can end in OVER.
 */
enum call_state {
	CALL_WAITING, /* in line for a connection */
	CALL_DIALING, /* one is being made for it */
	CALL_HEAD,    /* the request goes out, the answer's head is awaited */
	CALL_BODY,    /* the answer's body comes in */
	CALL_OVER,    /* nothing is called back any more */
};

struct http_call {
	struct http_upstream *upstream;
	struct http_call_options opt; /* after the start only `user` and the callbacks count */
	struct list link;             /* in upstream->calls until it is over */
	struct list wait;             /* in upstream->waiting */
	enum call_state state;
	unsigned holds;
	struct client_conn *conn;  /* HEAD, BODY */
	struct http_dial *dial;    /* DIALING */
	struct deadline deadline;  /* for a connection, then for the answer */
	struct io_defer fail_turn; /* for a failure noted in the caller's own call */
	int error;
	const char *why;

	/* Request bytes for a connection that is not there yet; kept for a second one while the
	 * first may still turn out to be dead. */
	struct buf request;
	uint64_t body_left; /* of an announced length */
	bool chunked;
	bool body_ended;
	bool full;       /* the writer was told to stop while there was no connection */
	bool idempotent; /* RFC 9110 9.2.2: may be sent again even if it has been acted upon */
	bool sent;       /* bytes of it have left */
	bool retried;
	bool to_head; /* the method is HEAD */

	struct h1_scan scan;
	struct h1_head *head; /* with its bytes behind it in the same block */
	struct h1_body body;
	unsigned n_interim;
	bool paused;
};

struct client_conn {
	struct wire wire;
	struct http_upstream *upstream; /* NULL after an upgrade: it is nobody's business here */
	struct http_call *call;         /* NULL while idle */
	struct list link;               /* in upstream->idle */
	struct deadline deadline;       /* idle for too long */
	bool connected;                 /* bytes have moved */
	bool used; /* has carried an answer: the peer may close it whenever it likes */
};

struct http_upstream {
	struct io_loop *loop;
	struct http_upstream_options opt;
	struct address address;
	char *host;
	struct list calls;   /* all that are not over */
	struct list waiting; /* those in line, first come first served */
	struct list idle;    /* connections, the last used first */
	unsigned n_idle;
	unsigned n_connections; /* idle, busy and being dialed */
	struct deadline_queue connect_deadlines, response_deadlines, idle_deadlines;
	struct io_defer pump;
	unsigned holds; /* owner, calls, connections, dials, timers */
	bool freed;
};

/* --- client.c --- */

void upstream_drop(struct http_upstream *u);
/* Look at the line at the end of the turn. */
void upstream_pump(struct http_upstream *u);
/* Nobody waits for this connection any more. */
void upstream_cancel_dial(struct http_dial *d);
/* The call is through with it: into the pool. */
void conn_park(struct client_conn *conn);
void client_conn_close(struct client_conn *conn);
/* Leaves the pool with its bytes' new owner. */
void client_conn_release(struct client_conn *conn);

/* --- call_request.c --- */

/* Nothing in them that would end a line early or make the peer see another request. */
int call_check(const struct http_call_options *opt, struct err *e);
bool call_is_idempotent(const char *method);
/* The head, into c->request; `length` of the body, negative if it is not known. */
void call_compose(struct http_call *c, int64_t length);

/* --- call.c --- */

/* The connection is the call's: send the request. */
void call_attach(struct http_call *c, struct client_conn *conn);
/* Ends the call with `done`. */
void call_fail(struct http_call *c, int error, const char *why);
void call_enter(struct http_call *c, enum call_state to);

/* What the connection's wire tells. */
size_t call_bytes(struct http_call *c, char *data, size_t len);
void call_eof(struct http_call *c);
void call_progress(struct http_call *c);
void call_drained(struct http_call *c);
void call_broken(struct http_call *c, int error);

#endif
