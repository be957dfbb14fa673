/* The request's side of an exchange: body, query, fields. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "codec/url.h"
#include "http/conn.h"

struct io_loop *http_loop(const struct http_req *r)
{
	return r->server->loop;
}

/* The client may be waiting for leave to send the body. */
static void begin_reading(struct http_req *r)
{
	r->reading = true;
	if (r->head->expect_continue && !r->continue_sent && !r->body_in.done &&
	    r->reply == HTTP_REPLY_NONE && r->head->version_minor >= 1) {
		static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";

		r->continue_sent = true;
		(void)wire_write(&r->conn->wire, go_on, sizeof(go_on) - 1);
	}
	wire_resume(&r->conn->wire);
	conn_step(r->conn);
}

void http_read_body(struct http_req *r, size_t max,
		    void (*on_collected)(struct http_req *r, struct span body))
{
	if (r->reading || r->reply == HTTP_REPLY_ENDED)
		return;
	r->collected = BUF_INIT(max);
	r->on_collected = on_collected;
	if (r->head->has_length && r->head->length > max) {
		r->keep_alive = false;
		http_refuse(r, 413, "request body is too large");
		return;
	}
	begin_reading(r);
}

void http_stream_body(struct http_req *r)
{
	if (!r->reading && r->reply != HTTP_REPLY_ENDED)
		begin_reading(r);
}

void http_pause_body(struct http_req *r)
{
	r->body_paused = true;
}

void http_resume_body(struct http_req *r)
{
	if (!r->body_paused)
		return;
	r->body_paused = false;
	wire_resume(&r->conn->wire);
	conn_step(r->conn);
}

struct span http_query(const struct http_req *r, const char *key, unsigned nth)
{
	struct span rest = r->head->query, raw_key, raw_value, none = { NULL, 0 };
	struct span want = span_str(key);

	while (url_query_next(&rest, &raw_key, &raw_value)) {
		ptrdiff_t len;
		char *value;

		if (!url_decodes_to(raw_key, URL_QUERY, want) || nth-- > 0)
			continue;
		if (raw_value.len == 0) /* perhaps without "=" */
			return SPAN_LIT("");
		if (r->query == NULL) /* nothing to decode */
			return raw_value;
		value = r->query + (raw_value.p - r->head->query.p);
		len = url_decode(raw_value, URL_QUERY, value, raw_value.len);
		return len < 0 ? none : span_of(value, (size_t)len);
	}
	return none;
}

struct span http_param(const struct http_req *r, const char *name)
{
	for (unsigned i = 0; i < r->n_params; i++)
		if (span_is(span_of(r->params[i].name, r->params[i].name_len), name))
			return r->params[i].value;
	return span_of(NULL, 0);
}

struct span http_field(const struct http_req *r, const char *name)
{
	const struct h1_field *f = h1_find(r->head, name);

	return f != NULL ? f->value : span_of(NULL, 0);
}

const char *http_peer(struct http_req *r)
{
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a = { 0 };
	socklen_t len = sizeof(a);
	char text[INET6_ADDRSTRLEN] = "";
	const char *peer = "unix";

	if (getpeername(r->conn->wire.stream.fd, &a.sa, &len) < 0)
		return "unknown";
	if (a.sa.sa_family == AF_INET)
		peer = arena_printf(&r->arena, "%s:%u",
				    inet_ntop(AF_INET, &a.in.sin_addr, text, sizeof(text)),
				    ntohs(a.in.sin_port));
	else if (a.sa.sa_family == AF_INET6)
		peer = arena_printf(&r->arena, "[%s]:%u",
				    inet_ntop(AF_INET6, &a.in6.sin6_addr, text, sizeof(text)),
				    ntohs(a.in6.sin6_port));
	return peer != NULL ? peer : "unknown";
}
