/* Two wires joined: what one end sends goes to the other, half-closes included, until both have
 * finished or one breaks. Backpressure both ways; nothing is kept beyond the wires' limits. */
#ifndef OSB_HTTP_TUNNEL_H
#define OSB_HTTP_TUNNEL_H

#include "base/err.h"
#include "http/wire.h"

struct tunnel;

struct tunnel_options {
	void (*activity)(void *ctx); /* bytes went through; may be NULL */
	void (*over)(void *ctx);     /* exactly once, last; may be NULL */
	void *ctx;
};

extern const struct wire_ops tunnel_ops;

/* In two steps, because wires are handed over at different moments: first the tunnel, then each
 * wire by wire_take_over(w, &tunnel_ops, t) and tunnel_join(). */
int tunnel_new(const struct tunnel_options *opt, struct tunnel **ret, struct err *e);
void tunnel_join(struct tunnel *t, struct wire *a, struct wire *b);
/* Instead of joining: forget it, without `over`. */
void tunnel_discard(struct tunnel *t);

#endif
