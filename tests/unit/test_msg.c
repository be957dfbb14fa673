/* Messages between server and runner: what passes the checks. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/msg.h"

static struct msg_create good(void)
{
	struct msg_create m = {
		.head = { MSG_CREATE, sizeof(m), 7 },
		.id = "a-1",
		.hostname = "host",
		.rootfs = MSG_ROOTFS_HOST,
	};

	return m;
}

static void sizes_and_descriptors(void **state)
{
	struct msg_create m = good();
	struct msg_plain list = { .head = { MSG_LIST, sizeof(list), 1 } };

	(void)state;
	assert_true(msg_is_request(&m, sizeof(m), 2));
	assert_true(msg_is_request(&m, sizeof(m), 3));
	assert_false(msg_is_request(&m, sizeof(m), 1));
	assert_false(msg_is_request(&m, sizeof(m), 4));
	assert_false(msg_is_request(&m, sizeof(m) - 1, 2));
	m.head.size--;
	assert_false(msg_is_request(&m, sizeof(m), 2));
	assert_true(msg_is_request(&list, sizeof(list), 0));
	assert_false(msg_is_request(&list, sizeof(list), 1));
	for (uint32_t type = 0; type < 64; type++) {
		list.head.type = type;
		assert_int_equal(msg_is_request(&list, sizeof(list), 0),
				 type == MSG_LIST || type == MSG_SWEEP);
	}
	for (size_t len = 0; len < sizeof(list); len++)
		assert_false(msg_is_request(&list, len, 0));
}

static void answers(void **state)
{
	struct msg_event ev = { .head = { MSG_EVENT, sizeof(ev), 0 } };
	struct msg_reply r = { .head = { MSG_DIAL, sizeof(r), 1 } };

	(void)state;
	assert_true(msg_is_answer(&ev, sizeof(ev), 0));
	assert_false(msg_is_request(&ev, sizeof(ev), 0));
	assert_true(msg_is_answer(&r, sizeof(r), 0));
	assert_true(msg_is_answer(&r, sizeof(r), 1));
	assert_false(msg_is_answer(&r, sizeof(r), 2));
	r.head.type = MSG_DELETE;
	assert_false(msg_is_answer(&r, sizeof(r), 1));
}

static void ids(void **state)
{
	static const char *const fine[] = { "a", "0", "a-b-c", "0123456789abcdef" };
	static const char *const bad[] = { "",   "-a",  "A",   "a.b",     "a/b",
					   "..", "a b", "a_b", "\xc3\xa9" };
	char id[MSG_ID_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
		memset(id, 0, sizeof(id));
		(void)snprintf(id, sizeof(id), "%s", fine[i]);
		assert_true(msg_id_ok(id));
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memset(id, 0, sizeof(id));
		(void)snprintf(id, sizeof(id), "%s", bad[i]);
		assert_false(msg_id_ok(id));
	}
	memset(id, 'a', sizeof(id));
	assert_false(msg_id_ok(id)); /* no end */
	id[MSG_ID_SIZE - 1] = '\0';
	assert_true(msg_id_ok(id));
	memset(id, 0, sizeof(id));
	id[0] = 'a';
	id[5] = 'x'; /* something behind the end */
	assert_false(msg_id_ok(id));
}

static struct msg_create sized(uint32_t source, uint64_t bytes)
{
	struct msg_create m = good();

	m.n_volumes = 1;
	m.volumes[0] = (struct msg_volume){
		.source = source,
		.size_bytes = bytes,
		.target = "/data",
	};
	(void)snprintf(m.volumes[0].from, MSG_PATH_SIZE, "%s",
		       source == MSG_FROM_HOST ? "/srv" : "data");
	return m;
}

static void create_fields(void **state)
{
	struct msg_create m = good();

	(void)state;
	assert_int_equal(msg_check_create(&m, NULL), 0);
#define BAD(change)                                                    \
	do {                                                           \
		m = good();                                            \
		change;                                                \
		assert_int_equal(msg_check_create(&m, NULL), -EINVAL); \
	} while (0)
	BAD(m.id[0] = '/');
	BAD(m.hostname[0] = '\0');
	BAD(m.flags = 1u << 20);
	BAD(m.rootfs = 0);
	BAD(m.rootfs = 4);
	BAD(m.n_layers = 1);
	BAD(m.rootfs = MSG_ROOTFS_LAYERS);
	BAD((m.rootfs = MSG_ROOTFS_LAYERS, m.n_layers = 1));
	BAD((m.rootfs = MSG_ROOTFS_LAYERS, m.n_layers = MSG_MAX_LAYERS + 1));
	BAD((m.rootfs = MSG_ROOTFS_LAYERS, m.n_layers = 1, memcpy(m.layers[0], "../x", 5)));
	BAD((m.rootfs = MSG_ROOTFS_LAYERS, m.n_layers = 1, memcpy(m.layers[0], ".x", 3)));
	BAD((m.rootfs = MSG_ROOTFS_DIR));
	BAD((m.rootfs = MSG_ROOTFS_DIR, memcpy(m.dir, "/a/../b", 8)));
	BAD((m.rootfs = MSG_ROOTFS_DIR, memset(m.dir, 'a', sizeof(m.dir)), m.dir[0] = '/'));
	BAD(m.limits.memory_bytes = 4096);
	BAD(m.limits.memory_bytes = UINT64_MAX);
	BAD(m.limits.swap_bytes = 4096);
	BAD(m.limits.disk_bytes = 1);
	BAD(m.limits.cpu_milli = 1);
	BAD(m.limits.pids = 1);
	BAD(m.limits.nofile = 1);
	BAD(m.limits.reserved = 1);
	BAD(m.n_volumes = 1);
	BAD(m.n_volumes = MSG_MAX_VOLUMES + 1);
	BAD(m = sized(MSG_FROM_STORE, 4096));
	BAD(m = sized(MSG_FROM_STORE, UINT64_MAX));
	BAD(m = sized(MSG_FROM_HOST, MIB(16)));
	BAD((m = sized(MSG_FROM_STORE, MIB(16)), m.volumes[0].size_exact = 2));
	BAD((m = sized(MSG_FROM_STORE, MIB(16)), m.volumes[0].reserved = 1));
#undef BAD
}

static int volume(uint32_t source, const char *from, const char *target)
{
	struct msg_create m = good();

	m.n_volumes = 1;
	m.volumes[0].source = source;
	(void)snprintf(m.volumes[0].from, sizeof(m.volumes[0].from), "%s", from);
	(void)snprintf(m.volumes[0].target, sizeof(m.volumes[0].target), "%s", target);
	return msg_check_create(&m, NULL);
}

static void volumes(void **state)
{
	static const char *const targets[] = { "",          "x",    "/",        "/proc",
					       "/proc/sys", "/sys", "/dev/shm", "/a/..",
					       "/a/./b",    "//a",  "/a/" };
	static const char *const parts[] = { "",     "/",     "/a",      "a/",   "a/..", "a/../b",
					     "a//b", "a/./b", "../data", ".a/b", "..",   "a/b/." };

	(void)state;
	assert_int_equal(volume(MSG_FROM_STORE, "data", "/data"), 0);
	assert_int_equal(volume(MSG_FROM_STORE, "data", "/processes/x"), 0);
	assert_int_equal(volume(MSG_FROM_HOST, "/srv/x", "/data"), 0);
	assert_int_equal(volume(MSG_FROM_HOST, "srv/x", "/data"), -EINVAL);
	assert_int_equal(volume(MSG_FROM_HOST, "/srv/../etc", "/data"), -EINVAL);
	assert_int_equal(volume(MSG_FROM_STORE, "../data", "/data"), -EINVAL);
	assert_int_equal(volume(MSG_FROM_STORE, "data/a/.b", "/data"), 0);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		assert_int_equal(volume(MSG_FROM_STORE, parts[i], "/data"), -EINVAL);
	assert_int_equal(volume(0, "data", "/data"), -EINVAL);
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		assert_int_equal(volume(MSG_FROM_STORE, "data", targets[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_and_descriptors),
		cmocka_unit_test(answers),
		cmocka_unit_test(ids),
		cmocka_unit_test(create_fields),
		cmocka_unit_test(volumes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
