/* Intrusive doubly linked list. A node not in a list points at itself. */
#ifndef OSB_BASE_LIST_H
#define OSB_BASE_LIST_H

#include <stdbool.h>

#include "base/util.h"

struct list {
	struct list *next, *prev;
};

#define LIST_INIT(name)          \
	{                        \
		&(name), &(name) \
	}

static inline void list_init(struct list *l)
{
	l->next = l->prev = l;
}

static inline bool list_empty(const struct list *l)
{
	return l->next == l;
}

static inline void list_add_between(struct list *n, struct list *prev, struct list *next)
{
	n->prev = prev;
	n->next = next;
	prev->next = n;
	next->prev = n;
}

static inline void list_push_back(struct list *head, struct list *n)
{
	list_add_between(n, head->prev, head);
}

static inline void list_push_front(struct list *head, struct list *n)
{
	list_add_between(n, head, head->next);
}

/* Safe to call twice. */
static inline void list_remove(struct list *n)
{
	n->prev->next = n->next;
	n->next->prev = n->prev;
	list_init(n);
}

#define LIST_ENTRY(node, type, member) CONTAINER_OF(node, type, member)

#define LIST_FIRST(head, type, member) \
	(list_empty(head) ? NULL : LIST_ENTRY((head)->next, type, member))

/* The body may remove `it` in the _safe form. */
#define list_for_each(it, head) for (struct list *it = (head)->next; it != (head); it = it->next)
#define list_for_each_safe(it, head)                                              \
	for (struct list *it = (head)->next, *it##_next = it->next; it != (head); \
	     it = it##_next, it##_next = it->next)

#endif
