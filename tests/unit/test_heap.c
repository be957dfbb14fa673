/* The heap against a model: whatever is done to it, the smallest key is on top. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/heap.h"
#include "base/util.h"

static void an_empty_heap_has_no_top(void **state)
{
	struct heap h = { 0 };
	struct heap_entry e = { 0 };

	(void)state;
	assert_null(heap_top(&h));
	heap_remove(&h, &e); /* not in it: nothing happens */
	assert_int_equal(heap_set(&h, &e, 5), 0);
	assert_ptr_equal(heap_top(&h), &e);
	heap_remove(&h, &e);
	heap_remove(&h, &e);
	assert_null(heap_top(&h));
	heap_free(&h);
}

static uint64_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 33;
}

static void check(const struct heap *h, const struct heap_entry *entries, size_t n)
{
	const struct heap_entry *least = NULL, *top = heap_top(h);
	size_t in = 0;

	for (size_t i = 0; i < n; i++) {
		if (!heap_has(&entries[i]))
			continue;
		in++;
		assert_ptr_equal(h->entries[entries[i].place - 1], &entries[i]);
		if (least == NULL || entries[i].key < least->key)
			least = &entries[i];
	}
	assert_int_equal(in, h->n);
	assert_true((top == NULL) == (least == NULL));
	if (least != NULL && top != NULL)
		assert_int_equal(top->key, least->key);
}

static void the_least_is_always_on_top(void **state)
{
	struct heap_entry entries[97] = { 0 };
	struct heap h = { 0 };
	uint64_t seed = 42;

	(void)state;
	for (int turn = 0; turn < 20000; turn++) {
		struct heap_entry *e = &entries[next_random(&seed) % ARRAY_LEN(entries)];

		if (next_random(&seed) % 3 == 0)
			heap_remove(&h, e);
		else
			assert_int_equal(heap_set(&h, e, (int64_t)(next_random(&seed) % 50) - 25),
					 0);
		check(&h, entries, ARRAY_LEN(entries));
	}
	heap_free(&h);
}

static void entries_come_out_in_order(void **state)
{
	struct heap_entry entries[1000] = { 0 };
	struct heap h = { 0 };
	uint64_t seed = 7;
	int64_t last = INT64_MIN;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(entries); i++)
		assert_int_equal(heap_set(&h, &entries[i], (int64_t)next_random(&seed)), 0);
	while (heap_top(&h) != NULL) {
		struct heap_entry *top = heap_top(&h);

		assert_true(top->key >= last);
		last = top->key;
		heap_remove(&h, top);
	}
	heap_free(&h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_heap_has_no_top),
		cmocka_unit_test(the_least_is_always_on_top),
		cmocka_unit_test(entries_come_out_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
