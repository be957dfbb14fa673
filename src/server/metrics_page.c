/* GET /metrics: the Prometheus text format. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/routes.h"

static void head(struct buf *out, const char *name, const char *type, const char *help)
{
	(void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void number(struct buf *out, const char *name, const char *type, const char *help,
		   uint64_t value)
{
	head(out, name, type, help);
	(void)buf_printf(out, "%s %llu\n", name, (unsigned long long)value);
}

/* Resident bytes of this process; 0 if the kernel will not say. */
static uint64_t resident_bytes(void)
{
	char line[128] = "";
	FILE *f = fopen("/proc/self/statm", "re");
	struct span rest;
	uint64_t pages = 0;

	if (f == NULL)
		return 0;
	if (fgets(line, sizeof(line), f) != NULL) {
		rest = span_str(line);
		(void)span_cut(&rest, ' ');
		(void)span_u64(span_cut(&rest, ' '), &pages);
	}
	(void)fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void sandboxes(const struct manager *m, struct buf *out)
{
	unsigned counts[SANDBOX_STATE_COUNT] = { 0 };

	list_for_each (it, &m->all)
		counts[LIST_ENTRY(it, struct sandbox, link)->state]++;
	head(out, "opensandbox_sandboxes", "gauge", "Sandboxes by state.");
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++)
		(void)buf_printf(out, "opensandbox_sandboxes{state=\"%s\"} %u\n",
				 sandbox_state_name((enum sandbox_state)i), counts[i]);
}

void route_metrics(struct http_req *r)
{
	const struct server *s = api_server(r);
	const struct manager *m = &s->manager;
	const struct metrics *mt = &m->metrics;
	struct buf out = BUF_INIT(KIB(256));

	sandboxes(m, &out);
	number(&out, "opensandbox_creates_total", "counter", "Sandboxes created.", mt->created);
	number(&out, "opensandbox_create_failures_total", "counter",
	       "Creates that failed after they were accepted.", mt->create_failed);
	number(&out, "opensandbox_creates_in_flight", "gauge", "Creates under way.", m->n_creating);
	number(&out, "opensandbox_ends_total", "counter", "Sandboxes that have ended.", mt->ended);
	number(&out, "opensandbox_expirations_total", "counter", "Of which: their time was up.",
	       mt->expired);
	number(&out, "opensandbox_oom_events_total", "counter",
	       "Times the kernel ended a process of a sandbox for memory.", mt->oom);
	histogram_write(&mt->create, "opensandbox_create_seconds",
			"From the request to the answer of a create.", &out);
	histogram_write(&mt->runtime, "opensandbox_create_runtime_seconds",
			"Of which: until the runtime had made it.", &out);
	histogram_write(&mt->ready, "opensandbox_create_ready_seconds",
			"Of which: from then until execd answered.", &out);
	histogram_write(&mt->requests, "opensandbox_request_seconds",
			"API requests, those of the gateway excepted.", &out);
	head(&out, "opensandbox_answers_total", "counter", "Answers by class of status.");
	for (unsigned i = 1; i < ARRAY_LEN(mt->by_class); i++)
		(void)buf_printf(&out, "opensandbox_answers_total{class=\"%uxx\"} %llu\n", i,
				 (unsigned long long)mt->by_class[i]);
	number(&out, "opensandbox_gateway_requests_total", "counter",
	       "Requests passed on into sandboxes.", mt->gateway_requests);
	number(&out, "opensandbox_gateway_failures_total", "counter",
	       "Of which: nothing answered inside.", mt->gateway_failed);
	number(&out, "opensandbox_http_connections", "gauge", "Open connections.",
	       s->http.n_connections);
	number(&out, "opensandbox_http_accepted_total", "counter", "Connections accepted.",
	       s->http.stats[HTTP_STAT_ACCEPTED]);
	number(&out, "opensandbox_http_requests_total", "counter", "Requests of any kind.",
	       s->http.stats[HTTP_STAT_REQUESTS]);
	number(&out, "opensandbox_http_refused_total", "counter",
	       "Refused by the HTTP layer before any route.", s->http.stats[HTTP_STAT_REFUSED]);
	number(&out, "opensandbox_store_backlog", "gauge", "Writes not yet on disk.",
	       store_backlog(s->store));
	number(&out, "opensandbox_runtime_up", "gauge", "Whether the runtime can be reached.",
	       s->driver->ops->is_up(s->driver));
	number(&out, "opensandbox_runtime_losses_total", "counter",
	       "Times the connection to the runtime was lost.", mt->runtime_restarts);
	number(&out, "process_resident_memory_bytes", "gauge", "Resident memory of the server.",
	       resident_bytes());
	number(&out, "opensandbox_uptime_seconds", "gauge", "Since the server started.",
	       (clock_mono_us() - s->started_us) / 1000000);
	api_text(r, 200, "text/plain; version=0.0.4; charset=utf-8", &out);
}
