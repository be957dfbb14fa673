#include "io/deadline.h"

static void on_timer(struct io_timer *t)
{
	struct deadline_queue *q = CONTAINER_OF(t, struct deadline_queue, timer);
	uint64_t now = io_now_ms(q->loop);

	q->armed = false;
	while (!list_empty(&q->entries)) {
		struct deadline *d = LIST_ENTRY(q->entries.next, struct deadline, link);

		if (d->at_ms > now) {
			io_timer_start(&q->timer, d->at_ms - now, 0);
			q->armed = true;
			return;
		}
		list_remove(&d->link);
		q->expired(q, d);
	}
}

void deadline_queue_init(struct io_loop *l, struct deadline_queue *q, uint64_t duration_ms,
			 void (*expired)(struct deadline_queue *q, struct deadline *d))
{
	*q = (struct deadline_queue){ .loop = l, .duration_ms = duration_ms, .expired = expired };
	list_init(&q->entries);
	io_timer_init(l, &q->timer, on_timer);
}

void deadline_queue_close(struct deadline_queue *q, void (*closed)(struct io_timer *t))
{
	while (!list_empty(&q->entries))
		list_remove(q->entries.next);
	io_timer_close(&q->timer, closed);
}

void deadline_set(struct deadline_queue *q, struct deadline *d)
{
	list_remove(&d->link);
	if (q->duration_ms == 0)
		return;
	d->at_ms = io_now_ms(q->loop) + q->duration_ms;
	list_push_back(&q->entries, &d->link);
	/* An armed timer fires at or before this entry's time and then looks for itself. */
	if (!q->armed) {
		io_timer_start(&q->timer, q->duration_ms, 0);
		q->armed = true;
	}
}

void deadline_clear(struct deadline *d)
{
	list_remove(&d->link);
}
