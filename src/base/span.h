/* A piece of somebody else's memory. Never owns, never ends in NUL. */
#ifndef OSB_BASE_SPAN_H
#define OSB_BASE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const char *p;
	size_t len;
};

/* printf("%.*s", SPAN_FMT(s)); callers keep spans they print below INT_MAX */
#define SPAN_FMT(s) (int)(s).len, (s).p

#define SPAN_LIT(lit)            \
	((struct span){          \
		"" lit,          \
		sizeof(lit) - 1, \
	})

static inline struct span span_of(const void *p, size_t len)
{
	return (struct span){ p, len };
}

static inline struct span span_str(const char *s)
{
	return (struct span){ s, s != NULL ? strlen(s) : 0 };
}

static inline bool span_eq(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.p, b.p, a.len) == 0);
}

static inline bool span_is(struct span a, const char *s)
{
	return span_eq(a, span_str(s));
}

static inline struct span span_skip(struct span s, size_t n)
{
	return (struct span){ n > 0 ? s.p + n : s.p, s.len - n }; /* NULL + 0 is undefined */
}

static inline struct span span_first(struct span s, size_t n)
{
	return (struct span){ s.p, n };
}

/* ASCII only, locale has no say */
bool span_caseeq(struct span a, struct span b);
bool span_caseis(struct span a, const char *s);
bool span_starts(struct span s, const char *prefix);
bool span_ends(struct span s, const char *suffix);

/* Spaces and tabs off both ends. */
struct span span_trim(struct span s);

/* Cut *rest at the first `sep`: the part before it is the result, *rest becomes what follows.
 * Without a separator the whole is the result and *rest becomes {NULL, 0}. */
struct span span_cut(struct span *rest, char sep);

/* Position of a byte, or -1. */
ptrdiff_t span_find(struct span s, char c);

/* Digits only, no sign, no blanks, whole span; false on anything else or overflow. */
bool span_u64(struct span s, uint64_t *ret);
bool span_i64(struct span s, int64_t *ret); /* one leading '-' allowed */
bool span_hex_u64(struct span s, uint64_t *ret);

/* A malloc'd NUL-terminated copy; NULL when out of memory or if the span contains a NUL. */
char *span_dup(struct span s);

/* Copy into a fixed buffer with a NUL at the end; false (buffer untouched) if it does not fit. */
bool span_copy(struct span s, char *dst, size_t dst_size);

/* Same time whatever the contents, for secrets. */
bool span_eq_secret(struct span a, struct span b);

#endif
