/* Writes that must not block the loop and must be on disk before an answer goes out.
 *
 * Theory of operation. There is one connection and one queue. While a batch runs on a thread of the
 * pool, what is submitted collects; when it is through, everything that has collected becomes the
 * next batch and shares one commit. A lone write costs one hop to a thread and one commit; a
 * hundred at once cost the same commit. Operations run in the order of their submission, and their
 * `done` comes in that order, after the commit. */
#ifndef OSB_STORE_STORE_H
#define OSB_STORE_STORE_H

#include "base/err.h"
#include "base/list.h"
#include "io/loop.h"
#include "store/db.h"

struct store;

struct store_op {
	struct list link;
	/* On another thread: touch the operation and the database, nothing else. A failure concerns
	 * this operation alone; what it changed in part is its own business (one statement each).
	 */
	int (*run)(struct store_op *op, struct db *db, struct err *e);
	void (*done)(struct store_op *op); /* on the loop; frees it */
	int result;                        /* 0 or a negative errno */
	struct err err;
};

/* Opens and migrates, blocking: for the start of the program. */
int store_open(struct io_loop *loop, const char *path, struct store **ret, struct err *e);
/* For reading before the first submit. */
struct db *store_db(struct store *s);
void store_submit(struct store *s, struct store_op *op);
unsigned store_backlog(const struct store *s); /* operations not yet done */
/* Finishes what was submitted, then calls back. */
void store_close(struct store *s, void (*closed)(void *ctx), void *ctx);

#endif
