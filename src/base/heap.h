/* Binary heap of things that are due at some time, the earliest on top. Intrusive: an entry knows
 * its place, so that moving or removing it costs the height of the heap. */
#ifndef OSB_BASE_HEAP_H
#define OSB_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_entry {
	int64_t key;
	size_t place; /* index + 1 in the heap; 0: not in it */
};

struct heap {
	struct heap_entry **entries;
	size_t n, cap;
};

static inline bool heap_has(const struct heap_entry *entry)
{
	return entry->place != 0;
}

static inline struct heap_entry *heap_top(const struct heap *h)
{
	return h->n > 0 ? h->entries[0] : NULL;
}

/* Make room for n entries in all: up to there heap_set does not fail. 0 or -ENOMEM. */
int heap_reserve(struct heap *h, size_t n);
/* Insert it, or move it to its new key. 0 or -ENOMEM (only when it was not in the heap). */
int heap_set(struct heap *h, struct heap_entry *entry, int64_t key);
void heap_remove(struct heap *h, struct heap_entry *entry); /* safe to call twice */
void heap_free(struct heap *h);                             /* the entries are the caller's */

#endif
