/* For tests of calls: what one told, and the steps that most of them take. */
#ifndef OSB_TESTS_HTTP_CALLS_H
#define OSB_TESTS_HTTP_CALLS_H

#include "http_fixture.h"

#include <stdio.h>

#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* What a call told. */
struct seen {
	struct http_call *call;
	unsigned n_done, n_head, n_continue, n_drain;
	int error, status;
	char why[128];
	struct buf body;
	/* what to do in a callback */
	bool cancel_in_head, cancel_in_data, pause_in_data, free_in_head;
	uint64_t to_write; /* by on_drain */
};

UNUSED static void on_continue(struct http_call *c)
{
	((struct seen *)http_call_user(c))->n_continue++;
}

UNUSED static void on_head(struct http_call *c, const struct h1_head *head)
{
	struct seen *s = http_call_user(c);

	s->n_head++;
	s->status = head->status;
	if (s->cancel_in_head)
		http_call_cancel(c);
	if (s->free_in_head)
		http_upstream_free(TAKE(fx.upstream));
}

UNUSED static void on_data(struct http_call *c, struct span data)
{
	struct seen *s = http_call_user(c);

	assert_true(data.len > 0);
	assert_int_equal(buf_add_span(&s->body, data), 0);
	if (s->cancel_in_data)
		http_call_cancel(c);
	if (s->pause_in_data)
		http_call_pause(c);
}

/* Writes as long as it may, then ends the body. */
UNUSED static void on_drain(struct http_call *c)
{
	static const char piece[KIB(16)];
	struct seen *s = http_call_user(c);

	s->n_drain++;
	while (s->to_write > 0) {
		size_t n = (size_t)MIN(s->to_write, sizeof(piece));
		int r = http_call_write(c, piece, n);

		assert_true(r >= 0);
		s->to_write -= n;
		if (r == WIRE_FULL)
			return;
	}
	http_call_end_body(c);
}

UNUSED static void on_done(struct http_call *c, int error, const char *why)
{
	struct seen *s = http_call_user(c);

	s->n_done++;
	s->error = error;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	s->call = NULL;
	http_call_cancel(c); /* allowed, and does nothing */
}

UNUSED static struct http_call_options options(struct seen *s, const char *method,
					       const char *target)
{
	*s = (struct seen){ .body = BUF_INIT(MIB(64)) };
	return (struct http_call_options){
		.method = method,
		.target = span_str(target),
		.user = s,
		.on_continue = on_continue,
		.on_head = on_head,
		.on_data = on_data,
		.on_drain = on_drain,
		.done = on_done,
	};
}

UNUSED static void start_with(struct seen *s, const struct http_call_options *opt)
{
	struct err e = ERR_INIT;

	assert_int_equal(http_call_start(fx.upstream, opt, &s->call, &e), 0);
}

UNUSED static void start(struct seen *s, const char *method, const char *target)
{
	struct http_call_options opt = options(s, method, target);

	start_with(s, &opt);
	assert_int_equal(s->n_done, 0); /* never before the start has returned */
}

UNUSED static void expect(struct seen *s, int error, int status, const char *body)
{
	WAIT_FOR(s->n_done > 0);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->error, error);
	assert_int_equal(s->status, status);
	if (body != NULL)
		assert_true(span_is(buf_span(&s->body), body));
	buf_free(&s->body);
}

#endif
