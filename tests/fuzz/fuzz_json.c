/* JSON both ways.
 *  - What json_parse() takes keeps the limits, and comes back equal through json_encode().
 *  - Any bytes written as a string are one line of JSON, which jansson reads as those bytes with
 *    the documented substitutions, computed here by brute force. */
#include "check.h"

#include "codec/json.h"

static void count(const json_t *v, unsigned depth, unsigned *values, unsigned *deepest)
{
	json_t *item;
	const char *key;
	size_t i;

	++*values;
	if (json_is_object(v) || json_is_array(v))
		depth++;
	*deepest = MAX(*deepest, depth);
	json_array_foreach (v, i, item)
		count(item, depth, values, deepest);
	json_object_foreach ((json_t *)(uintptr_t)v, key, item)
		count(item, depth, values, deepest);
}

/* No byte or character that a client could take for a line end. */
static void check_one_line(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		CHECK((unsigned char)s.p[i] >= 0x20);
		CHECK(s.len - i < 2 || memcmp(s.p + i, "\xc2\x85", 2) != 0);
		CHECK(s.len - i < 3 || memcmp(s.p + i, "\xe2\x80\xa8", 3) != 0);
		CHECK(s.len - i < 3 || memcmp(s.p + i, "\xe2\x80\xa9", 3) != 0);
	}
}

static void check_tree(struct span text, bool first_only, bool allow_nul)
{
	struct json_limits limits = {
		.max_bytes = 4096,
		.max_depth = 6,
		.max_values = 100,
		.first_only = first_only,
		.allow_nul = allow_nul,
	};
	struct buf out = BUF_INIT(1 << 20);
	unsigned values = 0, deepest = 0;
	struct err e = ERR_INIT;
	json_t *v = NULL, *again = NULL;

	if (json_parse(text, &limits, &v, &e) < 0) {
		CHECK(v == NULL && e.code > 0 && e.msg[0] != '\0');
		return;
	}
	CHECK(text.len <= limits.max_bytes);
	count(v, 0, &values, &deepest);
	CHECK(values <= limits.max_values && deepest <= limits.max_depth);

	CHECK(json_encode(v, &out) == 0);
	check_one_line(buf_span(&out));
	limits.max_bytes = out.len;
	limits.first_only = false;
	CHECK(json_parse(buf_span(&out), &limits, &again, &e) == 0);
	CHECK(json_equal(v, again));
	json_decref(again);
	json_decref(v);
	buf_free(&out);
}

/* ---- the substitution, by brute force ---- */

static bool well_formed(const uint8_t *p, size_t n)
{
	static const uint32_t first_of_len[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t cp;

	if (n == 1)
		return p[0] < 0x80;
	if (n == 2 && (p[0] & 0xe0) == 0xc0)
		cp = p[0] & 0x1f;
	else if (n == 3 && (p[0] & 0xf0) == 0xe0)
		cp = p[0] & 0x0f;
	else if (n == 4 && (p[0] & 0xf8) == 0xf0)
		cp = p[0] & 0x07;
	else
		return false;
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return false;
		cp = cp << 6 | (p[i] & 0x3f);
	}
	return cp >= first_of_len[n] && cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff);
}

/* Is there a character that begins with these bytes? The second byte decides, so it alone has to be
 * tried in full. */
static bool begins_a_character(const uint8_t *p, size_t n)
{
	uint8_t try[4] = { p[0], 0x80, 0x80, 0x80 };

	for (size_t len = n + 1; len <= 4; len++) {
		memcpy(try, p, n);
		for (unsigned second = 0x80; second <= 0xbf; second++) {
			if (n == 1)
				try[1] = (uint8_t)second;
			if (well_formed(try, len))
				return true;
		}
	}
	return false;
}

static void substitute(const uint8_t *p, size_t size, struct buf *out)
{
	while (size > 0) {
		size_t n = 0;

		for (size_t len = 1; len <= MIN(size, (size_t)4) && n == 0; len++)
			if (well_formed(p, len))
				n = len;
		if (n > 0) {
			(void)buf_add(out, p, n);
		} else {
			(void)buf_add(out, "\xef\xbf\xbd", 3);
			n = 1;
			for (size_t len = 2; len <= MIN(size, (size_t)3); len++)
				if (begins_a_character(p, len))
					n = len;
		}
		p += n;
		size -= n;
	}
}

static void check_string(const uint8_t *data, size_t size)
{
	struct json_limits limits = json_default_limits;
	struct buf out = BUF_INIT(1 << 20), expected = BUF_INIT(1 << 20);
	struct jw w = JW_INIT(&out);
	json_t *v = NULL;

	jw_str(&w, span_of(data, size));
	CHECK(jw_ok(&w));
	check_one_line(buf_span(&out));
	limits.allow_nul = true;
	CHECK(json_parse(buf_span(&out), &limits, &v, NULL) == 0);
	substitute(data, size, &expected);
	CHECK(json_string_length(v) == expected.len);
	CHECK(expected.len == 0 || memcmp(json_string_value(v), expected.data, expected.len) == 0);
	json_decref(v);

	/* a buffer of just that size takes it, one that is smaller by a byte says so */
	struct buf tight = BUF_INIT(out.len), small = BUF_INIT(out.len - 1);

	w = JW_INIT(&tight);
	jw_str(&w, span_of(data, size));
	CHECK(jw_ok(&w) && span_eq(buf_span(&tight), buf_span(&out)));
	w = JW_INIT(&small);
	jw_str(&w, span_of(data, size));
	CHECK(!jw_ok(&w) && small.len <= small.max);
	buf_free(&tight);
	buf_free(&small);
	buf_free(&out);
	buf_free(&expected);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 65536)
		return 0;
	for (unsigned flags = 0; flags < 4; flags++)
		check_tree(span_of(data, size), (flags & 1) != 0, (flags & 2) != 0);
	check_string(data, size);
	return 0;
}
