/* The answer's side of an exchange. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "http/conn.h"

static struct wire *wire_of(struct http_req *r)
{
	return &r->conn->wire;
}

bool http_started(const struct http_req *r)
{
	return r->reply != HTTP_REPLY_NONE;
}

/* Framing is this layer's alone: a handler (or an upstream) must not get a word in. */
static bool is_framing(struct span name)
{
	static const char *const ours[] = { "content-length", "transfer-encoding", "date",
					    "keep-alive" };

	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		if (span_caseis(name, ours[i]))
			return true;
	return false;
}

void http_header_span(struct http_req *r, struct span name, struct span value)
{
	struct http_header *h, **at = &r->headers;

	h = arena_alloc(&r->arena, sizeof(*h) + name.len + value.len);
	if (!h1_is_token(name) || !h1_is_field_value(value) || is_framing(name) || h == NULL) {
		r->bad_header = true;
		return;
	}
	h->next = NULL;
	h->name = span_of(memcpy(h + 1, name.p, name.len), name.len);
	h->value = span_of((char *)(h + 1) + name.len, value.len);
	if (value.len > 0)
		memcpy((char *)(h + 1) + name.len, value.p, value.len);
	while (*at != NULL)
		at = &(*at)->next;
	*at = h;
}

void http_header(struct http_req *r, const char *name, const char *value)
{
	http_header_span(r, span_str(name), span_str(value));
}

bool http_answerable(const struct http_req *r)
{
	return !r->bad_header;
}

/* "Date: ...\r\n", made once a second. */
static struct span date_line(struct http_server *s)
{
	uint64_t now_ms = io_now_ms(s->loop);

	if (s->date[0] == '\0' || now_ms - s->date_at_ms >= 1000) {
		char when[CLOCK_HTTP_SIZE];

		(void)clock_http(clock_wall_ms() / 1000, when);
		(void)snprintf(s->date, sizeof(s->date), "Date: %s\r\n", when);
		s->date_at_ms = now_ms;
	}
	return span_str(s->date);
}

/* How much of the unread body would have to be swallowed to keep the connection? Decide before the
 * head goes out, because it says whether the connection stays. */
static void decide_keep_alive(struct http_req *r)
{
	const struct h1_body *b = &r->body_in;

	if (r->server->draining)
		r->keep_alive = false;
	if (b->done || r->reading)
		return;
	if (r->head->expect_continue && !r->continue_sent)
		r->keep_alive = false; /* nobody knows whether the client will send it now */
	if (b->kind == H1_BODY_LENGTH && b->left > r->server->opt.limits.max_discard)
		r->keep_alive = false;
}

/* The head of the answer, composed in the server's buffer. NULL when it does not fit. */
static struct buf *compose_head(struct http_req *r, int status, const char *content_type,
				int64_t length)
{
	struct buf *b = &r->server->head_out;
	bool bodiless = status < 200 || status == 204;

	buf_clear(b);
	if (status == 200)
		(void)buf_add_span(b, SPAN_LIT("HTTP/1.1 200 OK\r\n"));
	else
		(void)buf_printf(b, "HTTP/1.1 %d %s\r\n", status, h1_status_text(status));
	(void)buf_add_span(b, date_line(r->server));
	if (content_type != NULL) {
		(void)buf_add_span(b, SPAN_LIT("Content-Type: "));
		(void)buf_add_str(b, content_type);
		(void)buf_add_span(b, SPAN_LIT("\r\n"));
	}
	for (const struct http_header *h = r->headers; h != NULL; h = h->next) {
		if (content_type != NULL && span_caseis(h->name, "content-type"))
			continue; /* a handler gave up after it had promised another body */
		(void)buf_add_span(b, h->name);
		(void)buf_add_span(b, SPAN_LIT(": "));
		(void)buf_add_span(b, h->value);
		(void)buf_add_span(b, SPAN_LIT("\r\n"));
	}
	if (length >= 0 && !bodiless) {
		(void)buf_add_span(b, SPAN_LIT("Content-Length: "));
		(void)buf_add_u64(b, (unsigned long long)length);
		(void)buf_add_span(b, SPAN_LIT("\r\n"));
	} else if (r->chunked) {
		(void)buf_add_span(b, SPAN_LIT("Transfer-Encoding: chunked\r\n"));
	}
	if (status != 101 && !r->keep_alive)
		(void)buf_add_span(b, SPAN_LIT("Connection: close\r\n"));
	else if (status != 101 && r->head->version_minor == 0)
		(void)buf_add_span(b, SPAN_LIT("Connection: keep-alive\r\n"));
	(void)buf_add_span(b, SPAN_LIT("\r\n"));
	return buf_failed(b) ? NULL : b;
}

/* Settle the framing. NULL: there is no memory for the head. */
static struct buf *begin(struct http_req *r, int status, const char *content_type, int64_t length)
{
	if (r->bad_header) {
		r->headers = NULL;
		r->no_body = true; /* what was meant to come behind it is dropped */
		content_type = NULL;
		status = 500;
		length = 0;
	}
	decide_keep_alive(r);
	if (status < 200 || status == 204 || status == 304)
		r->no_body = true;
	if (length < 0 && !r->no_body) {
		r->chunked = r->head->version_minor >= 1;
		r->until_close = !r->chunked;
		r->keep_alive = r->keep_alive && r->chunked;
	} else if (length < 0 && r->head->method == H1_HEAD && status >= 200 && status != 204) {
		r->chunked = r->head->version_minor >= 1; /* says so, sends none */
	}
	r->length_left = length > 0 && !r->no_body ? (uint64_t)length : 0;
	r->reply = HTTP_REPLY_STARTED;
	return compose_head(r, status, content_type, length);
}

void http_start(struct http_req *r, int status, int64_t length)
{
	struct buf *head;

	if (r->reply != HTTP_REPLY_NONE)
		return;
	head = begin(r, status, NULL, length);
	if (head != NULL)
		(void)wire_write(wire_of(r), head->data, head->len);
	else
		wire_break(wire_of(r), ENOMEM); /* the caller goes on with the request */
}

static void ended(struct http_req *r)
{
	r->reply = HTTP_REPLY_ENDED;
	conn_step(r->conn);
}

void http_reply(struct http_req *r, int status, const char *content_type, struct span body)
{
	struct iovec iov[2];
	struct buf *head;

	if (r->reply != HTTP_REPLY_NONE)
		return;
	head = begin(r, status, content_type, (int64_t)body.len);
	if (head == NULL) {
		http_abort(r);
		return;
	}
	iov[0] = (struct iovec){ head->data, head->len };
	iov[1] = (struct iovec){ (void *)(uintptr_t)body.p, body.len };
	(void)wire_write_whole(wire_of(r), iov, r->no_body || body.len == 0 ? 1 : 2);
	ended(r);
}

int http_write(struct http_req *r, const void *p, size_t len)
{
	char chunk[H1_CHUNK_HEAD_SIZE];
	struct iovec iov[3];

	if (r->reply != HTTP_REPLY_STARTED)
		return -EPIPE;
	if (r->no_body || len == 0)
		return 0;
	if (!r->chunked) {
		if (!r->until_close && len > r->length_left) {
			http_abort(r); /* more than promised: the next answer would be misread */
			return -EPIPE;
		}
		r->length_left -= r->until_close ? 0 : len;
		return wire_write(wire_of(r), p, len);
	}
	iov[0] = (struct iovec){ chunk, h1_chunk_head(chunk, len) };
	iov[1] = (struct iovec){ (void *)(uintptr_t)p, len };
	iov[2] = (struct iovec){ (void *)(uintptr_t) "\r\n", 2 };
	return wire_writev(wire_of(r), iov, 3);
}

void http_end(struct http_req *r)
{
	if (r->reply != HTTP_REPLY_STARTED || r->sending_file)
		return;
	if (r->length_left > 0) {
		http_abort(r); /* less than promised */
		return;
	}
	if (r->chunked && !r->no_body)
		(void)wire_write(wire_of(r), "0\r\n\r\n", 5);
	ended(r);
}

void http_send_file(struct http_req *r, int fd, off_t offset)
{
	if (r->reply != HTTP_REPLY_STARTED || r->no_body || r->length_left == 0) {
		(void)close(fd);
		if (r->reply == HTTP_REPLY_STARTED)
			http_end(r);
		return;
	}
	r->sending_file = true;
	wire_send_file(wire_of(r), fd, offset, r->length_left);
	r->length_left = 0;
	conn_step(r->conn);
}

void http_abort(struct http_req *r)
{
	conn_close(r->conn);
}

void http_refuse(struct http_req *r, int status, const char *why)
{
	char text[512];
	int n;

	if (r->reply != HTTP_REPLY_NONE)
		return;
	if (r->server->opt.refuse != NULL) {
		r->server->opt.refuse(r, status, why);
		return;
	}
	n = snprintf(text, sizeof(text), "%s\n", why);
	http_reply(r, status, "text/plain; charset=utf-8",
		   span_of(text, MIN((size_t)MAX(n, 0), sizeof(text) - 1)));
}

struct wire *http_upgrade(struct http_req *r, int status, const struct wire_ops *ops, void *user)
{
	struct http_conn *c = r->conn;
	struct buf *head;

	if (r->reply != HTTP_REPLY_NONE)
		return NULL;
	head = r->bad_header ? NULL : begin(r, status, NULL, HTTP_LENGTH_UNKNOWN);
	if (head == NULL) {
		http_abort(r);
		return NULL;
	}
	(void)wire_write(&c->wire, head->data, head->len);
	return conn_upgrade(c, ops, user);
}
