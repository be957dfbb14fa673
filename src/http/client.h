/* HTTP/1.1 client: calls over a pool of kept-alive connections to one upstream.
 *
 * An upstream is somewhere to connect to: a TCP address, a Unix socket, or a dialer that produces a
 * connected descriptor on request (a socket made inside a sandbox's network namespace). A call
 * takes an idle connection or dials; a kept-alive connection that the peer closed before the first
 * byte of an answer is replaced once, if the request can be sent again: none of its body was
 * streamed, and its method is idempotent (RFC 9110 9.2.2) or none of its bytes had left.
 *
 * Contract: http_call_start() fails now, or `done` is called exactly once, later. Callbacks may
 * cancel. */
#ifndef OSB_HTTP_CLIENT_H
#define OSB_HTTP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "codec/h1.h"
#include "http/wire.h"
#include "io/deadline.h"

struct http_call;
struct http_upstream;
struct http_dial;

struct http_upstream_options {
	/* One of these: "127.0.0.1:80", "[::1]:80", "unix:/path" (numeric, no NSS) ... */
	const char *address;
	/* ... or a dialer. It answers by http_dialed(), later or at once; `dial_cancel` (may be
	 * NULL) is told when nobody waits any more. */
	void (*dial)(void *ctx, struct http_dial *d);
	void (*dial_cancel)(void *ctx, struct http_dial *d);
	void *dial_ctx;
	const char *host;             /* Host field when the call has none; NULL: "localhost" */
	unsigned max_idle;            /* kept-alive connections */
	unsigned max_connections;     /* calls beyond wait in line */
	uint64_t connect_timeout_ms;  /* waiting in line included; 0: none (same below) */
	uint64_t response_timeout_ms; /* to the head of the answer, from the request's last byte;
				       * also for the upstream to take any of the request */
	uint64_t idle_timeout_ms;     /* of a kept-alive connection */
	struct h1_limits head;
	size_t soft_out, hard_out;
};

extern const struct http_upstream_options http_upstream_defaults;

/* The answer to one `dial`: a descriptor (connected or connecting, taken over in any case) or a
 * negative errno. Owed exactly once, also after `dial_cancel`, from within which it may come. */
void http_dialed(struct http_dial *d, int fd_or_error, const char *why);

int http_upstream_new(struct io_loop *l, const struct http_upstream_options *opt,
		      struct http_upstream **ret, struct err *e);
/* Calls under way end with -ECANCELED before this returns; the memory goes by itself. */
void http_upstream_free(struct http_upstream *u);
struct io_loop *http_upstream_loop(const struct http_upstream *u);

struct http_call_options {
	const char *method;
	struct span target; /* "/path?query", sent as it is (must be valid: checked) */
	const struct h1_field *fields;
	unsigned n_fields; /* framing fields (Content-Length, Transfer-Encoding, Connection) are
			      ours */
	/* request body: none (0), known length, or HTTP_LENGTH_UNKNOWN (chunked) */
	int64_t body_length;
	struct span
		body; /* if set (p != NULL): the whole body, copied (so it must fit hard_out, with
		       * the head); body_length is taken from it */
	bool upgrade; /* keep Connection: upgrade and Upgrade of `fields`; see on_upgrade */

	void *user;
	void (*on_continue)(struct http_call *c); /* 100 Continue; may be NULL */
	/* The answer's head (its spans live as long as the call). */
	void (*on_head)(struct http_call *c, const struct h1_head *head);
	void (*on_data)(struct http_call *c, struct span data);
	void (*on_drain)(struct http_call *c); /* after http_call_write said WIRE_FULL */
	/* 101: the wire is yours (wire_take_over it here); `done` follows, then the call is gone.
	 */
	void (*on_upgrade)(struct http_call *c, const struct h1_head *head, struct wire *w);
	/* error == 0: complete. Otherwise a negative errno with words. */
	void (*done)(struct http_call *c, int error, const char *why);
};

int http_call_start(struct http_upstream *u, const struct http_call_options *opt,
		    struct http_call **ret, struct err *e);
void *http_call_user(const struct http_call *c);
/* 0, WIRE_FULL, or -EPIPE. Allowed from the start: bytes wait for the connection (bounded by
 * hard_out). */
int http_call_write(struct http_call *c, const void *p, size_t len);
void http_call_end_body(struct http_call *c);
void http_call_pause(struct http_call *c); /* of on_data */
void http_call_resume(struct http_call *c);
/* Ends it without `done`; the connection is closed, not kept. */
void http_call_cancel(struct http_call *c);

#endif
