/* Invariants of HTTP/1.1 heads, for requests and responses alike. */
#ifndef OSB_TESTS_FUZZ_H1_CHECK_H
#define OSB_TESTS_FUZZ_H1_CHECK_H

#include "check.h"
#include "codec/h1.h"

static const struct h1_limits h1_check_limits[] = {
	{ .max_target = 8192, .max_head = 32768, .max_fields = 100 },
	{ .max_target = 12, .max_head = 96, .max_fields = 3 },
};

static ptrdiff_t h1_check_scan_fresh(const char *buf, size_t len, const struct h1_limits *limits)
{
	struct h1_scan s = { 0 };

	return h1_scan(&s, buf, len, limits);
}

/* The head's length, or 0, or -reason; however the bytes arrive, and whatever follows them. */
static ptrdiff_t h1_check_scan(const char *buf, size_t size, const struct h1_limits *limits)
{
	ptrdiff_t whole = h1_check_scan_fresh(buf, size, limits), n = 0;
	uint64_t seed = check_seed(buf, size);
	struct h1_scan s = { 0 };

	/* a growing buffer that moves each time */
	for (size_t have = 0; have < size && n == 0;) {
		autofree char *copy = NULL;

		have += check_piece(&seed, size - have);
		copy = check_copy(buf, have);
		n = h1_scan(&s, copy, have, limits);
	}
	CHECK(n == whole);

	/* what is decided for a prefix is decided */
	for (size_t have = 0; have <= size; have += size < 256 ? 1 : check_piece(&seed, 64)) {
		n = h1_check_scan_fresh(buf, have, limits);
		if (n != 0)
			CHECK(n == whole);
		if (whole > 0)
			CHECK((n != 0) == (have >= (size_t)whole));
	}
	if (whole > 0) {
		CHECK((size_t)whole <= size && (size_t)whole <= limits->max_head);
		CHECK(memcmp(buf + whole - 2, "\r\n", 2) == 0);
		CHECK(memmem(buf, (size_t)whole - 1, "\r\n\r\n", 4) == NULL);
	}
	return whole;
}

static bool h1_check_same(struct span a, struct span b)
{
	return span_eq(a, b) && (a.p == NULL) == (b.p == NULL);
}

/* All that two heads say is the same, though their bytes lie elsewhere. */
static bool h1_check_equal(const struct h1_head *a, const struct h1_head *b)
{
	if (a->method != b->method || !h1_check_same(a->method_name, b->method_name) ||
	    !h1_check_same(a->target, b->target) || !h1_check_same(a->path, b->path) ||
	    !h1_check_same(a->query, b->query) || !h1_check_same(a->host, b->host) ||
	    a->status != b->status || !h1_check_same(a->reason, b->reason) ||
	    a->version_minor != b->version_minor || a->chunked != b->chunked ||
	    a->has_length != b->has_length || a->length != b->length ||
	    a->keep_alive != b->keep_alive || a->upgrade != b->upgrade ||
	    !h1_check_same(a->upgrade_to, b->upgrade_to) ||
	    a->expect_continue != b->expect_continue || a->n_fields != b->n_fields)
		return false;
	for (unsigned i = 0; i < a->n_fields; i++)
		if (!h1_check_same(a->fields[i].name, b->fields[i].name) ||
		    !h1_check_same(a->fields[i].value, b->fields[i].value))
			return false;
	return true;
}

static void h1_check_fields(const struct h1_head *h, const char *buf, size_t len)
{
	for (unsigned i = 0; i < h->n_fields; i++) {
		const struct h1_field *f = &h->fields[i], *at;
		char name[64];
		unsigned same = 0;

		CHECK(check_within(f->name, buf, len) && check_within(f->value, buf, len));
		CHECK(h1_is_token(f->name) && h1_is_field_value(f->value));
		CHECK(span_eq(span_trim(f->value), f->value));
		CHECK(f->name.p + f->name.len < f->value.p);
		if (!span_copy(f->name, name, sizeof(name)))
			continue;
		/* every field of that name is met once on the way */
		for (at = h1_find(h, name); at != NULL; at = h1_next(h, at))
			same += at == f;
		CHECK(same == 1);
	}
}

/* What must hold of every head that was accepted; `buf` has `len` bytes. */
static void h1_check_head(const struct h1_head *h, const char *buf, size_t len,
			  const struct h1_limits *limits)
{
	static struct h1_head moved;
	autofree char *copy = check_copy(buf, len);

	CHECK(h->n_fields <= MIN(limits->max_fields, (unsigned)H1_MAX_FIELDS));
	CHECK(h->version_minor == 0 || h->version_minor == 1);
	CHECK(!(h->chunked && (h->has_length || h->version_minor == 0)));
	CHECK(h->has_length || h->length == 0);
	CHECK(h->length <= INT64_MAX);
	CHECK(!h->upgrade || (h->version_minor == 1 && h->upgrade_to.len > 0 &&
			      h1_has_token(h, "Connection", "Upgrade")));
	CHECK(!(h->keep_alive && h1_has_token(h, "connection", "close")));
	h1_check_fields(h, buf, len);

	moved = *h;
	h1_head_move(&moved, buf, copy);
	CHECK(h1_check_equal(h, &moved));
	h1_check_fields(&moved, copy, len);
}

#endif
