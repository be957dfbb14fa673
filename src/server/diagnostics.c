#include "server/diagnostics.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "server/routes.h"

#define TEXT "text/plain; charset=utf-8"

/* --- what is asked for --- */

static bool read_count(struct http_req *r, const char *name, int64_t max, unsigned *ret)
{
	struct span text = http_query(r, name, 0);
	struct refusal rf;
	char where[32];
	int64_t n;

	if (text.p == NULL)
		return true;
	if (request_number(text, 1, max, &n)) {
		*ret = (unsigned)n;
		return true;
	}
	(void)snprintf(where, sizeof(where), "query.%s", name);
	(void)refuse_at(&rf, where, "%s must be a whole number from 1 to %lld", name,
			(long long)max);
	api_refusal(r, &rf);
	return false;
}

static struct report *report_new(struct http_req *r, unsigned parts,
				 void (*done)(struct report *rp))
{
	struct sandbox *sb = api_sandbox(r, true);
	struct report *rp;

	if (sb == NULL)
		return NULL;
	rp = arena_zalloc(&r->arena, sizeof(*rp));
	if (rp == NULL) {
		api_error(r, E_INTERNAL, "out of memory");
		return NULL;
	}
	rp->req = r;
	rp->sb = sb;
	rp->parts = parts;
	rp->tail = 100;
	rp->limit = 50;
	rp->done = done;
	return rp;
}

/* A kind of content under a scope; false after an error. */
static bool read_scope(struct http_req *r, struct report *rp, const char *const *scopes)
{
	struct span scope = http_query(r, "scope", 0);

	if (scope.p == NULL)
		return true;
	for (size_t i = 0; scopes[i] != NULL; i++) {
		if (span_caseis(scope, scopes[i])) {
			rp->scope = span_str(scopes[i]);
			return true;
		}
	}
	api_error(r, E_INVALID_PARAMETER, "scope '%.*s' is not known here",
		  (int)MIN(scope.len, (size_t)40), scope.p);
	return false;
}

/* --- the forms --- */

/* The last lines of a text. */
static struct span last_lines(struct span text, unsigned n)
{
	size_t at = text.len;

	if (at == 0) /* there may be no buffer at all, and nothing can be added to NULL */
		return text;
	if (text.p[at - 1] == '\n')
		at--;
	for (; at > 0; at--)
		if (text.p[at - 1] == '\n' && --n == 0)
			break;
	return span_skip(text, at);
}

/* The report lies in the request's memory: what it owns goes first, then the answer. */
static void answer(struct report *rp, const char *content_type, struct buf *out)
{
	struct http_req *r = rp->req;

	buf_free(&rp->logs);
	buf_free(&rp->events);
	api_text(r, 200, content_type, out);
}

static void answer_json(struct report *rp, const char *kind, const struct buf *content)
{
	struct buf out = BUF_INIT(MIB(8));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_cstr(&w, "sandboxId", rp->sb->rec.id);
	jw_field_cstr(&w, "kind", kind);
	jw_field_str(&w, "scope", rp->scope);
	jw_field_cstr(&w, "delivery", "inline");
	jw_field_cstr(&w, "contentType", TEXT);
	jw_field_str(&w, "content", buf_span(content));
	jw_field_u64(&w, "contentLength", content->len);
	jw_field_bool(&w, "truncated", rp->truncated);
	if (rp->n_warnings > 0) {
		jw_key(&w, "warnings");
		jw_array(&w);
		for (unsigned i = 0; i < rp->n_warnings; i++)
			jw_cstr(&w, rp->warnings[i]);
		jw_end(&w);
	}
	jw_end(&w);
	answer(rp, "application/json", &out);
}

static void add_warnings(const struct report *rp, struct buf *out)
{
	for (unsigned i = 0; i < rp->n_warnings; i++)
		(void)buf_printf(out, "(%s)\n", rp->warnings[i]);
}

static void add_logs(struct report *rp, struct buf *out)
{
	struct span text = last_lines(buf_span(&rp->logs), rp->tail);

	(void)buf_add_span(out, text);
	if (text.len == 0)
		(void)buf_add_str(out, "(no logs)\n");
	add_warnings(rp, out);
}

static void logs_done(struct report *rp)
{
	if (rp->scope.len > 0) {
		answer_json(rp, "logs", (rp->parts & REPORT_LOGS) != 0 ? &rp->logs : &rp->events);
	} else {
		struct buf out = BUF_INIT(MIB(2));

		add_logs(rp, &out);
		http_header(rp->req, "Deprecation", "true");
		answer(rp, TEXT, &out);
	}
}

void route_logs(struct http_req *r)
{
	static const char *const scopes[] = { "container", "process", "all",
					      "lifecycle", "runtime", NULL };
	struct report *rp = report_new(r, REPORT_LOGS, logs_done);

	if (rp == NULL || !read_scope(r, rp, scopes) || !read_count(r, "tail", 10000, &rp->tail))
		return;
	if (span_is(rp->scope, "lifecycle") || span_is(rp->scope, "runtime"))
		rp->parts = REPORT_EVENTS;
	rp->limit = RECORDS_MAX_EVENTS;
	report_start(rp);
}

static void events_done(struct report *rp)
{
	if (rp->scope.len > 0) {
		answer_json(rp, "events", &rp->events);
	} else {
		struct buf out = BUF_INIT(MIB(2));

		(void)buf_add_span(&out, buf_span(&rp->events));
		if (out.len == 0)
			(void)buf_add_str(&out, "(no events)\n");
		add_warnings(rp, &out);
		http_header(rp->req, "Deprecation", "true");
		answer(rp, TEXT, &out);
	}
}

void route_events(struct http_req *r)
{
	static const char *const scopes[] = { "lifecycle", "runtime", "all",
					      "container", "process", NULL };
	struct report *rp = report_new(r, REPORT_EVENTS, events_done);

	if (rp == NULL || !read_scope(r, rp, scopes) || !read_count(r, "limit", 500, &rp->limit))
		return;
	if (rp->scope.len > 0)
		rp->limit = RECORDS_MAX_EVENTS;
	report_start(rp);
}

/* --- facts --- */

static void fact(struct buf *out, const char *name, const char *value)
{
	if (value != NULL)
		(void)buf_printf(out, "%-18s %s\n", name, value);
}

static void fact_json(struct buf *out, const char *name, const json_t *value)
{
	(void)buf_printf(out, "%-18s ", name);
	(void)json_encode(value, out);
	(void)buf_add_char(out, '\n');
}

static void fact_time(struct buf *out, const char *name, int64_t us)
{
	char when[CLOCK_RFC3339_SIZE];

	if (us == 0)
		return;
	(void)clock_rfc3339(us, when);
	fact(out, name, when);
}

static void fact_number(struct buf *out, const char *name, uint64_t n)
{
	if (n != 0 && n != UINT64_MAX)
		(void)buf_printf(out, "%-18s %llu\n", name, (unsigned long long)n);
}

static void add_facts(const struct report *rp, struct buf *out)
{
	const struct record *rec = &rp->sb->rec;
	const struct driver_usage *u = &rp->usage;

	fact(out, "id", rec->id);
	fact(out, "state", sandbox_state_name(rp->sb->state));
	fact(out, "reason", rec->reason);
	fact(out, "message", rec->message);
	fact(out, "image", rec->image);
	fact(out, "entrypoint", rec->entrypoint);
	fact_time(out, "created", rec->created_us);
	fact_time(out, "last transition", rec->transition_us);
	fact_time(out, "expires", rec->expires_us);
	fact_time(out, "ended", rec->ended_us);
	fact_json(out, "metadata", rp->sb->metadata);
	fact(out, "limits", rec->limits);
	fact(out, "volumes", rec->volumes);
	fact(out, "extensions", rec->extensions);
	fact(out, "network", rec->network != 0 ? "yes" : "no");
	fact(out, "secure access", rec->secure_token != NULL ? "yes" : "no");
	if (!rp->has_usage)
		return;
	fact_number(out, "cpu used (us)", u->cpu_usec);
	fact_number(out, "memory (bytes)", u->memory_bytes);
	fact_number(out, "memory peak", u->memory_peak_bytes);
	fact_number(out, "memory limit", u->memory_limit_bytes);
	fact_number(out, "disk (bytes)", u->disk_bytes);
	fact_number(out, "disk limit", u->disk_limit_bytes);
	fact_number(out, "processes", u->pids);
	fact_number(out, "processes limit", u->pids_limit);
	fact_number(out, "oom kills", u->oom_kills);
}

static void inspect_done(struct report *rp)
{
	struct buf out = BUF_INIT(MIB(2));

	add_facts(rp, &out);
	add_warnings(rp, &out);
	answer(rp, TEXT, &out);
}

void route_inspect(struct http_req *r)
{
	struct report *rp = report_new(r, REPORT_USAGE, inspect_done);

	if (rp != NULL)
		report_start(rp);
}

static void summary_done(struct report *rp)
{
	struct buf out = BUF_INIT(MIB(4));

	(void)buf_add_str(&out, "== inspect\n");
	add_facts(rp, &out);
	(void)buf_add_str(&out, "\n== events\n");
	(void)buf_add_span(&out, buf_span(&rp->events));
	(void)buf_add_str(&out, "\n== logs\n");
	add_logs(rp, &out);
	answer(rp, TEXT, &out);
}

void route_summary(struct http_req *r)
{
	struct report *rp = report_new(r, REPORT_LOGS | REPORT_EVENTS | REPORT_USAGE, summary_done);

	if (rp == NULL)
		return;
	rp->tail = 50;
	rp->limit = 20;
	if (read_count(r, "tail", 10000, &rp->tail) &&
	    read_count(r, "event_limit", 500, &rp->limit))
		report_start(rp);
}
