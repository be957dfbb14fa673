/* The event stream of commands, sessions and code: one JSON object per line and an empty line after
 * it, in a chunked answer.
 *
 * Output is escaped straight into one buffer that all streams share and goes out as one chunk per
 * piece read. When the client does not keep up, the writer is told (EVENTS_FULL) and stops reading
 * its source until `drained`. The client may leave at any time: what is written then goes nowhere,
 * and `left` has been called. Pings are sent 3 s apart while a stream is open. */
#ifndef OSB_EXECD_EVENTS_H
#define OSB_EXECD_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "execd/execd.h"

#define EVENTS_FULL    WIRE_FULL
#define EVENTS_PING_MS 3000
/* Longest text of one event; some clients stop at lines of 4 MiB. */
#define EVENTS_MAX_TEXT MIB(2)

struct events {
	struct execd *x;
	struct http_req *req; /* NULL: the client has left, or the stream is closed */
	struct deadline ping;
	void *user;
	void (*drained)(struct events *ev); /* after EVENTS_FULL */
	void (*left)(struct events *ev);    /* the client went; not after events_close() */
	char tail[48];                      /* the end of each event of the batch under way */
	unsigned tail_len;
	bool full;
};

/* Start the answer: head, `init` with this text, the first ping. The request is the stream's from
 * here on (its user, on_drain and done). */
void events_open(struct events *ev, struct execd *x, struct http_req *r, const char *init_text);
/* "stdout" or "stderr" with this text, collected until events_flush(). */
void events_text(struct events *ev, const char *type, struct span text);
/* 0, EVENTS_FULL: stop until `drained`; -EPIPE: nobody listens. */
int events_flush(struct events *ev);
bool events_batch_full(const struct events *ev); /* time to flush */

/* What went wrong. evalue is a string of digits where there is an exit code. */
void events_error(struct events *ev, const char *ename, const char *evalue,
		  const char *const *traceback, unsigned n);
void events_complete(struct events *ev, uint64_t took_ms);
/* One event given as an object that the caller wrote: {"type":...,"timestamp":...}. */
void events_raw(struct events *ev, struct span json);
/* Cut it off: it cannot be completed truthfully. `left` is called. */
void events_abort(struct events *ev);
/* The end of the stream. Idempotent; no callbacks afterwards. */
void events_close(struct events *ev);

void events_setup(struct execd *x); /* the queue of pings */
void events_teardown(struct execd *x);

#endif
