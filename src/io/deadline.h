/* Many things that share one duration: "no head within 10 s", "no progress within 30 s".
 *
 * Arming appends to a list, which is thereby in order of expiry; disarming unlinks; both cost
 * nothing and need no memory. One timer per queue watches its front, and only while there is one:
 * an idle process does not wake up. */
#ifndef OSB_IO_DEADLINE_H
#define OSB_IO_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "io/loop.h"

struct deadline {
	struct list link;
	uint64_t at_ms;
};

struct deadline_queue {
	struct io_loop *loop;
	struct io_timer timer;
	struct list entries;
	uint64_t duration_ms; /* 0: never expires */
	void (*expired)(struct deadline_queue *q, struct deadline *d);
	bool armed;
};

void deadline_queue_init(struct io_loop *l, struct deadline_queue *q, uint64_t duration_ms,
			 void (*expired)(struct deadline_queue *q, struct deadline *d));
/* Entries are forgotten. `closed` may be NULL. */
void deadline_queue_close(struct deadline_queue *q, void (*closed)(struct io_timer *t));

static inline void deadline_init(struct deadline *d)
{
	list_init(&d->link);
}

/* (Re)start: expires duration_ms from now unless set or cleared again. An entry may move between
 * queues. */
void deadline_set(struct deadline_queue *q, struct deadline *d);
void deadline_clear(struct deadline *d);

#endif
