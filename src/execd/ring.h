/* The last bytes of an endless output, each with its place in the whole and the channel it came
 * by. Pure. */
#ifndef OSB_EXECD_RING_H
#define OSB_EXECD_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define RING_MAX_RUNS 4096

struct ring {
	char *data;
	size_t size;
	uint64_t start, end; /* places of the bytes that are kept: [start, end) */
	/* Where the channel changes. A circle of its own; a ring with more changes than fit forgets
	 * its oldest bytes a little sooner. */
	struct ring_run {
		uint64_t at;
		unsigned char channel;
	} * runs;
	size_t first_run, n_runs;
};

int ring_init(struct ring *r, size_t size); /* 0 or -ENOMEM */
void ring_free(struct ring *r);

void ring_add(struct ring *r, unsigned char channel, struct span data);
/* The bytes at `at`, which is kept: as many as lie together, came by one channel and are no more
 * than `max`. False: there are none from there on. */
bool ring_get(const struct ring *r, uint64_t at, size_t max, struct span *ret,
	      unsigned char *ret_channel);

#endif
