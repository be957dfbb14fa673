/* The input is what a client sends. */
#include "h1_check.h"

#include "base/buf.h"
#include "codec/url.h"

/* As a proxy would write it: origin-form, and Host says what the target said. */
static void serialise(const struct h1_head *h, struct buf *out)
{
	(void)buf_add_span(out, h->method_name);
	(void)buf_add_char(out, ' ');
	(void)buf_add_span(out, h->target);
	(void)buf_printf(out, " HTTP/1.%d\r\n", h->version_minor);
	for (unsigned i = 0; i < h->n_fields; i++) {
		bool is_host = span_caseis(h->fields[i].name, "host");

		(void)buf_add_span(out, h->fields[i].name);
		(void)buf_add_str(out, ": ");
		(void)buf_add_span(out, is_host ? h->host : h->fields[i].value);
		(void)buf_add_str(out, "\r\n");
	}
	(void)buf_add_str(out, "\r\n");
	CHECK(!buf_failed(out));
}

static void check_round_trip(const struct h1_head *h)
{
	static struct h1_head first, again;
	struct buf a = BUF_INIT(MIB(1)), b = BUF_INIT(MIB(1));

	serialise(h, &a);
	CHECK(h1_check_scan_fresh(a.data, a.len, &h1_check_limits[0]) == (ptrdiff_t)a.len);
	CHECK(h1_parse_request(a.data, a.len, &h1_check_limits[0], &first) == H1_OK);
	CHECK(h1_check_same(first.target, h->target) && first.length == h->length &&
	      first.chunked == h->chunked && first.keep_alive == h->keep_alive &&
	      first.upgrade == h->upgrade && first.n_fields == h->n_fields);
	/* written from what was read, nothing is left to change */
	serialise(&first, &b);
	CHECK(span_eq(buf_span(&a), buf_span(&b)));
	CHECK(h1_parse_request(b.data, b.len, &h1_check_limits[0], &again) == H1_OK);
	CHECK(h1_check_equal(&first, &again));
	buf_free(&a);
	buf_free(&b);
}

static void check_request(const struct h1_head *h, const char *buf, size_t len,
			  const struct h1_limits *limits)
{
	struct url_authority a;

	h1_check_head(h, buf, len, limits);
	CHECK(check_within(h->method_name, buf, len) && check_within(h->target, buf, len) &&
	      check_within(h->path, buf, len));
	CHECK(h1_is_token(h->method_name));
	CHECK(!span_is(h->method_name, "CONNECT") && !span_is(h->method_name, "TRACE"));
	CHECK(h->method == H1_OTHER_METHOD || span_is(h->method_name, h1_method_name(h->method)));
	CHECK(h->target.len <= limits->max_target);
	CHECK(h->target.p[0] == '/' || (span_is(h->target, "*") && h->method == H1_OPTIONS));
	CHECK(h->path.p == h->target.p && span_find(h->path, '?') < 0);
	if (h->query.p != NULL)
		CHECK(h->query.p == h->path.p + h->path.len + 1 &&
		      h->path.len + 1 + h->query.len == h->target.len);
	else
		CHECK(h->path.len == h->target.len);
	CHECK(h->version_minor == 0 || h1_find(h, "host") != NULL);
	if (h->host.p != NULL)
		CHECK(check_within(h->host, buf, len) && url_split_authority(h->host, &a));
	CHECK(!(h->upgrade && (h->chunked || h->length > 0)));
	CHECK(!h->expect_continue || h->chunked || h->length > 0);
	check_round_trip(h);
}

static void check_with(const char *buf, size_t size, const struct h1_limits *limits)
{
	static struct h1_head head;
	ptrdiff_t n = h1_check_scan(buf, size, limits);
	enum h1_reason why = h1_parse_request(buf, size, limits, &head);

	/* The parser alone accepts nothing that the scan would have cut otherwise. */
	CHECK((unsigned)why < H1_REASON_COUNT);
	CHECK(why != H1_OK || n == (ptrdiff_t)size);
	if (n <= 0)
		return;
	for (size_t cut = 0; cut < (size_t)n; cut++)
		CHECK(h1_parse_request(buf, cut, limits, &head) != H1_OK);
	autofree char *exact = check_copy(buf, (size_t)n);

	if (h1_parse_request(exact, (size_t)n, limits, &head) == H1_OK)
		check_request(&head, exact, (size_t)n, limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *buf = NULL;
	size_t skip;

	if (size > 4096)
		return 0;
	buf = check_copy(data, size);
	skip = h1_skip_empty_lines(buf, size);
	CHECK(skip <= 4 && skip <= size);
	for (size_t i = 0; i < ARRAY_LEN(h1_check_limits); i++)
		check_with(buf + skip, size - skip, &h1_check_limits[i]);
	return 0;
}
