/* Isolated sessions: made, kept and ended here; what they do is done by the execd inside them
 * (isolate.h), to which requests are passed on.
 *
 * isolated.c has the sessions and their routes, isolated_request.c what a client may ask for,
 * isolated_probe.c whether it can be done here, isolated_inside.c the part of the inner execd. */
#ifndef OSB_EXECD_ISOLATED_H
#define OSB_EXECD_ISOLATED_H

#include "base/map.h"
#include "base/rand.h"
#include "codec/json.h"
#include "execd/env.h"
#include "execd/execd.h"

struct isolated {
	struct execd *x;
	struct map by_id;
	struct list sessions;
	/* of isolated_probe.c */
	struct list waiting; /* those who want to know */
	unsigned probes;     /* under way */
	bool probed, setpriv, userns;
	char why_not[256];
};

/* Made when first needed. NULL: out of memory, answered. */
struct isolated *isolated_of(struct http_req *r);

/* What a client asked for, checked. Strings belong to `json`. */
struct isolated_request {
	json_t *json;
	char *workspace; /* absolute */
	const char *mode;
	bool strict, share_net, userns;
	uint32_t uid, gid;
	bool has_uid, has_gid;
	uint64_t idle_ms; /* 0: never */
};

/* --- isolated_request.c --- */

/* Takes `json` over in any case. -EINVAL with words: 400. */
int isolated_request_read(const struct execd *x, json_t *json, struct isolated_request *ret,
			  struct err *e);
void isolated_request_free(struct isolated_request *q);
/* The plan for isolate.h. */
int isolated_request_plan(const struct execd *x, const struct isolated_request *q, struct buf *out,
			  struct err *e);
/* What the inner execd starts with (spec.h). */
int isolated_request_spec(const struct execd *x, const struct isolated_request *q,
			  const char *token, struct buf *out, struct err *e);
/* The parameters, as members of an object that is being written. */
void isolated_request_echo(const struct isolated_request *q, struct jw *w);

/* May this variable be seen inside? */
bool isolated_env_passes(const struct isolated_request *q, const char *name);

/* --- isolated_inside.c --- */

/* The run of a session, in the execd inside it. */
void isolated_inside_run(struct http_req *r);

#endif
