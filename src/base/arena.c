#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_MIN 1008 /* with the header one malloc size class of 1 KiB */
#define ALIGN     _Alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	max_align_t data[];
};

static int add_block(struct arena *a, size_t size)
{
	size_t cap = MAX(size, (size_t)BLOCK_MIN);
	struct arena_block *b;
	size_t whole;

	if (size > a->max - MIN(a->total, a->max))
		return -ENOMEM;
	if (__builtin_add_overflow(sizeof(*b), cap, &whole))
		return -ENOMEM;
	b = malloc(whole);
	if (b == NULL) {
		a->starved = true;
		return -ENOMEM;
	}
	b->next = a->blocks;
	a->blocks = b;
	a->used = 0;
	a->cap = cap;
	a->total += cap;
	return 0;
}

void *arena_alloc(struct arena *a, size_t size)
{
	size_t rounded;
	void *p;

	if (__builtin_add_overflow(size, ALIGN - 1, &rounded))
		return NULL;
	rounded &= ~(ALIGN - 1);
	if ((a->blocks == NULL || rounded > a->cap - a->used) && add_block(a, rounded) < 0)
		return NULL;
	p = (char *)a->blocks->data + a->used;
	a->used += rounded;
	return p;
}

void *arena_zalloc(struct arena *a, size_t size)
{
	void *p = arena_alloc(a, size);

	if (p != NULL)
		memset(p, 0, size);
	return p;
}

char *arena_dup(struct arena *a, struct span s)
{
	char *p = s.len < SIZE_MAX ? arena_alloc(a, s.len + 1) : NULL;

	if (p == NULL)
		return NULL;
	if (s.len > 0)
		memcpy(p, s.p, s.len);
	p[s.len] = '\0';
	return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
	return arena_dup(a, span_str(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap;
	char *p;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return NULL;
	p = arena_alloc(a, (size_t)n + 1);
	if (p == NULL)
		return NULL;
	va_start(ap, fmt);
	(void)vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	return p;
}

void arena_free(struct arena *a)
{
	if (a == NULL)
		return;
	for (struct arena_block *b = a->blocks, *next; b != NULL; b = next) {
		next = b->next;
		free(b);
	}
	*a = ARENA_INIT(a->max);
}
