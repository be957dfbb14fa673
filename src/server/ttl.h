/* What is due when, by the wall clock: one heap, one timer on its top.
 *
 * Expiry is a promise about the wall clock, so the timer follows it: through suspension of the
 * machine, and when somebody sets the clock. */
#ifndef OSB_SERVER_TTL_H
#define OSB_SERVER_TTL_H

#include "base/heap.h"
#include "io/stream.h"

struct ttl {
	struct stream timer; /* a timerfd */
	struct heap heap;    /* keys: wall clock, microseconds */
	struct io_defer arm;
	int64_t armed_us; /* 0: not */
	/* The entry is out of the heap; the callee may put it in again. */
	void (*due)(struct ttl *t, struct heap_entry *entry);
	void (*closed)(struct ttl *t);
};

int ttl_init(struct io_loop *l, struct ttl *t, void (*due)(struct ttl *t, struct heap_entry *entry),
	     struct err *e);
int ttl_set(struct ttl *t, struct heap_entry *entry, int64_t at_us); /* 0 or -ENOMEM */
void ttl_clear(struct ttl *t, struct heap_entry *entry);
void ttl_close(struct ttl *t, void (*closed)(struct ttl *t));

#endif
