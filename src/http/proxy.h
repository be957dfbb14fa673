/* Reverse proxy: one request passed on to an upstream, its answer passed back, both streamed with
 * backpressure, nothing buffered beyond the limits.
 *
 * Heads are written anew, never copied through: hop-by-hop fields (and what Connection names) stay
 * on their hop, repeated fields such as Set-Cookie stay apart and in order, the bytes of path and
 * query are not altered. Upgrades (WebSocket and others) become a tunnel that passes half-closes
 * on.
 *
 * An answer that breaks off cuts the client's connection: the part never passes for the whole. A
 * client that goes (a half-close counts as going, it cannot be told apart) ends the call. */
#ifndef OSB_HTTP_PROXY_H
#define OSB_HTTP_PROXY_H

#include "http/client.h"
#include "http/server.h"

struct http_proxy_options {
	struct span target;       /* "/path?query" for the upstream, raw bytes */
	struct span host;         /* Host for the upstream; p == NULL: the client's own */
	const char *const *strip; /* request fields not to pass on (NULL-terminated), e.g. tokens */
	const struct h1_field
		*add; /* request fields to add (replacing the client's of that name) */
	unsigned n_add;
	const struct h1_field *add_reply; /* the same for the answer */
	unsigned n_add_reply;
	bool forwarded; /* append X-Forwarded-For, set X-Forwarded-Proto and -Host */
	/* No answer from the upstream: answer for it (502, 504). NULL: http_refuse(). */
	void (*failed)(struct http_req *r, int status, const char *why);
	/* Bytes went through (for idle timers, renew-on-access); may be NULL. */
	void (*activity)(void *ctx);
	/* The exchange, or the tunnel it became, is over; may be NULL. */
	void (*over)(void *ctx);
	void *ctx;
};

/* The request is the proxy's from here on: it sets r->user and all callbacks. */
void http_proxy(struct http_req *r, struct http_upstream *u, const struct http_proxy_options *opt);

#endif
