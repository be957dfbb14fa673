/* The input is a URL, an authority, a path and a query in turn. */
#include "check.h"

#include <errno.h>

#include "base/buf.h"
#include "codec/url.h"

static void check_split(struct span in)
{
	struct buf b = BUF_INIT(MIB(1));
	struct url_parts p;

	if (!url_split(in, &p))
		return;
	CHECK(check_within(p.scheme, in.p, in.len) && check_within(p.authority, in.p, in.len) &&
	      check_within(p.target, in.p, in.len));
	(void)buf_add_span(&b, p.scheme);
	(void)buf_add_str(&b, "://");
	(void)buf_add_span(&b, p.authority);
	(void)buf_add_span(&b, p.target);
	CHECK(span_eq(buf_span(&b), in));
	buf_free(&b);
}

static void check_authority(struct span in)
{
	struct url_authority a, again;
	struct buf b = BUF_INIT(MIB(1));

	if (!url_split_authority(in, &a))
		return;
	CHECK(a.host.len > 0 && check_within(a.host, in.p, in.len));
	CHECK(!a.has_port || a.port > 0);
	(void)buf_printf(&b, a.ipv6 ? "[%.*s]" : "%.*s", SPAN_FMT(a.host));
	CHECK(a.has_port || span_eq(buf_span(&b), in));
	if (a.has_port)
		(void)buf_printf(&b, ":%u", a.port);
	CHECK(url_split_authority(buf_span(&b), &again));
	CHECK(span_eq(a.host, again.host) && a.ipv6 == again.ipv6 && a.has_port == again.has_port &&
	      a.port == again.port);
	buf_free(&b);
}

/* Decoding byte by byte, without a care for speed; -1 if it is refused. */
static ptrdiff_t model_decode(struct span in, bool query, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < in.len; i++) {
		uint64_t v = (unsigned char)in.p[i];

		if (in.p[i] == '%') {
			if (in.len - i < 3 || !span_hex_u64(span_of(in.p + i + 1, 2), &v))
				return -1;
			i += 2;
		} else if (in.p[i] == '+' && query) {
			v = ' ';
		}
		if (v == 0)
			return -1;
		out[n++] = (char)v;
	}
	return (ptrdiff_t)n;
}

static void check_decode(struct span in)
{
	autofree char *want = malloc(in.len + 1), *out = malloc(in.len + 1);

	CHECK(want != NULL && out != NULL);
	for (int mode = URL_PATH; mode <= URL_QUERY; mode++) {
		enum url_mode m = (enum url_mode)mode;
		ptrdiff_t n = model_decode(in, m == URL_QUERY, want);
		autofree char *same = check_copy(in.p, in.len);

		CHECK(url_decode(in, m, out, in.len) == (n < 0 ? -EINVAL : n));
		if (n < 0)
			continue;
		CHECK(memcmp(out, want, (size_t)n) == 0);
		CHECK(url_decodes_to(in, m, span_of(want, (size_t)n)));
		CHECK(url_decode(in, m, out, (size_t)n) == n);
		if (n > 0) {
			CHECK(url_decode(in, m, out, (size_t)n - 1) == -ENOBUFS);
			CHECK(!url_decodes_to(in, m, span_of(want, (size_t)n - 1)));
			want[n - 1] = (char)(want[n - 1] ^ 1);
			CHECK(!url_decodes_to(in, m, span_of(want, (size_t)n)));
			want[n - 1] = (char)(want[n - 1] ^ 1);
		}
		CHECK(url_decode(span_of(same, in.len), m, same, in.len) == n);
		CHECK(memcmp(same, want, (size_t)n) == 0);
	}
}

static void check_encode(struct span in)
{
	autofree char *coded = malloc(3 * in.len + 1), *plain = malloc(in.len + 1);
	bool has_nul = in.len > 0 && memchr(in.p, '\0', in.len) != NULL;
	ptrdiff_t n;

	CHECK(coded != NULL && plain != NULL);
	for (int keep = URL_KEEP_UNRESERVED; keep <= URL_KEEP_PATH; keep++) {
		enum url_mode mode = keep == URL_KEEP_PATH ? URL_PATH : URL_QUERY;

		n = url_encode(in, (enum url_keep)keep, coded, 3 * in.len);
		CHECK(n >= (ptrdiff_t)in.len);
		CHECK(url_encode(in, (enum url_keep)keep, coded, (size_t)n) == n);
		CHECK(n == 0 ||
		      url_encode(in, (enum url_keep)keep, coded, (size_t)n - 1) == -ENOBUFS);
		/* the last call may have cut it */
		CHECK(url_encode(in, (enum url_keep)keep, coded, (size_t)n) == n);
		CHECK(url_decode(span_of(coded, (size_t)n), mode, plain, in.len) ==
		      (has_nul ? -EINVAL : (ptrdiff_t)in.len));
		CHECK(has_nul || memcmp(plain, in.p, in.len) == 0);
	}
}

static void check_query(struct span in)
{
	struct span rest = in, key, value;
	size_t pairs = 0, parts = 0;
	const char *at = in.p;

	while (url_query_next(&rest, &key, &value)) {
		struct span found;
		char name[32];
		ptrdiff_t n;

		CHECK(check_within(key, in.p, in.len) && key.p >= at);
		CHECK(value.p == NULL || (value.p == key.p + key.len + 1 && value.p[-1] == '=' &&
					  check_within(value, in.p, in.len)));
		at = value.p != NULL ? value.p + value.len : key.p + key.len;
		CHECK(at == in.p + in.len || *at == '&');
		CHECK(span_find(key, '&') < 0 && span_find(key, '=') < 0);
		CHECK(value.p == NULL || span_find(value, '&') < 0);
		pairs++;
		/* a name that decodes is found, here or earlier */
		n = url_decode(key, URL_QUERY, name, sizeof(name) - 1);
		if (n < 0)
			continue;
		name[n] = '\0';
		CHECK(url_query_find(in, name, &found));
		CHECK(found.p == NULL || found.p <= at);
	}
	for (rest = in; rest.p != NULL;)
		parts += span_cut(&rest, '&').len > 0;
	CHECK(pairs == parts);
}

/* Decode first, then look: the slow way that must give the same answer. */
static bool model_plain(struct span raw)
{
	autofree char *out = malloc(raw.len + 1);
	struct span rest;
	ptrdiff_t n;
	size_t slashes = 0;

	CHECK(out != NULL);
	n = model_decode(raw, false, out);
	if (n <= 0 || raw.p[0] != '/')
		return false;
	for (size_t i = 0; i < raw.len; i++)
		slashes += raw.p[i] == '/';
	for (ptrdiff_t i = 0; i < n; i++) {
		if (out[i] == '\\')
			return false;
		slashes -= out[i] == '/';
	}
	if (slashes != 0)
		return false;
	for (rest = span_of(out + 1, (size_t)n - 1); rest.p != NULL;) {
		struct span segment = span_cut(&rest, '/');

		if (span_is(segment, ".") || span_is(segment, ".."))
			return false;
		if (segment.len == 0 && rest.p != NULL)
			return false;
	}
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *buf = NULL;
	struct span in;

	if (size > 4096)
		return 0;
	buf = check_copy(data, size);
	in = span_of(buf, size);
	check_split(in);
	check_authority(in);
	check_decode(in);
	check_encode(in);
	check_query(in);
	CHECK(url_path_is_plain(in) == model_plain(in));
	return 0;
}
