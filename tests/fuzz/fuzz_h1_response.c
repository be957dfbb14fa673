/* The input is what a server sends. */
#include "h1_check.h"

#include "base/buf.h"

static void check_round_trip(const struct h1_head *h)
{
	static struct h1_head again;
	struct buf b = BUF_INIT(MIB(1));

	(void)buf_printf(&b, "HTTP/1.%d %d ", h->version_minor, h->status);
	(void)buf_add_span(&b, h->reason);
	(void)buf_add_str(&b, "\r\n");
	for (unsigned i = 0; i < h->n_fields; i++) {
		(void)buf_add_span(&b, h->fields[i].name);
		(void)buf_add_str(&b, ":");
		(void)buf_add_span(&b, h->fields[i].value);
		(void)buf_add_str(&b, "\r\n");
	}
	(void)buf_add_str(&b, "\r\n");
	CHECK(!buf_failed(&b));
	CHECK(h1_check_scan_fresh(b.data, b.len, &h1_check_limits[0]) == (ptrdiff_t)b.len);
	CHECK(h1_parse_response(b.data, b.len, &h1_check_limits[0], &again) == H1_OK);
	CHECK(h1_check_equal(h, &again));
	buf_free(&b);
}

static void check_response(const struct h1_head *h, const char *buf, size_t len,
			   const struct h1_limits *limits)
{
	struct h1_body body, to_head;

	h1_check_head(h, buf, len, limits);
	CHECK(h->status >= 100 && h->status <= 599);
	CHECK(check_within(h->reason, buf, len) && h1_is_field_value(h->reason));
	h1_body_init_response(&body, h, false);
	h1_body_init_response(&to_head, h, true);
	CHECK(to_head.kind == H1_BODY_NONE && to_head.done);
	CHECK(!(body.kind == H1_BODY_UNTIL_CLOSE && h->keep_alive));
	CHECK(body.kind != H1_BODY_NONE || body.done);
	CHECK(body.kind != H1_BODY_CHUNKED || h->chunked);
	CHECK(body.kind != H1_BODY_LENGTH || (h->has_length && body.left == h->length));
	check_round_trip(h);
}

static void check_with(const char *buf, size_t size, const struct h1_limits *limits)
{
	static struct h1_head head;
	ptrdiff_t n = h1_check_scan(buf, size, limits);
	enum h1_reason why = h1_parse_response(buf, size, limits, &head);

	CHECK((unsigned)why < H1_REASON_COUNT);
	CHECK(why != H1_OK || n == (ptrdiff_t)size);
	if (n <= 0)
		return;
	for (size_t cut = 0; cut < (size_t)n; cut++)
		CHECK(h1_parse_response(buf, cut, limits, &head) != H1_OK);
	autofree char *exact = check_copy(buf, (size_t)n);

	if (h1_parse_response(exact, (size_t)n, limits, &head) == H1_OK)
		check_response(&head, exact, (size_t)n, limits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *buf = NULL;

	if (size > 4096)
		return 0;
	buf = check_copy(data, size);
	for (size_t i = 0; i < ARRAY_LEN(h1_check_limits); i++)
		check_with(buf, size, &h1_check_limits[i]);
	return 0;
}
