/* The event loop: libuv, a list of things to do before it sleeps, timers, and one read buffer
 * shared by all connections (one thread, so one reader at a time; an idle connection owns no
 * buffer). */
#ifndef OSB_IO_LOOP_H
#define OSB_IO_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/err.h"
#include "base/list.h"

#define IO_READ_SIZE ((size_t)64 << 10)

struct io_loop {
	uv_loop_t uv;
	uv_prepare_t prepare;
	uv_check_t check;
	struct list deferred;
	char *read_buf; /* IO_READ_SIZE bytes */
};

int io_loop_init(struct io_loop *l, struct err *e);
/* Until no active handle is left or io_loop_stop(). */
void io_loop_run(struct io_loop *l);
void io_loop_stop(struct io_loop *l);
/* All handles must be closed; runs the loop until their close callbacks are through. */
void io_loop_free(struct io_loop *l);
uint64_t io_now_ms(const struct io_loop *l); /* monotonic, cached per turn of the loop */

/* Something to do once the callbacks under way have returned, before the loop sleeps: flushing what
 * several callbacks wrote into one system call, or going on where calling back at once would
 * surprise the caller. Adding twice is adding once. */
struct io_defer {
	struct list link;
	void (*fn)(struct io_defer *d);
};
void io_defer_init(struct io_defer *d, void (*fn)(struct io_defer *d));
void io_defer_add(struct io_loop *l, struct io_defer *d);
void io_defer_cancel(struct io_defer *d);

/* A timer of its own, for what is rare. Connections use deadlines (io/deadline.h). */
struct io_timer {
	uv_timer_t uv;
	void (*fn)(struct io_timer *t);
	void (*closed)(struct io_timer *t);
};
void io_timer_init(struct io_loop *l, struct io_timer *t, void (*fn)(struct io_timer *t));
void io_timer_start(struct io_timer *t, uint64_t after_ms, uint64_t repeat_ms); /* starts anew */
void io_timer_stop(struct io_timer *t);
/* `closed` may be NULL; the memory must stay until it is called. */
void io_timer_close(struct io_timer *t, void (*closed)(struct io_timer *t));

/* A signal as a callback. */
struct io_signal {
	uv_signal_t uv;
	void (*fn)(struct io_signal *s, int signum);
};
int io_signal_start(struct io_loop *l, struct io_signal *s, int signum,
		    void (*fn)(struct io_signal *s, int signum), struct err *e);
void io_signal_close(struct io_signal *s);

#endif
