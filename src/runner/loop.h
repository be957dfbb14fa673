/* A bare event loop: epoll and one clock. The runner has one thread and needs no more. */
#ifndef OSB_RUNNER_LOOP_H
#define OSB_RUNNER_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct watch {
	int fd; /* the owner's; negative when not watched */
	void (*fn)(struct watch *w, uint32_t events);
};

struct loop {
	int epoll_fd;
	bool stop;
	/* called when nothing is ready: do a small piece of work, return false if there is none */
	bool (*idle)(void *arg);
	void (*tick)(void *arg); /* called at tick_at_ms, which it may set anew; 0 = never */
	void *arg;
	uint64_t tick_at_ms;
};

int loop_init(struct loop *l, struct err *e);
int loop_add(struct loop *l, struct watch *w, int fd, uint32_t events,
	     void (*fn)(struct watch *w, uint32_t events));
int loop_change(struct loop *l, struct watch *w, uint32_t events);

/* Stop watching and close the descriptor. A report already taken from the kernel in this round is
 * dropped too, so the owner may be freed. */
void loop_drop(struct loop *l, struct watch *w);

void loop_run(struct loop *l);

#endif
