#include "server/ttl.h"

#include <sys/timerfd.h>

#include "base/clock.h"

/* Overdue entries handled in one go, so that thousands at once do not hold up the loop. */
#define MAX_PER_TURN 64

static const struct {
	clockid_t id;
	int flags;
	int64_t (*now_us)(void);
} clocks[] = {
	[TTL_WALL] = { CLOCK_REALTIME, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, clock_wall_us },
	[TTL_BOOT] = { CLOCK_BOOTTIME, TFD_TIMER_ABSTIME, clock_boot_us },
};

static void on_arm(struct io_defer *d)
{
	struct ttl *t = CONTAINER_OF(d, struct ttl, arm);
	const struct heap_entry *top = heap_top(&t->heap);
	struct itimerspec when = { 0 };
	int64_t at_us = top != NULL ? MAX(top->key, 1) : 0;

	if (at_us == t->armed_us)
		return;
	t->armed_us = at_us;
	when.it_value.tv_sec = (time_t)(at_us / 1000000);
	when.it_value.tv_nsec = (long)(at_us % 1000000) * 1000;
	(void)timerfd_settime(t->timer.fd, clocks[t->clock].flags, &when, NULL);
}

static void on_ready(struct stream *s, unsigned events)
{
	struct ttl *t = CONTAINER_OF(s, struct ttl, timer);
	int64_t now_us = clocks[t->clock].now_us();
	uint64_t count;

	(void)events;
	/* -ECANCELED: somebody set the clock; look anew in either case */
	if (stream_read(s, &count, sizeof(count)) == -EAGAIN)
		return;
	t->armed_us = 0;
	for (int i = 0; i < MAX_PER_TURN; i++) {
		struct heap_entry *top = heap_top(&t->heap);

		if (top == NULL || top->key > now_us)
			break;
		heap_remove(&t->heap, top);
		t->due(t, top);
	}
	io_defer_add(stream_loop(s), &t->arm);
}

int ttl_init(struct io_loop *l, struct ttl *t, enum ttl_clock clock,
	     void (*due)(struct ttl *t, struct heap_entry *entry), struct err *e)
{
	int fd = timerfd_create(clocks[clock].id, TFD_CLOEXEC | TFD_NONBLOCK);
	int r;

	if (fd < 0)
		return err_sys(e, "timer");
	t->clock = clock;
	t->heap = (struct heap){ 0 };
	t->due = due;
	t->armed_us = 0;
	io_defer_init(&t->arm, on_arm);
	r = stream_open(l, &t->timer, fd, &stream_plain_ops, on_ready, e);
	if (r >= 0)
		stream_want(&t->timer, STREAM_READABLE);
	return r;
}

int ttl_set(struct ttl *t, struct heap_entry *entry, int64_t at_us)
{
	int r = heap_set(&t->heap, entry, at_us);

	io_defer_add(stream_loop(&t->timer), &t->arm);
	return r;
}

void ttl_clear(struct ttl *t, struct heap_entry *entry)
{
	heap_remove(&t->heap, entry);
	if (!t->timer.closing)
		io_defer_add(stream_loop(&t->timer), &t->arm);
}

static void timer_closed(struct stream *s)
{
	struct ttl *t = CONTAINER_OF(s, struct ttl, timer);

	heap_free(&t->heap);
	t->closed(t);
}

void ttl_close(struct ttl *t, void (*closed)(struct ttl *t))
{
	t->closed = closed;
	io_defer_cancel(&t->arm);
	stream_close(&t->timer, timer_closed);
}
