/* Which ids /etc/subuid gives to whom. */
#include "sandbox/subid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/util.h"

static void finds(const char *text, const char *name, uint32_t uid, uint32_t first, uint32_t count)
{
	struct subid_range r = { 1, 1 };
	bool found = subid_find(span_str(text), name, uid, &r);

	assert_int_equal(found, count != 0);
	if (count == 0) { /* nothing is written then */
		assert_int_equal(r.first, 1);
		assert_int_equal(r.count, 1);
		return;
	}
	assert_int_equal(r.first, first);
	assert_int_equal(r.count, count);
}

static void by_name_and_number(void **state UNUSED)
{
	const char *text = "root:50000:10\nann:100000:65536\n1001:200000:65536\nann2:300000:5\n";

	finds(text, "ann", 1000, 100000, 65536);
	finds(text, "ben", 1001, 200000, 65536);
	finds(text, NULL, 1001, 200000, 65536);
	finds(text, "an", 1002, 0, 0);
	finds(text, NULL, 1002, 0, 0);
	finds("ann:100000:65536", "ann", 1, 100000, 65536); /* no newline at the end */
	finds("", "ann", 1, 0, 0);
}

static void the_largest_of_several(void **state UNUSED)
{
	finds("ann:100000:10\nann:200000:1000\n7:300000:500\n", "ann", 7, 200000, 1000);
	finds("ann:100000:10\nann:200000:10\n", "ann", 7, 100000, 10);
}

static void what_makes_no_sense_is_passed_over(void **state UNUSED)
{
	static const char *const bad[] = {
		"ann\n",
		"ann:\n",
		"ann:100000\n",
		"ann:100000:\n",
		"ann:x:65536\n",
		"ann:100000:-1\n",
		"ann:0:65536\n", /* the host's root */
		"ann:100000:0\n",
		"ann:4294967295:1\n",
		"ann:4294967290:10\n",
		"ann:99999999999999999999:1\n",
		"#ann:100000:65536\n",
		"ann:100000:65536:1\n",
		":100000:65536\n",
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		finds(bad[i], "ann", 7, 0, 0);
	finds("ann:0:65536\nann:5:6\n", "ann", 7, 5, 6);
	finds("ann:4294967290:5\n", "ann", 7, 4294967290u, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_name_and_number),
		cmocka_unit_test(the_largest_of_several),
		cmocka_unit_test(what_makes_no_sense_is_passed_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
