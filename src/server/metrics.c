#include "server/metrics.h"

static const uint64_t bounds_us[METRICS_BUCKETS] = {
	250,   500,   1000,   2000,   3000,    5000,    10000,
	25000, 50000, 100000, 250000, 1000000, 5000000, 30000000,
};

void histogram_add(struct histogram *h, uint64_t us)
{
	unsigned i = 0;

	while (i < METRICS_BUCKETS && us > bounds_us[i])
		i++;
	h->buckets[i]++;
	h->sum_us += us;
	h->count++;
}

static void add_seconds(struct buf *out, uint64_t us)
{
	(void)buf_printf(out, "%llu.%06llu", (unsigned long long)(us / 1000000),
			 (unsigned long long)(us % 1000000));
}

void histogram_write(const struct histogram *h, const char *name, const char *help, struct buf *out)
{
	uint64_t below = 0;

	(void)buf_printf(out, "# HELP %s %s\n# TYPE %s histogram\n", name, help, name);
	for (unsigned i = 0; i < METRICS_BUCKETS; i++) {
		below += h->buckets[i];
		(void)buf_printf(out, "%s_bucket{le=\"", name);
		add_seconds(out, bounds_us[i]);
		(void)buf_printf(out, "\"} %llu\n", (unsigned long long)below);
	}
	(void)buf_printf(out, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum ", name,
			 (unsigned long long)h->count, name);
	add_seconds(out, h->sum_us);
	(void)buf_printf(out, "\n%s_count %llu\n", name, (unsigned long long)h->count);
}
