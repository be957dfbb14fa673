#include "runner/loop.h"

#include <errno.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/util.h"

#define BATCH 64

/* The round being worked on, so that loop_drop can take back what was already reported. */
static struct epoll_event round_events[BATCH];
static int round_len;

int loop_init(struct loop *l, struct err *e)
{
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return l->epoll_fd < 0 ? err_sys(e, "make an event loop") : 0;
}

int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events,
	     void (*fn)(struct watch *w, uint32_t events))
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0)
		return -errno;
	w->fd = fd;
	w->fn = fn;
	return 0;
}

int loop_change(struct loop *l, struct watch *w, uint32_t events)
{
	struct epoll_event ev = { .events = events, .data.ptr = w };

	return epoll_ctl(l->epoll_fd, EPOLL_CTL_MOD, w->fd, &ev) < 0 ? -errno : 0;
}

void loop_drop(struct loop *l, struct watch *w)
{
	if (w->fd < 0)
		return;
	(void)epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, w->fd, NULL);
	fd_close(&w->fd);
	for (int i = 0; i < round_len; i++)
		if (round_events[i].data.ptr == w)
			round_events[i].data.ptr = NULL;
}

static int wait_ms(const struct loop *l)
{
	uint64_t now;

	if (l->tick_at_ms == 0)
		return -1;
	now = clock_mono_ms();
	return l->tick_at_ms <= now ? 0 : (int)MIN(l->tick_at_ms - now, 60000);
}

void loop_run(struct loop *l)
{
	bool more_idle = true;

	while (!l->stop) {
		int n = epoll_wait(l->epoll_fd, round_events, BATCH, more_idle ? 0 : wait_ms(l));

		if (n < 0)
			n = 0; /* interrupted */
		round_len = n;
		for (int i = 0; i < n; i++) {
			struct watch *w = round_events[i].data.ptr;

			if (w != NULL)
				w->fn(w, round_events[i].events);
		}
		round_len = 0;
		if (l->tick_at_ms != 0 && clock_mono_ms() >= l->tick_at_ms) {
			l->tick_at_ms = 0;
			l->tick(l->arg);
		}
		/* idle work only after a look that found nothing, a piece at a time */
		more_idle = n > 0 || (more_idle && l->idle(l->arg));
	}
}
