/* GET /metrics and GET /metrics/watch.
 *
 * The share of CPU time is a difference between two samples. Whoever asks gets it against the last
 * one; if that is missing or stale, one is taken now and the answer follows a moment later. Nothing
 * runs while nobody asks or watches. */
#include <stdlib.h>

#include "base/clock.h"
#include "execd/api.h"
#include "execd/cgstat.h"

#define SHORT_MS 100   /* the least that makes a useful difference */
#define STALE_MS 10000 /* an average over more says nothing about now */
#define WATCH_MS 1000

struct metrics {
	struct execd *x;
	struct cgstat groups;
	struct cgstat_sample last;
	uint64_t last_us; /* when it was taken, 0: never */
	double cpu_pct;   /* as of then */
	bool has_pct;
	struct list askers, watchers;
	struct io_timer ask_timer, watch_timer;
};

/* Lives in its request's arena. */
struct client {
	struct list link;
	struct http_req *req;
	struct metrics *m;
	bool full; /* does not keep up: let it miss some */
};

/* --- measuring --- */

static double share(const struct cgstat_sample *a, const struct cgstat_sample *b, uint64_t us)
{
	double used, had = (double)us * 1000 * b->cpu_allowance;

	if (a->cpu_whole != b->cpu_whole || b->cpu_used_ns < a->cpu_used_ns || us == 0)
		return 0;
	used = (double)(b->cpu_used_ns - a->cpu_used_ns);
	return MAX(0.0, MIN(100.0, used * 100 / had));
}

static void measure(struct metrics *m)
{
	struct cgstat_sample s;
	uint64_t now_us = clock_mono_us();

	cgstat_sample(&m->groups, &s);
	if (m->last_us != 0) {
		m->cpu_pct = share(&m->last, &s, now_us - m->last_us);
		m->has_pct = true;
	}
	m->last = s;
	m->last_us = now_us;
}

/* Is there something to tell right now? */
static bool refresh(struct metrics *m)
{
	uint64_t age_ms = m->last_us != 0 ? (clock_mono_us() - m->last_us) / 1000 : UINT64_MAX;

	if (age_ms > STALE_MS) {
		m->last_us = 0;
		m->has_pct = false;
		measure(m);
	} else if (age_ms >= SHORT_MS) {
		measure(m);
	}
	return m->has_pct;
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static void write_json(const struct metrics *m, bool both_names, struct buf *out)
{
	struct jw w = JW_INIT(out);
	double total = mib(m->last.memory_total), used = mib(m->last.memory_used);

	jw_object(&w);
	jw_field_i64(&w, "cpu_count", MAX((int64_t)m->last.cpu_allowance, 1));
	jw_field_f64(&w, "cpu_used_pct", m->cpu_pct);
	jw_field_f64(&w, "mem_total_mib", total);
	jw_field_f64(&w, "mem_used_mib", used);
	if (both_names) { /* what one command line tool checks for */
		jw_field_f64(&w, "cpu_used_percentage", m->cpu_pct);
		jw_field_f64(&w, "memory_total_in_mib", total);
		jw_field_f64(&w, "memory_used_in_mib", used);
	}
	jw_field_i64(&w, "timestamp", clock_wall_ms());
	jw_end(&w);
}

/* --- who asks --- */

static void answer(const struct metrics *m, struct http_req *r)
{
	struct buf out = BUF_INIT(KIB(4));

	write_json(m, false, &out);
	api_json(r, 200, &out);
}

static void client_done(struct http_req *r)
{
	struct client *c = r->user;

	list_remove(&c->link);
	if (list_empty(&c->m->watchers))
		io_timer_stop(&c->m->watch_timer);
}

static void ask_timer_fired(struct io_timer *t)
{
	struct metrics *m = CONTAINER_OF(t, struct metrics, ask_timer);

	measure(m);
	while (!list_empty(&m->askers)) {
		struct client *c = LIST_FIRST(&m->askers, struct client, link);

		list_remove(&c->link);
		answer(m, c->req);
	}
}

static void watch_timer_fired(struct io_timer *t)
{
	struct metrics *m = CONTAINER_OF(t, struct metrics, watch_timer);
	struct buf out = BUF_INIT(KIB(4));

	measure(m);
	write_json(m, true, &out);
	(void)buf_add_str(&out, "\n\n");
	list_for_each_safe (it, &m->watchers) {
		struct client *c = LIST_ENTRY(it, struct client, link);

		if (!c->full)
			c->full = http_write(c->req, out.data, out.len) == WIRE_FULL;
	}
	buf_free(&out);
}

static void watcher_drained(struct http_req *r)
{
	struct client *c = r->user;

	c->full = false;
}

/* --- the routes --- */

static struct metrics *metrics_of(struct execd *x)
{
	struct metrics *m = x->metrics;

	if (m != NULL)
		return m;
	m = calloc(1, sizeof(*m));
	if (m == NULL)
		return NULL;
	m->x = x;
	list_init(&m->askers);
	list_init(&m->watchers);
	io_timer_init(&x->loop, &m->ask_timer, ask_timer_fired);
	io_timer_init(&x->loop, &m->watch_timer, watch_timer_fired);
	cgstat_locate(&m->groups);
	x->metrics = m;
	return m;
}

static struct client *client_new(struct http_req *r, struct metrics *m)
{
	struct client *c = m != NULL ? arena_zalloc(&r->arena, sizeof(*c)) : NULL;

	if (c == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return NULL;
	}
	c->req = r;
	c->m = m;
	list_init(&c->link);
	r->user = c;
	r->done = client_done;
	return c;
}

void metrics_get(struct http_req *r)
{
	struct metrics *m = metrics_of(execd_of(r));
	struct client *c;

	if (m != NULL && refresh(m)) {
		answer(m, r);
		return;
	}
	c = client_new(r, m);
	if (c == NULL)
		return;
	if (list_empty(&m->askers))
		io_timer_start(&m->ask_timer, SHORT_MS, 0);
	list_push_back(&m->askers, &c->link);
}

void metrics_watch(struct http_req *r)
{
	struct metrics *m = metrics_of(execd_of(r));
	struct client *c = client_new(r, m);

	if (c == NULL)
		return;
	r->on_drain = watcher_drained;
	r->abort_on_eof = true;
	http_header(r, "Content-Type", "text/event-stream");
	http_header(r, "Cache-Control", "no-cache");
	http_header(r, "X-Accel-Buffering", "no");
	if (list_empty(&m->watchers)) {
		(void)refresh(m);
		io_timer_start(&m->watch_timer, SHORT_MS, WATCH_MS);
	}
	list_push_back(&m->watchers, &c->link);
	http_start(r, 200, HTTP_LENGTH_UNKNOWN);
}
