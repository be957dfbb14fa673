/* Numbers about the server itself, for /metrics. */
#ifndef OSB_SERVER_METRICS_H
#define OSB_SERVER_METRICS_H

#include <stdint.h>

#include "base/buf.h"

#define METRICS_BUCKETS 14

/* Durations. Bucket i counts those of at most metrics_bounds_us[i]; the last is for all others. */
struct histogram {
	uint64_t buckets[METRICS_BUCKETS + 1];
	uint64_t sum_us;
	uint64_t count;
};

struct metrics {
	struct histogram create;   /* request to answer, of those that succeeded */
	struct histogram runtime;  /* of which: the runtime */
	struct histogram ready;    /* of which: until execd answered */
	struct histogram requests; /* API requests, the gateway's excepted */
	uint64_t by_class[6];      /* answers by status / 100 */
	uint64_t created, create_failed, ended;
	uint64_t gateway_requests, gateway_failed;
	uint64_t expired, oom;
	uint64_t runtime_restarts;
};

void histogram_add(struct histogram *h, uint64_t us);
/* name_bucket, name_sum and name_count in seconds, with their HELP and TYPE. */
void histogram_write(const struct histogram *h, const char *name, const char *help,
		     struct buf *out);

#endif
