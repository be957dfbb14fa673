#include "io/loop.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The library's table of watched descriptors grows with the highest of them, and where it cannot
 * the library ends the program. For then there is this: enough for all of its sizes up to a
 * thousand descriptors. What else the library asks for may fail. */
static _Alignas(max_align_t) char reserve[KIB(16)];
static _Atomic size_t reserve_used;

static bool is_reserve(const void *p)
{
	return (uintptr_t)p >= (uintptr_t)reserve &&
	       (uintptr_t)p < (uintptr_t)reserve + sizeof(reserve);
}

static void *from_reserve(size_t size)
{
	size_t at;

	if (size > sizeof(reserve))
		return NULL;
	at = atomic_fetch_add(&reserve_used, (size + 15) & ~(size_t)15);
	return at <= sizeof(reserve) - size ? reserve + at : NULL;
}

static void *resize(void *old, size_t size)
{
	bool own = is_reserve(old);
	size_t kept = own ? (size_t)(reserve + sizeof(reserve) - (char *)old)
			  : malloc_usable_size(old);
	void *p = own ? malloc(size) : realloc(old, size);

	if (p != NULL && !own)
		return p;
	if (p == NULL)
		p = from_reserve(size);
	if (p != NULL && old != NULL) {
		memmove(p, old, MIN(kept, size));
		if (!own)
			free(old);
	}
	return p;
}

static void release(void *p)
{
	if (!is_reserve(p))
		free(p);
}

static void run_deferred(struct io_loop *l)
{
	/* Only what is there now: an item that adds itself again waits for the next turn, so that
	 * it cannot keep the loop from its other work. */
	struct list batch;

	if (list_empty(&l->deferred))
		return;
	list_init(&batch);
	list_push_back(&l->deferred, &batch);
	list_remove(&l->deferred);
	while (!list_empty(&batch)) {
		struct io_defer *d = LIST_ENTRY(batch.next, struct io_defer, link);

		list_remove(&d->link);
		d->fn(d);
	}
}

static void on_prepare(uv_prepare_t *h)
{
	struct io_loop *l = h->data;

	/* Until nothing is left: the loop is about to sleep. What defers itself for ever is a bug
	 * that a bound turns into slowness instead of a hang. */
	for (int turn = 0; turn < 64 && !list_empty(&l->deferred); turn++)
		run_deferred(l);
}

static void on_check(uv_check_t *h)
{
	run_deferred(h->data);
}

int io_loop_init(struct io_loop *l, struct err *e)
{
	int r;

	(void)uv_replace_allocator(malloc, resize, calloc, release);
	list_init(&l->deferred);
	l->read_buf = malloc(IO_READ_SIZE);
	if (l->read_buf == NULL)
		return err_code(e, ENOMEM, "read buffer");
	r = uv_loop_init(&l->uv);
	if (r < 0) {
		free(l->read_buf);
		return err_code(e, r, "start event loop");
	}
	(void)uv_prepare_init(&l->uv, &l->prepare);
	(void)uv_check_init(&l->uv, &l->check);
	l->uv.data = l->prepare.data = l->check.data = l;
	(void)uv_prepare_start(&l->prepare, on_prepare);
	(void)uv_check_start(&l->check, on_check);
	uv_unref((uv_handle_t *)&l->prepare);
	uv_unref((uv_handle_t *)&l->check);
	return 0;
}

void io_loop_run(struct io_loop *l)
{
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
}

void io_loop_stop(struct io_loop *l)
{
	uv_stop(&l->uv);
}

void io_loop_free(struct io_loop *l)
{
	/* deferred work may still want to close things; let it, then close our own handles */
	while (uv_run(&l->uv, UV_RUN_NOWAIT) != 0 && !list_empty(&l->deferred))
		;
	uv_close((uv_handle_t *)&l->prepare, NULL);
	uv_close((uv_handle_t *)&l->check, NULL);
	(void)uv_run(&l->uv, UV_RUN_DEFAULT);
	(void)uv_loop_close(&l->uv);
	free(l->read_buf);
	l->read_buf = NULL;
}

uint64_t io_now_ms(const struct io_loop *l)
{
	return uv_now(&l->uv);
}

void io_defer_init(struct io_defer *d, void (*fn)(struct io_defer *d))
{
	list_init(&d->link);
	d->fn = fn;
}

void io_defer_add(struct io_loop *l, struct io_defer *d)
{
	if (list_empty(&d->link))
		list_push_back(&l->deferred, &d->link);
}

void io_defer_cancel(struct io_defer *d)
{
	list_remove(&d->link);
}

static void on_timer(uv_timer_t *h)
{
	struct io_timer *t = CONTAINER_OF(h, struct io_timer, uv);

	t->fn(t);
}

void io_timer_init(struct io_loop *l, struct io_timer *t, void (*fn)(struct io_timer *t))
{
	(void)uv_timer_init(&l->uv, &t->uv);
	t->fn = fn;
}

void io_timer_start(struct io_timer *t, uint64_t after_ms, uint64_t repeat_ms)
{
	(void)uv_timer_start(&t->uv, on_timer, after_ms, repeat_ms);
}

void io_timer_stop(struct io_timer *t)
{
	(void)uv_timer_stop(&t->uv);
}

static void on_timer_closed(uv_handle_t *h)
{
	struct io_timer *t = CONTAINER_OF((uv_timer_t *)h, struct io_timer, uv);

	if (t->closed != NULL)
		t->closed(t);
}

void io_timer_close(struct io_timer *t, void (*closed)(struct io_timer *t))
{
	t->closed = closed;
	uv_close((uv_handle_t *)&t->uv, on_timer_closed);
}

static void on_signal(uv_signal_t *h, int signum)
{
	struct io_signal *s = CONTAINER_OF(h, struct io_signal, uv);

	s->fn(s, signum);
}

int io_signal_start(struct io_loop *l, struct io_signal *s, int signum,
		    void (*fn)(struct io_signal *s, int signum), struct err *e)
{
	int r;

	s->fn = fn;
	r = uv_signal_init(&l->uv, &s->uv);
	if (r == 0)
		r = uv_signal_start(&s->uv, on_signal, signum);
	return r < 0 ? err_code(e, r, "watch signal %d", signum) : 0;
}

void io_signal_close(struct io_signal *s)
{
	uv_close((uv_handle_t *)&s->uv, NULL);
}
