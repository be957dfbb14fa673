/* Event streams (text/event-stream), both directions and both dialects.
 *
 * The protocol of commands and code sends one JSON object per line and an empty line behind it,
 * with no field names: `{"type":"stdout",...}` LF LF. Ordinary server-sent events (WHATWG HTML
 * 9.2) have lines like `data: ...`. The writer has functions for each; the parser takes any
 * mixture of them, since some servers of that protocol put `data:` in front. */
#ifndef OSB_CODEC_EVENTSTREAM_H
#define OSB_CODEC_EVENTSTREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "codec/lines.h"

/* ---- writing ---- */

/* The end of an object that was written into the buffer with jsonw.h: all that the bare dialect
 * adds. */
void eventstream_end_object(struct buf *out);

struct eventstream_event {
	struct span type; /* of `event:`; empty: "message" */
	struct span data;
	struct span id; /* of the last `id:` seen, this event's or an earlier one's */
	bool has_retry; /* reading: came with this event */
	uint64_t retry_ms;
	bool bare; /* reading: a bare JSON line */
};

/* One ordinary event. Data may hold anything but is cut into lines, whose ends come back as LF.
 * An id of length 0 with p == NULL is left out. -EINVAL: type or id has a line end (or the id a
 * NUL), which could forge other fields; nothing is written then. */
int eventstream_write(struct buf *out, const struct eventstream_event *ev);

/* ": text", to keep a connection alive; line ends in it become blanks. */
void eventstream_comment(struct buf *out, struct span text);

/* ---- reading ---- */

#define EVENTSTREAM_TYPE_MAX 64
#define EVENTSTREAM_ID_MAX   256

struct eventstream {
	struct lines lines;
	struct buf data; /* of the event that is being collected */
	bool has_data;
	bool clear; /* the event handed out last is to be forgotten first */
	bool started;
	bool dead;
	bool has_retry;
	uint64_t retry_ms;
	size_t type_len, id_len;
	char type[EVENTSTREAM_TYPE_MAX];
	char id[EVENTSTREAM_ID_MAX];
};

void eventstream_init(struct eventstream *s, size_t max_event);
void eventstream_free(struct eventstream *s);

/* > 0: *ret is the next event, valid until the next call; *in is what is left of the piece. 0:
 * *in is used up. < 0: -EMSGSIZE (an event, a type or an id too long), -ENOMEM; the stream is
 * dead then. How the bytes were cut into pieces makes no difference. Comments and unknown fields
 * are passed over. A line that begins with '{' is an event of its own, at once. */
int eventstream_next(struct eventstream *s, struct span *in, struct eventstream_event *ret,
		     struct err *e);

/* The stream ended. What was not finished by an empty line or a line end still counts: servers
 * have been seen to end with an error object and nothing behind it. Call until it returns 0. */
int eventstream_finish(struct eventstream *s, struct eventstream_event *ret, struct err *e);

#endif
