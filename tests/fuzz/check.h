/* What the fuzzers share: an assertion that also holds in release builds, pieces of pseudo-random
 * length that depend on the input alone, and copies that end where the bytes end. */
#ifndef OSB_TESTS_FUZZ_CHECK_H
#define OSB_TESTS_FUZZ_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "base/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                        \
	do {                                                                               \
		if (!(cond)) {                                                             \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			abort();                                                           \
		}                                                                          \
	} while (0)

/* FNV-1a over the input: a seed, so that the same input always takes the same path */
static inline uint64_t check_seed(const void *data, size_t size)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < size; i++)
		h = (h ^ p[i]) * 0x100000001b3u;
	return h | 1;
}

static inline uint64_t check_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* A piece of 1 to max bytes (0 if max is 0), short ones more often. */
static inline size_t check_piece(uint64_t *seed, size_t max)
{
	uint64_t r = check_random(seed);
	size_t limit = (r & 3) == 0 ? max : MIN(max, (size_t)(r >> 2 & 7) + 1);

	return limit > 0 ? (size_t)(r >> 8) % limit + 1 : 0;
}

/* A malloc'd copy without a byte to spare, so that ASan sees a step too far. */
static inline char *check_copy(const void *data, size_t size)
{
	char *copy = malloc(MAX(size, (size_t)1));

	CHECK(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

static inline bool check_within(struct span s, const char *buf, size_t len)
{
	return s.p >= buf && s.len <= len && (size_t)(s.p - buf) <= len - s.len;
}

#endif
