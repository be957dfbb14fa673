#include "codec/h1.h"

#include <assert.h>
#include <string.h>

#include "base/util.h"
#include "codec/chars.h"
#include "codec/url.h"

const struct h1_limits h1_default_limits = {
	.max_target = KIB(8),
	.max_head = KIB(32),
	.max_fields = H1_MAX_FIELDS,
};

/* A control byte that is not the CR of a CRLF is an error; which one? */
static enum h1_reason bad_ctl(char c)
{
	return c == '\r' || c == '\n' ? H1_BAD_LINE_END : H1_BAD_BYTE;
}

ptrdiff_t h1_scan(struct h1_scan *s, const char *buf, size_t len, const struct h1_limits *limits)
{
	size_t end = MIN(len, limits->max_head);

	assert(s->seen <= end); /* the buffer only grows, or *s starts afresh */
	for (;;) {
		size_t at = s->seen + chars_find_ctl(buf + s->seen, end - s->seen);

		s->seen = at; /* a lone CR at the end is looked at again with its successor */
		if (at == end)
			break;
		if (buf[at] != '\r')
			return -(ptrdiff_t)bad_ctl(buf[at]);
		if (at + 1 == end)
			break;
		if (buf[at + 1] != '\n')
			return -(ptrdiff_t)H1_BAD_LINE_END;
		s->seen = at + 2;
		if (at == s->line_start)
			return (ptrdiff_t)s->seen;
		s->line_start = s->seen;
	}
	if (end < limits->max_head)
		return 0;
	/* Still in the first line: it is the target that is too long. */
	return -(ptrdiff_t)(s->line_start == 0 ? H1_TARGET_TOO_LONG : H1_HEAD_TOO_LARGE);
}

size_t h1_skip_empty_lines(const char *buf, size_t len)
{
	size_t n = 0;

	while (n < 4 && len - n >= 2 && buf[n] == '\r' && buf[n + 1] == '\n')
		n += 2;
	return n;
}

/* What is left of the head while it is taken apart. */
struct cursor {
	const char *p;
	const char *end;
};

/* The next line, without its CRLF. */
static enum h1_reason next_line(struct cursor *c, struct span *ret)
{
	size_t left = (size_t)(c->end - c->p);
	size_t n = chars_find_ctl(c->p, left);

	if (n == left)
		return H1_BAD_LINE_END;
	if (c->p[n] != '\r')
		return bad_ctl(c->p[n]);
	if (left - n < 2 || c->p[n + 1] != '\n')
		return H1_BAD_LINE_END;
	*ret = span_of(c->p, n);
	c->p += n + 2;
	return H1_OK;
}

/* Case-insensitive, for a name made of letters and '-' that is known to be a token: there, no other
 * byte becomes a letter or '-' by setting the bit for lower case. */
static inline bool name_is(struct span name, const char *lower)
{
	for (size_t i = 0; i < name.len; i++)
		if ((name.p[i] | 0x20) != lower[i])
			return false;
	return true;
}

/* What the fields have said so far, beyond what struct h1_head keeps. */
struct facts {
	bool request;
	bool host;
	bool conn_close;
	bool conn_keep_alive;
	bool conn_upgrade;
	bool expect;
};

static enum h1_reason take_length(struct h1_head *head, struct span value)
{
	/* Twice is refused even when equal, and "5, 5" is not a number. The upper half of the range
	 * is nobody's size, but the source of many a sign error. */
	if (head->has_length || !span_u64(value, &head->length) || head->length > INT64_MAX)
		return H1_BAD_LENGTH;
	head->has_length = true;
	return H1_OK;
}

static enum h1_reason take_transfer_encoding(struct h1_head *head, struct span value)
{
	/* RFC 9112 6.1: faulty in HTTP/1.0, whatever it says. */
	if (head->chunked || head->version_minor == 0 || !span_caseeq(value, SPAN_LIT("chunked")))
		return H1_BAD_TRANSFER_CODING;
	head->chunked = true;
	return H1_OK;
}

static enum h1_reason take_connection(struct facts *f, struct span value)
{
	while (value.p != NULL) {
		struct span option = span_trim(span_cut(&value, ','));

		if (!chars_all(option, CHARS_TOKEN))
			return H1_BAD_FIELD_VALUE;
		if (span_caseeq(option, SPAN_LIT("close")))
			f->conn_close = true;
		else if (span_caseeq(option, SPAN_LIT("keep-alive")))
			f->conn_keep_alive = true;
		else if (span_caseeq(option, SPAN_LIT("upgrade")))
			f->conn_upgrade = true;
	}
	return H1_OK;
}

static enum h1_reason take_host(struct h1_head *head, struct facts *f, struct span value)
{
	struct url_authority a;

	if (f->host || !url_split_authority(value, &a))
		return H1_BAD_HOST;
	f->host = true;
	/* The authority of an absolute-form target wins (RFC 9112 3.2.2). */
	if (head->host.p == NULL)
		head->host = value;
	return H1_OK;
}

/* The fields on which framing and connection depend; all others pass. */
static enum h1_reason take_field(struct h1_head *head, struct facts *f, struct span name,
				 struct span value)
{
	switch (name.len) {
	case 4:
		if (f->request && name_is(name, "host"))
			return take_host(head, f, value);
		break;
	case 6:
		if (f->request && name_is(name, "expect")) {
			if (!span_caseeq(value, SPAN_LIT("100-continue")))
				return H1_BAD_EXPECT;
			f->expect = true;
		}
		break;
	case 7:
		if (name_is(name, "upgrade")) {
			if (head->upgrade_to.p != NULL)
				return H1_BAD_UPGRADE;
			head->upgrade_to = value;
		}
		break;
	case 10:
		if (name_is(name, "connection"))
			return take_connection(f, value);
		break;
	case 14:
		if (name_is(name, "content-length"))
			return take_length(head, value);
		break;
	case 17:
		if (name_is(name, "transfer-encoding"))
			return take_transfer_encoding(head, value);
		break;
	default:
		break;
	}
	return H1_OK;
}

/* All field lines up to the empty line, which must be the last thing in the head. */
static enum h1_reason parse_fields(struct cursor *c, const struct h1_limits *limits,
				   struct h1_head *head, struct facts *f)
{
	unsigned max_fields = MIN(limits->max_fields, (unsigned)H1_MAX_FIELDS);

	for (;;) {
		struct h1_field *field;
		struct span line;
		enum h1_reason why;
		size_t n;

		why = next_line(c, &line);
		if (why != H1_OK)
			return why;
		if (line.len == 0)
			return c->p == c->end ? H1_OK : H1_BAD_LINE_END;
		/* An empty name is also what a folded line looks like. */
		n = chars_run(line.p, line.len, CHARS_TOKEN);
		if (n == 0 || n == line.len || line.p[n] != ':')
			return H1_BAD_FIELD_NAME;
		if (head->n_fields == max_fields)
			return H1_TOO_MANY_FIELDS;
		field = &head->fields[head->n_fields++];
		field->name = span_first(line, n);
		field->value = span_trim(span_skip(line, n + 1));
		why = take_field(head, f, field->name, field->value);
		if (why != H1_OK)
			return why;
	}
}

/* Judge what no single field could tell. */
static enum h1_reason check_together(struct h1_head *head, const struct facts *f)
{
	bool has_body;

	if (head->has_length && head->chunked)
		return H1_LENGTH_AND_CHUNKED;
	if (f->request && head->version_minor == 1 && !f->host)
		return H1_BAD_HOST;
	head->keep_alive = !f->conn_close && (head->version_minor == 1 || f->conn_keep_alive);
	/* RFC 9110 7.8 has HTTP/1.0 ignored; RFC 9113 took "h2c" back, yet clients still offer it
	 * with any request, also with a body, and are content to be ignored. */
	head->upgrade = f->conn_upgrade && head->version_minor == 1 && head->upgrade_to.len > 0 &&
			!span_caseeq(head->upgrade_to, SPAN_LIT("h2c"));
	has_body = head->chunked || head->length > 0;
	/* Where does the body end and the new protocol begin? Two hops may not agree. */
	if (f->request && head->upgrade && has_body)
		return H1_BAD_UPGRADE;
	head->expect_continue = f->expect && head->version_minor == 1 && has_body;
	return H1_OK;
}

/* Everything but the fields themselves, which are many and valid up to n_fields only. */
static void head_clear(struct h1_head *head)
{
	memset(head, 0, offsetof(struct h1_head, fields));
	head->method = H1_OTHER_METHOD;
}

static const struct {
	char name[8];
	unsigned char len;
	bool refused;
	enum h1_method method;
} methods[] = {
	{ "GET", 3, false, H1_GET },
	{ "POST", 4, false, H1_POST },
	{ "PUT", 3, false, H1_PUT },
	{ "DELETE", 6, false, H1_DELETE },
	{ "HEAD", 4, false, H1_HEAD },
	{ "PATCH", 5, false, H1_PATCH },
	{ "OPTIONS", 7, false, H1_OPTIONS },
	/* A tunnel would change who parses what follows; an echo of the head would leak tokens. */
	{ "CONNECT", 7, true, 0 },
	{ "TRACE", 5, true, 0 },
};

static enum h1_reason take_method(struct h1_head *head, struct span name)
{
	head->method_name = name;
	for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
		if (name.len != methods[i].len || memcmp(name.p, methods[i].name, name.len) != 0)
			continue;
		head->method = methods[i].method;
		return methods[i].refused ? H1_BAD_METHOD : H1_OK;
	}
	return H1_OK;
}

/* "http://host:1/path?query": the authority into head->host, the rest is the target. */
static enum h1_reason take_absolute_form(struct h1_head *head, struct span target)
{
	struct url_parts url;

	if (!url_split(target, &url) || !(span_caseeq(url.scheme, SPAN_LIT("http")) ||
					  span_caseeq(url.scheme, SPAN_LIT("https"))))
		return H1_BAD_TARGET;
	if (!url_split_authority(url.authority, &(struct url_authority){ 0 }))
		return H1_BAD_HOST;
	head->host = url.authority;
	head->target = url.target;
	/* No path: its "/" must lie in the caller's buffer too, and "://" has one. */
	if (url.target.len == 0)
		head->target = span_of(url.authority.p - 1, 1);
	return head->target.p[0] == '/' ? H1_OK : H1_BAD_TARGET;
}

static enum h1_reason take_target(struct h1_head *head, struct span target)
{
	enum h1_reason why;
	ptrdiff_t at;

	head->target = target;
	if (target.len == 0)
		return H1_BAD_TARGET;
	if (target.p[0] != '/') {
		if (head->method == H1_OPTIONS && target.len == 1 && target.p[0] == '*') {
			head->path = target;
			return H1_OK;
		}
		why = take_absolute_form(head, target);
		if (why != H1_OK)
			return why;
	}
	head->path = head->target;
	at = span_find(head->target, '?');
	if (at >= 0) {
		head->path = span_first(head->target, (size_t)at);
		head->query = span_skip(head->target, (size_t)at + 1);
	}
	return H1_OK;
}

static enum h1_reason take_version(struct h1_head *head, struct span v)
{
	if (v.len != 8 || memcmp(v.p, "HTTP/1.", 7) != 0 || (v.p[7] != '0' && v.p[7] != '1'))
		return H1_BAD_VERSION;
	head->version_minor = v.p[7] - '0';
	return H1_OK;
}

static enum h1_reason parse_request_line(struct span line, const struct h1_limits *limits,
					 struct h1_head *head)
{
	struct span name, target;
	enum h1_reason why;
	size_t n;

	n = chars_run(line.p, line.len, CHARS_TOKEN);
	if (n == 0 || n == line.len || line.p[n] != ' ')
		return H1_BAD_METHOD;
	name = span_first(line, n);
	line = span_skip(line, n + 1);
	n = chars_run(line.p, line.len, CHARS_TARGET);
	target = span_first(line, n);
	line = span_skip(line, n);
	why = take_method(head, name);
	if (why != H1_OK)
		return why;
	if (n > limits->max_target)
		return H1_TARGET_TOO_LONG;
	/* What follows is " HTTP/1.1". A byte that ended the target too early, or a second blank,
	 * is the target's fault. */
	if (line.len > 0 && (line.p[0] != ' ' || span_find(span_skip(line, 1), ' ') >= 0))
		return H1_BAD_TARGET;
	why = take_version(head, line.len > 0 ? span_skip(line, 1) : line);
	if (why != H1_OK)
		return why;
	return take_target(head, target);
}

enum h1_reason h1_parse_request(const char *buf, size_t len, const struct h1_limits *limits,
				struct h1_head *head)
{
	struct cursor c = { buf, buf + len };
	struct facts f = { .request = true };
	struct span line;
	enum h1_reason why;

	head_clear(head);
	if (len > limits->max_head)
		return H1_HEAD_TOO_LARGE;
	why = next_line(&c, &line);
	if (why == H1_OK)
		why = parse_request_line(line, limits, head);
	if (why == H1_OK)
		why = parse_fields(&c, limits, head, &f);
	if (why == H1_OK)
		why = check_together(head, &f);
	return why;
}

/* "HTTP/1.1 200 OK"; many servers send no blank when they have no words. */
static enum h1_reason parse_status_line(struct span line, struct h1_head *head)
{
	enum h1_reason why;
	uint64_t status;

	if (line.len < 12 || memcmp(line.p, "HTTP/", 5) != 0 || line.p[8] != ' ' ||
	    (line.len > 12 && line.p[12] != ' '))
		return H1_BAD_STATUS_LINE;
	why = take_version(head, span_first(line, 8));
	if (why != H1_OK)
		return why;
	if (!span_u64(span_of(line.p + 9, 3), &status) || status < 100 || status > 599)
		return H1_BAD_STATUS_LINE;
	head->status = (int)status;
	head->reason = span_skip(line, MIN(line.len, (size_t)13));
	return H1_OK;
}

enum h1_reason h1_parse_response(const char *buf, size_t len, const struct h1_limits *limits,
				 struct h1_head *head)
{
	struct cursor c = { buf, buf + len };
	struct facts f = { .request = false };
	struct span line;
	enum h1_reason why;
	bool never_body;

	head_clear(head);
	if (len > limits->max_head)
		return H1_HEAD_TOO_LARGE;
	why = next_line(&c, &line);
	if (why == H1_OK)
		why = parse_status_line(line, head);
	if (why == H1_OK)
		why = parse_fields(&c, limits, head, &f);
	if (why == H1_OK)
		why = check_together(head, &f);
	if (why != H1_OK)
		return why;
	/* A body that ends with the connection leaves none to keep. Nor is there trust in a peer
	 * that announces a body where none may be: its bytes would pass for the next answer. */
	never_body = head->status < 200 || head->status == 204;
	if (never_body && (head->chunked || head->length > 0))
		head->keep_alive = false;
	if (!never_body && head->status != 304 && !head->chunked && !head->has_length)
		head->keep_alive = false;
	return H1_OK;
}
