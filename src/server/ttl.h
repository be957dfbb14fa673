/* What is due when, by one of two clocks: one heap, one timer on its top.
 *
 * A time of day is a promise about the wall clock, so that timer follows it when somebody sets the
 * clock. A stretch of time is one about the time since boot, which nobody sets. Both go on while
 * the machine is suspended. */
#ifndef OSB_SERVER_TTL_H
#define OSB_SERVER_TTL_H

#include "base/heap.h"
#include "io/stream.h"

enum ttl_clock { TTL_WALL, TTL_BOOT };

struct ttl {
	struct stream timer; /* a timerfd */
	enum ttl_clock clock;
	struct heap heap; /* keys: microseconds on that clock */
	struct io_defer arm;
	int64_t armed_us; /* 0: not */
	/* The entry is out of the heap; the callee may put it in again. */
	void (*due)(struct ttl *t, struct heap_entry *entry);
	void (*closed)(struct ttl *t);
};

int ttl_init(struct io_loop *l, struct ttl *t, enum ttl_clock clock,
	     void (*due)(struct ttl *t, struct heap_entry *entry), struct err *e);
int ttl_set(struct ttl *t, struct heap_entry *entry, int64_t at_us); /* 0 or -ENOMEM */
void ttl_clear(struct ttl *t, struct heap_entry *entry);
void ttl_close(struct ttl *t, void (*closed)(struct ttl *t));

#endif
