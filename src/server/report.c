/* Collecting: every part is fetched at the same time, the slowest decides, and none may take more
 * than a few seconds: what is inside the sandbox is not to be trusted with our patience. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/diagnostics.h"
#include "server/gateway.h"

#define MAX_LOG_BYTES MIB(1)
#define PATIENCE_MS   5000
#define NO_OUTPUT     "the output of the main process could not be read"

/* What is under way; outlives the request if the client goes. */
struct collection {
	struct report *rp; /* NULL: nobody wants it any more */
	struct sandbox *sb;
	struct io_timer timer;
	struct http_call *fetch;
	struct driver_call stat;
	unsigned pending;
	bool bad_status;
	bool closing;
};

static void warn(struct report *rp, const char *text)
{
	if (rp->n_warnings < ARRAY_LEN(rp->warnings))
		rp->warnings[rp->n_warnings++] = text;
}

static void timer_closed(struct io_timer *t)
{
	struct collection *c = CONTAINER_OF(t, struct collection, timer);

	sandbox_drop(c->sb);
	free(c);
}

static void part_done(struct collection *c)
{
	if (--c->pending > 0)
		return;
	if (c->rp != NULL) {
		struct report *rp = TAKE(c->rp);

		api_call(rp->req)->own = NULL;
		api_call(rp->req)->gone = NULL;
		rp->done(rp);
	}
	io_timer_close(&c->timer, timer_closed);
}

/* --- the log --- */

static void on_log_head(struct http_call *call, const struct h1_head *head)
{
	struct collection *c = http_call_user(call);

	c->bad_status = head->status != 200;
}

static void on_log_data(struct http_call *call, struct span data)
{
	struct collection *c = http_call_user(call);

	if (c->rp == NULL || c->bad_status || buf_add_span(&c->rp->logs, data) >= 0)
		return;
	c->rp->truncated = true;
	if (c->rp->logs.starved)
		warn(c->rp, NO_OUTPUT);
	c->fetch = NULL;
	http_call_cancel(call);
	part_done(c);
}

static void on_log_done(struct http_call *call, int error, const char *why)
{
	struct collection *c = http_call_user(call);

	(void)why;
	c->fetch = NULL;
	if (c->rp != NULL && (error != 0 || c->bad_status))
		warn(c->rp, NO_OUTPUT);
	part_done(c);
}

static void fetch_log(struct collection *c)
{
	struct sandbox *sb = c->sb;
	struct http_upstream *u = sb->state == SANDBOX_RUNNING ? manager_execd(sb) : NULL;
	const struct h1_field fields[] = {
		{ SPAN_LIT(GATEWAY_EXECD_HEADER), span_str(sb->rec.token) },
	};
	struct http_call_options opt = {
		.method = "GET",
		.target = SPAN_LIT("/logs"),
		.fields = fields,
		.n_fields = 1,
		.user = c,
		.on_head = on_log_head,
		.on_data = on_log_data,
		.done = on_log_done,
	};

	if (u == NULL) {
		warn(c->rp, "the sandbox does not run, so its output cannot be read");
		return;
	}
	if (http_call_start(u, &opt, &c->fetch, NULL) >= 0)
		c->pending++;
	else
		warn(c->rp, NO_OUTPUT);
}

static void on_patience(struct io_timer *t)
{
	struct collection *c = CONTAINER_OF(t, struct collection, timer);

	if (c->fetch == NULL)
		return;
	http_call_cancel(TAKE(c->fetch));
	if (c->rp != NULL) {
		c->rp->truncated = true;
		warn(c->rp, "execd took too long");
	}
	part_done(c);
}

/* --- events --- */

static void on_events(void *ctx, int result, const struct records_event *events, unsigned n_events)
{
	struct collection *c = ctx;

	for (unsigned i = 0; c->rp != NULL && i < n_events; i++) {
		char when[CLOCK_RFC3339_SIZE];

		(void)clock_rfc3339(events[i].at_us, when);
		(void)buf_printf(&c->rp->events, "%s %s %s\n", when, events[i].kind,
				 events[i].message);
	}
	if (c->rp != NULL && (result < 0 || c->rp->events.starved))
		warn(c->rp, "the events could not be read");
	part_done(c);
}

/* --- usage --- */

static void on_stat(struct driver_call *call, int error, const char *why)
{
	struct collection *c = CONTAINER_OF(call, struct collection, stat);

	(void)why;
	if (c->rp != NULL && error == 0) {
		c->rp->usage = call->usage;
		c->rp->has_usage = true;
	} else if (c->rp != NULL) {
		warn(c->rp, "the usage could not be read");
	}
	part_done(c);
}

/* --- the whole --- */

static void on_gone(struct api_call *call)
{
	struct collection *c = call->own;

	if (c == NULL)
		return;
	buf_free(&c->rp->logs);
	buf_free(&c->rp->events);
	c->rp = NULL;
}

void report_start(struct report *rp)
{
	struct collection *c = calloc(1, sizeof(*c));
	struct sandbox *sb = rp->sb;
	struct manager *m = sb->manager;

	if (c == NULL) {
		api_error(rp->req, E_INTERNAL, "out of memory");
		return;
	}
	rp->logs = BUF_INIT(MAX_LOG_BYTES);
	rp->events = BUF_INIT(MIB(1));
	c->rp = rp;
	c->sb = sb;
	sandbox_hold(sb);
	c->pending = 1; /* ours, until all are begun */
	api_call(rp->req)->own = c;
	api_call(rp->req)->gone = on_gone;
	io_timer_init(m->loop, &c->timer, on_patience);
	io_timer_start(&c->timer, PATIENCE_MS, 0);
	if ((rp->parts & REPORT_LOGS) != 0)
		fetch_log(c);
	if ((rp->parts & REPORT_EVENTS) != 0) {
		c->pending++;
		if (records_read_events(m->store, sb->rec.id, rp->limit, on_events, c) < 0)
			on_events(c, -ENOMEM, NULL, 0);
	}
	if ((rp->parts & REPORT_USAGE) != 0 && !sandbox_ended(sb)) {
		c->pending++;
		c->stat.done = on_stat;
		m->driver->ops->stat(m->driver, sb->rec.id, &c->stat);
	}
	part_done(c);
}
