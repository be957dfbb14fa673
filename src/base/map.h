/* Hash map from byte strings to pointers; keys are copied. Seeded SipHash, so that keys chosen by a
 * client cannot pile up in one bucket. */
#ifndef OSB_BASE_MAP_H
#define OSB_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

struct map_node;

struct map {
	struct map_node **buckets;
	size_t n_buckets; /* power of two, or 0 */
	size_t count;
	uint64_t seed[2];
};

void map_init(struct map *m);
void map_free(struct map *m); /* the values are the caller's */

void *map_get(const struct map *m, struct span key);
/* Insert or replace; *ret_old (may be NULL) gets the former value. 0 or -ENOMEM. */
int map_put(struct map *m, struct span key, void *value, void **ret_old);
void *map_remove(struct map *m, struct span key); /* the value, or NULL */

/* Walk in no particular order. Start with an empty cursor; the entry just seen may be removed. */
struct map_cursor {
	size_t bucket;
	struct map_node *next;
};
void *map_next(const struct map *m, struct map_cursor *c, struct span *ret_key);

#endif
