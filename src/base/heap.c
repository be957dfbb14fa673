#include "base/heap.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

static void put(struct heap *h, size_t at, struct heap_entry *entry)
{
	h->entries[at] = entry;
	entry->place = at + 1;
}

static void up(struct heap *h, size_t at)
{
	struct heap_entry *entry = h->entries[at];

	while (at > 0 && h->entries[(at - 1) / 2]->key > entry->key) {
		put(h, at, h->entries[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	put(h, at, entry);
}

static void down(struct heap *h, size_t at)
{
	struct heap_entry *entry = h->entries[at];

	for (;;) {
		size_t child = at * 2 + 1;

		if (child + 1 < h->n && h->entries[child + 1]->key < h->entries[child]->key)
			child++;
		if (child >= h->n || h->entries[child]->key >= entry->key)
			break;
		put(h, at, h->entries[child]);
		at = child;
	}
	put(h, at, entry);
}

int heap_reserve(struct heap *h, size_t n)
{
	size_t cap = MAX(MAX(h->cap * 2, n), (size_t)16);
	struct heap_entry **entries;

	if (n <= h->cap)
		return 0;
	entries = reallocarray(h->entries, cap, sizeof(struct heap_entry *));
	if (entries == NULL)
		return -ENOMEM;
	h->entries = entries;
	h->cap = cap;
	return 0;
}

int heap_set(struct heap *h, struct heap_entry *entry, int64_t key)
{
	if (!heap_has(entry)) {
		if (heap_reserve(h, h->n + 1) < 0)
			return -ENOMEM;
		put(h, h->n++, entry);
	}
	entry->key = key;
	up(h, entry->place - 1);
	down(h, entry->place - 1);
	return 0;
}

void heap_remove(struct heap *h, struct heap_entry *entry)
{
	size_t at = entry->place;
	struct heap_entry *last;

	if (at-- == 0)
		return;
	entry->place = 0;
	last = h->entries[--h->n];
	if (last == entry)
		return;
	put(h, at, last);
	up(h, at);
	down(h, last->place - 1);
}

void heap_free(struct heap *h)
{
	free(h->entries);
	*h = (struct heap){ 0 };
}
