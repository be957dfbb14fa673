#include "execd/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int ring_init(struct ring *r, size_t size)
{
	*r = (struct ring){ .size = size };
	r->data = malloc(size); /* pages come with the bytes */
	r->runs = malloc(RING_MAX_RUNS * sizeof(r->runs[0]));
	if (r->data != NULL && r->runs != NULL)
		return 0;
	ring_free(r);
	return -ENOMEM;
}

void ring_free(struct ring *r)
{
	free(TAKE(r->data));
	free(TAKE(r->runs));
	r->n_runs = 0;
	r->start = r->end;
}

static struct ring_run *run_at(const struct ring *r, size_t i)
{
	return &r->runs[(r->first_run + i) % RING_MAX_RUNS];
}

static void drop_run(struct ring *r)
{
	r->first_run = (r->first_run + 1) % RING_MAX_RUNS;
	r->n_runs--;
}

/* Forget what lies before `start`. */
static void forget(struct ring *r, uint64_t start)
{
	r->start = start;
	while (r->n_runs > 1 && run_at(r, 1)->at <= start)
		drop_run(r);
}

static void note_channel(struct ring *r, unsigned char channel)
{
	if (r->n_runs > 0 && run_at(r, r->n_runs - 1)->channel == channel)
		return;
	if (r->n_runs == RING_MAX_RUNS)
		forget(r, run_at(r, 1)->at);
	*run_at(r, r->n_runs++) = (struct ring_run){ r->end, channel };
}

void ring_add(struct ring *r, unsigned char channel, struct span data)
{
	if (data.len == 0)
		return;
	note_channel(r, channel);
	if (data.len > r->size) { /* its front would not survive its end */
		r->end += data.len - r->size;
		data = span_skip(data, data.len - r->size);
	}
	while (data.len > 0) {
		size_t at = (size_t)(r->end % r->size), n = MIN(data.len, r->size - at);

		memcpy(r->data + at, data.p, n);
		data = span_skip(data, n);
		r->end += n;
	}
	if (r->end - r->start > r->size)
		forget(r, r->end - r->size);
}

bool ring_get(const struct ring *r, uint64_t at, size_t max, struct span *ret,
	      unsigned char *ret_channel)
{
	uint64_t until = r->end;
	size_t from, lo = 0, hi = r->n_runs;

	if (at < r->start || at >= r->end)
		return false;
	while (hi - lo > 1) { /* the last run that begins at or before `at` */
		size_t mid = lo + (hi - lo) / 2;

		if (run_at(r, mid)->at <= at)
			lo = mid;
		else
			hi = mid;
	}
	if (lo + 1 < r->n_runs)
		until = run_at(r, lo + 1)->at;
	from = (size_t)(at % r->size);
	*ret = span_of(r->data + from, MIN(MIN(max, r->size - from), (size_t)(until - at)));
	*ret_channel = run_at(r, lo)->channel;
	return true;
}
