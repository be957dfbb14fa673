/* Memory that goes all at once: one arena hangs off each request.
 *
 * Allocation is a pointer bump; nothing is freed singly. The total is bounded at birth, and a
 * failed allocation returns NULL like malloc. */
#ifndef OSB_BASE_ARENA_H
#define OSB_BASE_ARENA_H

#include <stddef.h>

#include "base/span.h"
#include "base/util.h"

struct arena_block;

struct arena {
	struct arena_block *blocks; /* newest first */
	size_t used, cap;           /* of the newest */
	size_t total, max;
	bool starved; /* an allocation failed for want of memory, not by the maximum */
};

#define ARENA_INIT(max_len)      \
	(struct arena)           \
	{                        \
		.max = (max_len) \
	}

void *arena_alloc(struct arena *a, size_t size); /* aligned for any type, not cleared */
void *arena_zalloc(struct arena *a, size_t size);
char *arena_dup(struct arena *a, struct span s); /* with a NUL behind it */
char *arena_strdup(struct arena *a, const char *s);
char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF(2, 3);
void arena_free(struct arena *a);
AUTO_DEFINE(arena_free, struct arena)

#endif
