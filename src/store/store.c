#include "store/store.h"

#include <assert.h>
#include <stdlib.h>

#include "io/job.h"
#include "store/schema.h"

struct store {
	struct io_loop *loop;
	struct db *db;
	struct job job;
	struct io_defer start;
	struct list queue; /* submitted */
	struct list batch; /* being run */
	unsigned backlog;
	bool running;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

/* Prepared from the first: a transaction that nobody has the memory to end is in the way of all
 * others. */
static const char sql_begin[] = "BEGIN IMMEDIATE", sql_commit[] = "COMMIT",
		  sql_rollback[] = "ROLLBACK";

static int prepare(struct store *s, struct err *e)
{
	return db_stmt(s->db, sql_begin, e) != NULL && db_stmt(s->db, sql_commit, e) != NULL &&
			       db_stmt(s->db, sql_rollback, e) != NULL
		       ? 0
		       : -EIO;
}

static int say(struct store *s, const char *sql, struct err *e)
{
	struct db_stmt *stmt = db_stmt(s->db, sql, e);

	return stmt != NULL ? db_run(stmt, e) : -EIO;
}

static void run_batch(struct job *j)
{
	struct store *s = CONTAINER_OF(j, struct store, job);
	struct err e = ERR_INIT;
	int r;

	r = say(s, sql_begin, &e);
	list_for_each (it, &s->batch) {
		struct store_op *op = LIST_ENTRY(it, struct store_op, link);

		/* what follows would be kept although it is told to be lost like the rest */
		if (r >= 0 && !db_in_transaction(s->db))
			r = err_set(&e, EIO, "database: the transaction was taken back");
		op->err = ERR_INIT;
		op->result = r < 0 ? r : op->run(op, s->db, &op->err);
	}
	if (r >= 0)
		r = say(s, sql_commit, &e);
	if (r >= 0)
		return;
	if (db_in_transaction(s->db))
		(void)say(s, sql_rollback, NULL);
	list_for_each (it, &s->batch) {
		struct store_op *op = LIST_ENTRY(it, struct store_op, link);

		op->result = r;
		op->err = e;
	}
}

static void step(struct store *s);

static void batch_done(struct job *j)
{
	struct store *s = CONTAINER_OF(j, struct store, job);

	while (!list_empty(&s->batch)) {
		struct store_op *op = LIST_ENTRY(s->batch.next, struct store_op, link);

		list_remove(&op->link);
		s->backlog--;
		op->done(op);
	}
	s->running = false;
	step(s);
}

static void step(struct store *s)
{
	if (s->running)
		return;
	if (!list_empty(&s->queue)) {
		struct err e = ERR_INIT;

		/* the whole queue becomes the batch */
		list_push_back(&s->queue, &s->batch);
		list_remove(&s->queue);
		s->running = true;
		if (job_start(s->loop, &s->job, run_batch, batch_done, &e) < 0) {
			/* no thread: do it here, late is better than never */
			run_batch(&s->job);
			batch_done(&s->job);
		}
	} else if (s->closed != NULL) {
		void (*closed)(void *ctx) = s->closed;
		void *ctx = s->closed_ctx;

		io_defer_cancel(&s->start);
		db_close(s->db);
		free(s);
		closed(ctx);
	}
}

static void on_start(struct io_defer *d)
{
	step(CONTAINER_OF(d, struct store, start));
}

int store_open(struct io_loop *loop, const char *path, struct store **ret, struct err *e)
{
	struct store *s = calloc(1, sizeof(*s));
	int r;

	if (s == NULL)
		return err_code(e, ENOMEM, "store");
	r = db_open(path, &s->db, e);
	if (r >= 0)
		r = schema_migrate(s->db, e);
	if (r >= 0)
		r = prepare(s, e);
	if (r < 0) {
		db_close(s->db);
		free(s);
		return r;
	}
	s->loop = loop;
	list_init(&s->queue);
	list_init(&s->batch);
	io_defer_init(&s->start, on_start);
	*ret = s;
	return 0;
}

struct db *store_db(struct store *s)
{
	assert(!s->running);
	return s->db;
}

void store_submit(struct store *s, struct store_op *op)
{
	list_push_back(&s->queue, &op->link);
	s->backlog++;
	/* at the end of the turn: what one turn of the loop submits shares a commit */
	io_defer_add(s->loop, &s->start);
}

unsigned store_backlog(const struct store *s)
{
	return s->backlog;
}

void store_close(struct store *s, void (*closed)(void *ctx), void *ctx)
{
	s->closed = closed;
	s->closed_ctx = ctx;
	io_defer_add(s->loop, &s->start);
}
