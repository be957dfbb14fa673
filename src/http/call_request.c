/* What a call sends first: its options judged, and the head of the request. */
#include <string.h>

#include "codec/chars.h"
#include "http/call.h"

static bool is_ours(struct span name, bool upgrade)
{
	static const char *const ours[] = { "content-length", "transfer-encoding", "connection",
					    "keep-alive", "host" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (span_caseis(name, ours[i]))
			return true;
	return !upgrade && span_caseis(name, "upgrade");
}

static void add_field(struct buf *b, struct span name, struct span value)
{
	(void)buf_add_span(b, name);
	(void)buf_add_span(b, SPAN_LIT(": "));
	(void)buf_add_span(b, value);
	(void)buf_add_span(b, SPAN_LIT("\r\n"));
}

static struct span choose_host(const struct http_call_options *opt, const char *otherwise)
{
	for (unsigned i = 0; i < opt->n_fields; i++)
		if (span_caseis(opt->fields[i].name, "host"))
			return opt->fields[i].value;
	return span_str(otherwise);
}

/* A body is announced where there is one, and where a server would expect one (RFC 9110 8.6). */
static void add_framing(struct buf *b, const struct http_call *c, int64_t length)
{
	bool expected = !c->idempotent || strcmp(c->opt.method, "PUT") == 0;

	if (c->chunked) {
		(void)buf_add_span(b, SPAN_LIT("Transfer-Encoding: chunked\r\n"));
	} else if (length > 0 || (expected && !c->opt.upgrade)) {
		(void)buf_add_span(b, SPAN_LIT("Content-Length: "));
		(void)buf_add_u64(b, (unsigned long long)length);
		(void)buf_add_span(b, SPAN_LIT("\r\n"));
	}
}

void call_compose(struct http_call *c, int64_t length)
{
	const struct http_call_options *opt = &c->opt;
	struct buf *b = &c->request;

	(void)buf_add_str(b, opt->method);
	(void)buf_add_char(b, ' ');
	(void)buf_add_span(b, opt->target);
	(void)buf_add_span(b, SPAN_LIT(" HTTP/1.1\r\n"));
	add_field(b, SPAN_LIT("Host"), choose_host(opt, c->upstream->opt.host));
	for (unsigned i = 0; i < opt->n_fields; i++)
		if (!is_ours(opt->fields[i].name, opt->upgrade))
			add_field(b, opt->fields[i].name, opt->fields[i].value);
	if (opt->upgrade)
		(void)buf_add_span(b, SPAN_LIT("Connection: Upgrade\r\n"));
	add_framing(b, c, length);
	(void)buf_add_span(b, SPAN_LIT("\r\n"));
}

int call_check(const struct http_call_options *opt, struct err *e)
{
	struct span target = opt->target;

	if (opt->method == NULL || !h1_is_token(span_str(opt->method)))
		return err_set(e, EINVAL, "bad method");
	if (target.len == 0 || !chars_all(target, CHARS_TARGET) ||
	    (target.p[0] != '/' && !span_is(target, "*")))
		return err_set(e, EINVAL, "bad request target");
	for (unsigned i = 0; i < opt->n_fields; i++)
		if (!h1_is_token(opt->fields[i].name) || !h1_is_field_value(opt->fields[i].value))
			return err_set(e, EINVAL, "bad header field");
	if (opt->upgrade && (opt->body_length != 0 || opt->body.p != NULL))
		return err_set(e, EINVAL, "upgrade of a request with a body");
	return 0;
}

bool call_is_idempotent(const char *method)
{
	static const char *const names[] = { "GET", "HEAD", "PUT", "DELETE", "OPTIONS" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (strcmp(method, names[i]) == 0)
			return true;
	return false;
}
