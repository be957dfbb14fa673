/* A byte buffer that grows up to a limit it was born with.
 *
 * The first failed append is remembered: `buf_failed()` after a run of appends tells, so that
 * writers need not check each one. Contents are then cut, never overrun. */
#ifndef OSB_BASE_BUF_H
#define OSB_BASE_BUF_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"
#include "base/util.h"

struct buf {
	char *data;
	size_t len;
	size_t cap;
	size_t max;
	bool failed;
	bool starved; /* it failed for want of memory, not by its maximum */
};

#define BUF_INIT(max_len)        \
	(struct buf)             \
	{                        \
		.max = (max_len) \
	}

void buf_free(struct buf *b); /* frees the memory; the buffer can be used again */
AUTO_DEFINE(buf_free, struct buf)

static inline void buf_clear(struct buf *b)
{
	b->len = 0;
	b->failed = b->starved = false;
}

static inline bool buf_failed(const struct buf *b)
{
	return b->failed;
}

/* What the first append that failed lacked: 0, -ENOMEM, or -EMSGSIZE (beyond max). */
static inline int buf_error(const struct buf *b)
{
	if (!b->failed)
		return 0;
	return b->starved ? -ENOMEM : -EMSGSIZE;
}

static inline struct span buf_span(const struct buf *b)
{
	return span_of(b->data, b->len);
}

/* Make room for `more` bytes; 0, or -ENOMEM / -EMSGSIZE (beyond max). Fill at data + len. */
int buf_reserve(struct buf *b, size_t more);

int buf_add(struct buf *b, const void *p, size_t len);
int buf_add_span(struct buf *b, struct span s);
int buf_add_str(struct buf *b, const char *s);
int buf_add_char(struct buf *b, char c);
int buf_add_u64(struct buf *b, unsigned long long v);
int buf_printf(struct buf *b, const char *fmt, ...) PRINTF(2, 3);
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) PRINTF(2, 0);

/* Drop n bytes from the front. */
void buf_consume(struct buf *b, size_t n);

/* NUL-terminated view of the contents, or NULL if that byte does not fit. */
const char *buf_cstr(struct buf *b);

/* Give away the memory (malloc'd, NUL-terminated); NULL if the buffer had failed. */
char *buf_take(struct buf *b, size_t *ret_len);

#endif
