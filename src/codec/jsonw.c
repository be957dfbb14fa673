#include "codec/jsonw.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>

#include "base/clock.h"
#include "codec/swar.h"
#include "codec/utf8.h"

static const char hex_digits[] = "0123456789abcdef";

/* ---- strings ----
 *
 * Bytes are copied while they are looked at, sixteen at a time as long as nothing needs care. */

#define STEP 16 /* the most that one step of escape_some() writes */

/* Compilers turn it into SSE2 or NEON. */
typedef uint8_t block __attribute__((vector_size(STEP)));

/* Copy sixteen bytes and tell whether all of them may stand as they are. */
static inline bool copy_plain_block(char *dst, const char *src)
{
	uint64_t half[2];
	block v, hit;

	memcpy(&v, src, sizeof(v));
	memcpy(dst, &v, sizeof(v));
	hit = (block)((v < 0x20) | (v == '"') | (v == '\\') | (v >= 0x80));
	memcpy(half, &hit, sizeof(half));
	return (half[0] | half[1]) == 0;
}

/* Control characters, the quote, the backslash, and everything that is not ASCII. */
static inline uint64_t not_plain(uint64_t w)
{
	return swar_below(w, 0x20) | swar_equal(w, '"') | swar_equal(w, '\\') | (w & SWAR_TOP);
}

static inline bool is_plain(unsigned char c)
{
	return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Length of a character outside ASCII that may stand as it is, if that can be seen at a glance:
 * most of the world's letters. 0 sends it to the careful way. */
static inline size_t plain_char_len(const unsigned char *p, size_t len)
{
	if (p[0] >= 0xc3 && p[0] <= 0xdf)
		return len >= 2 && (p[1] & 0xc0) == 0x80 ? 2 : 0;
	if (p[0] < 0xe1 || p[0] > 0xef || p[0] == 0xed || len < 3)
		return 0;
	if (p[0] == 0xe2 && p[1] == 0x80) /* has U+2028 */
		return 0;
	return (p[1] & 0xc0) == 0x80 && (p[2] & 0xc0) == 0x80 ? 3 : 0;
}

static size_t put_unicode_escape(char *dst, uint32_t cp)
{
	dst[0] = '\\';
	dst[1] = 'u';
	dst[2] = hex_digits[cp >> 12 & 15];
	dst[3] = hex_digits[cp >> 8 & 15];
	dst[4] = hex_digits[cp >> 4 & 15];
	dst[5] = hex_digits[cp & 15];
	return 6;
}

static inline size_t put_ascii_escape(char *dst, unsigned char c)
{
	static const char short_form[128] = {
		['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
		['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
	};

	if (short_form[c] == '\0')
		return put_unicode_escape(dst, c);
	dst[0] = '\\';
	dst[1] = short_form[c];
	return 2;
}

/* A character outside ASCII that needs a closer look; *ret_taken is its length in the source. */
static size_t put_careful(char *dst, struct span s, size_t *ret_taken)
{
	uint32_t cp;
	int n = utf8_decode(s, &cp);

	if (n < 0) {
		memcpy(dst, UTF8_REPLACEMENT, 3);
		*ret_taken = (size_t)-n;
		return 3;
	}
	*ret_taken = (size_t)n;
	/* the line breaks that are not control characters of ASCII */
	if (cp == 0x85 || cp == 0x2028 || cp == 0x2029)
		return put_unicode_escape(dst, cp);
	memcpy(dst, s.p, (size_t)n);
	return (size_t)n;
}

/* Escape into dst, which has room for more than STEP bytes, until the room or *s is used up;
 * returns the bytes written. */
static size_t escape_some(struct span *s, char *dst, size_t room)
{
	const char *src = s->p, *end = s->p + s->len;
	char *start = dst, *last = dst + room - STEP;

	while (src < end && dst <= last) {
		size_t left = (size_t)(end - src), n;
		unsigned char c;

		if (left >= STEP && copy_plain_block(dst, src)) {
			src += STEP;
			dst += STEP;
			continue;
		}
		if (left >= 8) {
			uint64_t w = swar_load(src), hits = not_plain(w);

			memcpy(dst, src, 8);
			n = hits != 0 ? swar_first(hits) : 8;
			src += n;
			dst += n;
			if (hits == 0)
				continue;
		} else if (is_plain((unsigned char)*src)) {
			*dst++ = *src++;
			continue;
		}
		/* whatever comes in a row outside of plain ASCII; up to 7 bytes of the step are
		 * gone, and 6 are needed */
		for (c = (unsigned char)*src; !is_plain(c); c = (unsigned char)*src) {
			left = (size_t)(end - src);
			if (c < 0x80) {
				dst += put_ascii_escape(dst, c);
				src++;
			} else if ((n = plain_char_len((const unsigned char *)src, left)) > 0) {
				for (size_t i = 0; i < n; i++)
					dst[i] = src[i];
				src += n;
				dst += n;
			} else {
				dst += put_careful(dst, span_of(src, left), &n);
				src += n;
			}
			if (src == end || dst > last)
				break;
		}
	}
	*s = span_of(src, (size_t)(end - src));
	return (size_t)(dst - start);
}

void jw_escape(struct buf *out, struct span s)
{
	char small[8 * STEP];
	size_t n;

	while (s.len > 0) {
		/* Nothing gets shorter by escaping (even a replaced subpart has at most three
		 * bytes), so this much is needed in any case. */
		if (s.len + STEP <= out->max - out->len) {
			if (buf_reserve(out, s.len + STEP) < 0)
				return;
			out->len += escape_some(&s, out->data + out->len, out->cap - out->len);
			continue;
		}
		/* close to the buffer's limit: exact to the byte */
		n = escape_some(&s, small, sizeof(small));
		if (buf_add(out, small, n) < 0)
			return;
	}
}

/* Most of them find room and need no call. */
static inline void put_char(struct buf *out, char c)
{
	if (out->failed || out->len == out->cap)
		(void)buf_add_char(out, c);
	else
		out->data[out->len++] = c;
}

/* ---- structure ---- */

static void before_item(struct jw *w)
{
	uint64_t bit = UINT64_C(1) << w->depth;

	if (w->depth > 0 && (w->has_items & bit) != 0)
		put_char(w->out, ',');
	w->has_items |= bit;
}

static void before_value(struct jw *w)
{
	assert(w->after_key == ((w->is_object >> w->depth & 1) != 0)); /* keys in objects only */
	if (w->after_key)
		w->after_key = false;
	else
		before_item(w);
}

static void begin(struct jw *w, bool object)
{
	assert(w->depth < JW_MAX_DEPTH);
	before_value(w);
	put_char(w->out, object ? '{' : '[');
	w->depth++;
	w->has_items &= ~(UINT64_C(1) << w->depth);
	w->is_object &= ~(UINT64_C(1) << w->depth);
	w->is_object |= (uint64_t)object << w->depth;
}

void jw_object(struct jw *w)
{
	begin(w, true);
}

void jw_array(struct jw *w)
{
	begin(w, false);
}

void jw_end(struct jw *w)
{
	assert(w->depth > 0 && !w->after_key);
	put_char(w->out, (w->is_object >> w->depth & 1) != 0 ? '}' : ']');
	w->depth--;
}

bool jw_ok(const struct jw *w)
{
	return w->depth == 0 && !buf_failed(w->out);
}

static void add_quoted(struct buf *out, struct span s)
{
	put_char(out, '"');
	jw_escape(out, s);
	put_char(out, '"');
}

void jw_key_span(struct jw *w, struct span key)
{
	assert((w->is_object >> w->depth & 1) != 0 && !w->after_key);
	before_item(w);
	add_quoted(w->out, key);
	put_char(w->out, ':');
	w->after_key = true;
}

void jw_key(struct jw *w, const char *key)
{
	jw_key_span(w, span_str(key));
}

/* ---- values ---- */

void jw_raw(struct jw *w, struct span json)
{
	before_value(w);
	(void)buf_add_span(w->out, json);
}

void jw_str(struct jw *w, struct span s)
{
	before_value(w);
	add_quoted(w->out, s);
}

void jw_cstr(struct jw *w, const char *s)
{
	if (s != NULL)
		jw_str(w, span_str(s));
	else
		jw_null(w);
}

void jw_i64(struct jw *w, int64_t v)
{
	before_value(w);
	if (v < 0)
		put_char(w->out, '-');
	(void)buf_add_u64(w->out, v < 0 ? 0u - (uint64_t)v : (uint64_t)v);
}

void jw_u64(struct jw *w, uint64_t v)
{
	before_value(w);
	(void)buf_add_u64(w->out, v);
}

void jw_f64(struct jw *w, double v)
{
	char text[40];

	if (!isfinite(v)) { /* JSON has no word for it */
		jw_null(w);
		return;
	}
	for (int digits = 15; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	before_value(w);
	(void)buf_add_str(w->out, text);
	if (strpbrk(text, ".e") == NULL)
		(void)buf_add_str(w->out, ".0"); /* stays a real number for who reads it */
}

void jw_bool(struct jw *w, bool v)
{
	jw_raw(w, v ? SPAN_LIT("true") : SPAN_LIT("false"));
}

void jw_null(struct jw *w)
{
	jw_raw(w, SPAN_LIT("null"));
}

void jw_time(struct jw *w, int64_t wall_us)
{
	char text[CLOCK_RFC3339_SIZE];

	jw_str(w, span_of(text, clock_rfc3339(wall_us, text)));
}

void jw_field_str(struct jw *w, const char *key, struct span s)
{
	jw_key(w, key);
	jw_str(w, s);
}

void jw_field_cstr(struct jw *w, const char *key, const char *s)
{
	jw_key(w, key);
	jw_cstr(w, s);
}

void jw_field_i64(struct jw *w, const char *key, int64_t v)
{
	jw_key(w, key);
	jw_i64(w, v);
}

void jw_field_u64(struct jw *w, const char *key, uint64_t v)
{
	jw_key(w, key);
	jw_u64(w, v);
}

void jw_field_f64(struct jw *w, const char *key, double v)
{
	jw_key(w, key);
	jw_f64(w, v);
}

void jw_field_bool(struct jw *w, const char *key, bool v)
{
	jw_key(w, key);
	jw_bool(w, v);
}

void jw_field_time(struct jw *w, const char *key, int64_t wall_us)
{
	jw_key(w, key);
	jw_time(w, wall_us);
}
