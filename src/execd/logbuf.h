/* Output that is kept: the newest bytes up to a bound, addressed by their position in all that was
 * ever written. Readers come back with the position they stopped at. */
#ifndef OSB_EXECD_LOGBUF_H
#define OSB_EXECD_LOGBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/span.h"
#include "http/server.h"

struct logbuf {
	struct list blocks; /* oldest first */
	uint64_t start;     /* position of the oldest byte kept */
	uint64_t end;       /* position of the next byte to come */
	size_t max;
	struct list readers; /* answers that follow it, see logbuf_reply() */
};

void logbuf_init(struct logbuf *l, size_t max);
/* Ends the answers that follow it and drops everything. */
void logbuf_free(struct logbuf *l);

/* Append; the oldest go if there are too many. Memory that is not there makes a gap, no failure. */
void logbuf_add(struct logbuf *l, struct span data);
/* No more will come: answers that follow it end. */
void logbuf_finish(struct logbuf *l);
/* The bytes kept at and behind a position (moved to the oldest kept), as far as they lie
 * together. */
struct span logbuf_at(const struct logbuf *l, uint64_t *position);

#define LOGBUF_CURSOR_FIELD "EXECD-COMMANDS-TAIL-CURSOR"

/* Answer with all bytes from `cursor` on, as plain text, and where the next question should start.
 * `follow`: the answer goes on with what comes, until logbuf_finish() or the client leaves. */
void logbuf_reply(struct logbuf *l, struct http_req *r, uint64_t cursor, bool follow);

#endif
