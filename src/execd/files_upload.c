/* POST /files/upload. What arrives is collected in one buffer while a job works on the other: the
 * form is taken apart and written to disk off the loop, and the client is paused when it is faster
 * than the disk. A small upload is a single job. */
#include <string.h>

#include "execd/filejob.h"
#include "execd/sink.h"

#define BATCH KIB(512) /* pause the client beyond */

struct upload {
	struct filejob *f;
	struct io_defer turn;
	struct buf fill, work;
	struct sink sink;
	struct sink_error error;
	bool ended;    /* the body is complete */
	bool last;     /* `work` is the end of it */
	bool finished; /* the files are in place */
	bool freed;    /* the sink is */
};

static void feed_work(struct filejob *f)
{
	struct upload *u = f->user;
	bool ok = sink_feed(&u->sink, buf_span(&u->work), &u->error);

	if (ok && u->last)
		ok = u->finished = sink_finish(&u->sink, &u->error);
	if (!ok)
		filejob_fail(f, u->error.status, u->error.code, "%s", u->error.err.msg);
	if (!ok || u->finished) {
		sink_free(&u->sink);
		u->freed = true;
	}
}

/* Nobody waits any more. Freeing the blocks of a large file takes its time: not on the loop. */
static void discard_work(struct filejob *f)
{
	struct upload *u = f->user;

	sink_free(&u->sink);
	u->freed = true;
}

static void kick(struct upload *u)
{
	struct buf filled = u->fill;

	if (!u->f->waiting || (filled.len == 0 && !u->ended))
		return;
	u->fill = u->work;
	buf_clear(&u->fill);
	u->work = filled;
	u->last = u->ended;
	filejob_start(u->f, feed_work);
}

static void upload_after(struct filejob *f)
{
	struct upload *u = f->user;

	if (f->req == NULL && !u->freed) {
		filejob_start(f, discard_work);
	} else if (f->req == NULL || f->status != 0 || u->finished) {
		filejob_answer(f);
	} else {
		filejob_wait(f);
		http_resume_body(f->req);
		kick(u);
	}
}

static void upload_gone(struct filejob *f)
{
	upload_after(f);
}

static void upload_turn(struct io_defer *d)
{
	kick(CONTAINER_OF(d, struct upload, turn));
}

static void upload_data(struct http_req *r, struct span data)
{
	struct filejob *f = r->user;
	struct upload *u;

	if (f == NULL)
		return; /* it failed and is answered: the rest is of no interest */
	u = f->user;
	if (buf_add_span(&u->fill, data) < 0) {
		http_abort(r);
		return;
	}
	if (u->fill.len >= BATCH)
		http_pause_body(r);
	io_defer_add(&f->x->loop, &u->turn);
}

static void upload_end(struct http_req *r)
{
	struct filejob *f = r->user;
	struct upload *u;

	if (f == NULL)
		return;
	u = f->user;
	u->ended = true;
	io_defer_add(&f->x->loop, &u->turn);
}

static void upload_release(struct filejob *f)
{
	struct upload *u = f->user;

	io_defer_cancel(&u->turn);
	if (!u->freed)
		sink_free(&u->sink);
	buf_free(&u->fill);
	buf_free(&u->work);
	free(u);
}

void files_upload(struct http_req *r)
{
	bool sync = span_is(http_query(r, "sync", 0), "true");
	struct filejob *f = filejob_new(r);
	struct upload *u;

	if (f == NULL)
		return;
	u = calloc(1, sizeof(*u));
	if (u == NULL) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	u->f = f;
	u->fill = BUF_INIT(BATCH + IO_READ_SIZE * 4);
	u->work = BUF_INIT(BATCH + IO_READ_SIZE * 4);
	io_defer_init(&u->turn, upload_turn);
	f->user = u;
	f->release = upload_release;
	f->after = upload_after;
	f->gone = upload_gone;
	if (!sink_init(&u->sink, f->x, http_field(r, "Content-Type"), sync, &u->error)) {
		filejob_refuse(f, u->error.status, u->error.code, "%s", u->error.err.msg);
		return;
	}
	filejob_wait(f);
	r->on_data = upload_data;
	r->on_end = upload_end;
	http_stream_body(r);
}
