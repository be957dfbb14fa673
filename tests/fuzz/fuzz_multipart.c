/* Multipart bodies.
 *  - The same events and the same verdict come out however the bytes are cut.
 *  - Any contents wrapped into a part come back as they were, unless they hold the delimiter.
 *  - Any bytes as Content-Type are taken or refused, and what is taken has a usable boundary. */
#include "check.h"

#include "base/buf.h"
#include "codec/multipart.h"

#define TYPE "multipart/form-data; boundary=XX"

static void add_field(struct buf *out, char tag, struct span s)
{
	(void)buf_add_char(out, tag);
	(void)buf_add_u64(out, s.len);
	(void)buf_add_char(out, ':');
	(void)buf_add_span(out, s);
}

static bool within(struct span s, const char *start, size_t len)
{
	return s.len == 0 || check_within(s, start, len);
}

/* Events as text; data is collected, so that its cutting does not show. Returns the verdict. */
static int run(struct span in, uint64_t seed, struct buf *out, struct buf *contents)
{
	struct multipart_limits limits = { .max_head = 200, .max_parts = 5 };
	struct multipart m;
	struct span data;
	bool open = false;
	int r;

	CHECK(multipart_init(&m, SPAN_LIT(TYPE), &limits, NULL) == 0);
	while (in.len > 0) {
		size_t n = seed == 0 ? in.len : check_piece(&seed, in.len);
		char *copy = check_copy(in.p, n);
		struct span piece = span_of(copy, n);
		struct err e = ERR_INIT;

		while ((r = multipart_next(&m, &piece, &data, &e)) > 0) {
			switch ((enum multipart_event)r) {
			case MULTIPART_PART:
				CHECK(!open);
				open = true;
				buf_clear(contents);
				CHECK(within(m.part.name, m.head, m.head_len));
				CHECK(within(m.part.filename, m.head, m.head_len));
				CHECK(within(m.part.content_type, m.head, m.head_len));
				add_field(out, 'n', m.part.name);
				if (m.part.has_filename)
					add_field(out, 'f', m.part.filename);
				add_field(out, 't', m.part.content_type);
				break;
			case MULTIPART_DATA:
				CHECK(open && data.len > 0);
				CHECK(within(data, copy, n) || within(data, m.delim, m.delim_len));
				(void)buf_add_span(contents, data);
				break;
			case MULTIPART_PART_END:
				CHECK(open);
				open = false;
				add_field(out, 'd', buf_span(contents));
				break;
			case MULTIPART_END:
				CHECK(!open);
				add_field(out, 'E', SPAN_LIT(""));
				break;
			case MULTIPART_MORE:
				break;
			}
		}
		free(copy);
		if (r < 0) {
			CHECK(e.code == -r && e.msg[0] != '\0');
			return r;
		}
		CHECK(piece.len == 0);
		in = span_skip(in, n);
	}
	return multipart_finish(&m, NULL);
}

static void check_round_trip(struct span contents, uint64_t seed)
{
	struct buf body = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20), expected = BUF_INIT(1 << 20);
	struct buf data = BUF_INIT(1 << 20);

	if (memmem(contents.p, contents.len, "\r\n--XX", 6) != NULL ||
	    span_starts(contents, "--XX"))
		return;
	(void)buf_add_str(&body, "--XX\r\nContent-Disposition: form-data; name=a\r\n\r\n");
	(void)buf_add_span(&body, contents);
	(void)buf_add_str(&body, "\r\n--XX--\r\n");
	CHECK(run(buf_span(&body), seed, &out, &data) == 0);
	add_field(&expected, 'n', SPAN_LIT("a"));
	add_field(&expected, 't', SPAN_LIT(""));
	add_field(&expected, 'd', contents);
	add_field(&expected, 'E', SPAN_LIT(""));
	CHECK(span_eq(buf_span(&out), buf_span(&expected)));
	buf_free(&body);
	buf_free(&out);
	buf_free(&expected);
	buf_free(&data);
}

static void check_type(struct span type)
{
	struct multipart m;

	if (multipart_init(&m, type, &multipart_default_limits, NULL) < 0)
		return;
	CHECK(m.delim_len > 4 && m.delim_len <= sizeof(m.delim));
	CHECK(memchr(m.delim + 1, '\r', m.delim_len - 1) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole = BUF_INIT(1 << 20), pieces = BUF_INIT(1 << 20);
	struct buf contents = BUF_INIT(1 << 20);
	struct span in;
	uint64_t seed;
	int r, again;

	if (size > 8192)
		return 0;
	in = span_of(data, size);
	seed = check_seed(data, size);
	r = run(in, 0, &whole, &contents);
	again = run(in, seed, &pieces, &contents);
	CHECK(r == again);
	CHECK(span_eq(buf_span(&whole), buf_span(&pieces)));
	check_round_trip(in, seed);
	check_type(in);
	buf_free(&whole);
	buf_free(&pieces);
	buf_free(&contents);
	return 0;
}
