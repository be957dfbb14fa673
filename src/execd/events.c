#include "execd/events.h"

#include <stdio.h>

#include "base/clock.h"
#include "codec/jsonw.h"

/* Once this much is collected it is sent, even in the middle of a piece: short lines grow to many
 * times their size as events. */
#define BATCH KIB(128)
/* One text is at most a line splitter's bound, each byte of it at most six when escaped. */
#define OUT_MAX (EVENTS_MAX_TEXT * 6 + BATCH + KIB(4))
/* What an idle daemon keeps of the buffer. */
#define KEEP_SIZE KIB(256)

static struct buf *out_of(struct events *ev)
{
	return &ev->x->events_out;
}

/* All events end alike: when, and the empty line. Made once for all events of a batch. */
static void note_time(struct events *ev)
{
	int n = snprintf(ev->tail, sizeof(ev->tail), ",\"timestamp\":%lld}\n\n",
			 (long long)clock_wall_ms());

	ev->tail_len = (unsigned)n;
}

static void end_event(struct events *ev)
{
	(void)buf_add(out_of(ev), ev->tail, ev->tail_len);
}

int events_flush(struct events *ev)
{
	struct buf *out = out_of(ev);
	int r = 0;

	if (ev->req == NULL) {
		r = -EPIPE;
	} else if (buf_failed(out)) {
		http_abort(ev->req); /* a stream with a hole must not look whole */
		r = -EPIPE;
	} else if (out->len > 0) {
		r = http_write(ev->req, out->data, out->len);
		ev->full = r == EVENTS_FULL;
	}
	buf_clear(out);
	return r;
}

bool events_batch_full(const struct events *ev)
{
	return ev->x->events_out.len >= BATCH;
}

void events_text(struct events *ev, const char *type, struct span text)
{
	struct buf *out = out_of(ev);

	if (ev->req == NULL)
		return;
	if (out->len == 0)
		note_time(ev);
	(void)buf_add_span(out, SPAN_LIT("{\"type\":\""));
	(void)buf_add_str(out, type);
	(void)buf_add_span(out, SPAN_LIT("\",\"text\":\""));
	jw_escape(out, text);
	(void)buf_add_char(out, '"');
	end_event(ev);
}

/* The end of one event that jsonw began: the object is left open, so that end_event() closes it. */
static void finish(struct events *ev)
{
	note_time(ev);
	end_event(ev);
	(void)events_flush(ev);
}

void events_error(struct events *ev, const char *ename, const char *evalue,
		  const char *const *traceback, unsigned n)
{
	struct jw w = JW_INIT(out_of(ev));

	if (ev->req == NULL)
		return;
	jw_object(&w);
	jw_field_cstr(&w, "type", "error");
	jw_key(&w, "error");
	jw_object(&w);
	jw_field_cstr(&w, "ename", ename);
	jw_field_cstr(&w, "evalue", evalue);
	jw_key(&w, "traceback");
	jw_array(&w);
	for (unsigned i = 0; i < n; i++)
		jw_cstr(&w, traceback[i]);
	jw_end(&w);
	jw_end(&w);
	finish(ev);
}

void events_complete(struct events *ev, uint64_t took_ms)
{
	struct jw w = JW_INIT(out_of(ev));

	if (ev->req == NULL)
		return;
	jw_object(&w);
	jw_field_cstr(&w, "type", "execution_complete");
	if (took_ms > 0)
		jw_field_u64(&w, "execution_time", took_ms);
	finish(ev);
}

void events_raw(struct events *ev, struct span json)
{
	if (ev->req == NULL)
		return;
	(void)buf_add_span(out_of(ev), json);
	(void)buf_add_span(out_of(ev), SPAN_LIT("\n\n"));
	(void)events_flush(ev);
}

static void ping(struct events *ev)
{
	events_text(ev, "ping", SPAN_LIT("pong"));
	deadline_set(&ev->x->pings, &ev->ping);
}

static void ping_due(struct deadline_queue *q, struct deadline *d)
{
	struct events *ev = CONTAINER_OF(d, struct events, ping);

	(void)q;
	if (ev->full) { /* it has enough to read, and is not to be given more */
		deadline_set(&ev->x->pings, &ev->ping);
		return;
	}
	ping(ev);
	(void)events_flush(ev);
}

static void on_drain(struct http_req *r)
{
	struct events *ev = r->user;

	ev->full = false;
	if (ev->drained != NULL)
		ev->drained(ev);
}

static void on_done(struct http_req *r)
{
	struct events *ev = r->user;

	if (ev == NULL)
		return;
	ev->req = NULL;
	ev->full = false;
	deadline_clear(&ev->ping);
	if (ev->left != NULL)
		ev->left(ev);
}

void events_open(struct events *ev, struct execd *x, struct http_req *r, const char *init_text)
{
	ev->x = x;
	ev->req = r;
	ev->full = false;
	deadline_init(&ev->ping);
	r->user = ev;
	r->on_drain = on_drain;
	r->done = on_done;
	http_header(r, "Content-Type", "text/event-stream");
	http_header(r, "Cache-Control", "no-cache");
	http_header(r, "X-Accel-Buffering", "no");
	http_start(r, 200, HTTP_LENGTH_UNKNOWN);
	if (init_text != NULL)
		events_text(ev, "init", span_str(init_text));
	ping(ev);
	(void)events_flush(ev);
}

void events_abort(struct events *ev)
{
	buf_clear(out_of(ev)); /* or it would go to the next stream */
	if (ev->req != NULL)
		http_abort(ev->req);
}

void events_close(struct events *ev)
{
	struct http_req *r = TAKE(ev->req);

	if (r == NULL)
		return;
	deadline_clear(&ev->ping);
	ev->full = false;
	r->user = NULL;
	http_end(r);
	if (ev->x->events_out.cap > KEEP_SIZE)
		buf_free(&ev->x->events_out);
}

void events_setup(struct execd *x)
{
	x->events_out = BUF_INIT(OUT_MAX);
	deadline_queue_init(&x->loop, &x->pings, EVENTS_PING_MS, ping_due);
}

void events_teardown(struct execd *x)
{
	deadline_queue_close(&x->pings, NULL);
	buf_free(&x->events_out);
}
