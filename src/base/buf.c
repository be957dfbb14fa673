#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_free(struct buf *b)
{
	if (b == NULL)
		return;
	free(b->data);
	*b = BUF_INIT(b->max);
}

int buf_reserve(struct buf *b, size_t more)
{
	size_t want, cap;
	char *p;

	if (b->failed)
		return buf_error(b);
	if (more <= b->cap - b->len)
		return 0;
	if (__builtin_add_overflow(b->len, more, &want) || want > b->max) {
		b->failed = true;
		return -EMSGSIZE;
	}
	cap = MAX(b->cap * 2, (size_t)128);
	cap = MIN(MAX(cap, want), b->max);
	p = realloc(b->data, cap);
	if (p == NULL) {
		b->failed = b->starved = true;
		return -ENOMEM;
	}
	b->data = p;
	b->cap = cap;
	return 0;
}

int buf_add(struct buf *b, const void *p, size_t len)
{
	int r = buf_reserve(b, len);

	if (r < 0)
		return r;
	if (len > 0)
		memcpy(b->data + b->len, p, len);
	b->len += len;
	return 0;
}

int buf_add_span(struct buf *b, struct span s)
{
	return buf_add(b, s.p, s.len);
}

int buf_add_str(struct buf *b, const char *s)
{
	return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
	return buf_add(b, &c, 1);
}

int buf_add_u64(struct buf *b, unsigned long long v)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v > 0);
	return buf_add(b, digits + at, sizeof(digits) - at);
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int n, r;

	va_copy(again, ap);
	n = vsnprintf(NULL, 0, fmt, again);
	va_end(again);
	if (n < 0) {
		b->failed = true;
		return -EINVAL;
	}
	r = buf_reserve(b, (size_t)n + 1);
	if (r < 0)
		return r;
	(void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	b->len += (size_t)n;
	return 0;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	n = MIN(n, b->len);
	if (n > 0 && n < b->len)
		memmove(b->data, b->data + n, b->len - n);
	b->len -= n;
}

const char *buf_cstr(struct buf *b)
{
	if (buf_reserve(b, 1) < 0)
		return NULL;
	b->data[b->len] = '\0';
	return b->data;
}

char *buf_take(struct buf *b, size_t *ret_len)
{
	char *p;

	if (b->failed || buf_cstr(b) == NULL)
		return NULL;
	p = b->data;
	if (ret_len != NULL)
		*ret_len = b->len;
	*b = BUF_INIT(b->max);
	return p;
}
