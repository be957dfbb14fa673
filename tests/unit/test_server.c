/* Parts of the server that need no sandbox: states, settings, requests' odd corners, times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "server/config.h"
#include "server/gateway.h"
#include "server/images.h"
#include "server/manager.h"
#include "server/metrics.h"
#include "server/request.h"
#include "server/ttl.h"

static void states_are_named_and_found(void **state)
{
	enum sandbox_state s;

	(void)state;
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
		assert_true(sandbox_state_parse(span_str(sandbox_state_name((enum sandbox_state)i)),
						&s));
		assert_int_equal(s, i);
	}
	assert_true(sandbox_state_parse(SPAN_LIT("rUNNING"), &s));
	assert_int_equal(s, SANDBOX_RUNNING);
	assert_false(sandbox_state_parse(SPAN_LIT(""), &s));
	assert_false(sandbox_state_parse(SPAN_LIT("Running "), &s));
}

static void causes_end_in_a_final_state_and_are_found_again(void **state)
{
	(void)state;
	for (unsigned i = 1; i < CAUSE_COUNT; i++) {
		enum sandbox_cause c = (enum sandbox_cause)i;
		enum sandbox_state s = sandbox_final_state(c);

		assert_true(s == SANDBOX_TERMINATED || s == SANDBOX_FAILED);
		assert_int_equal(sandbox_cause_of(sandbox_reason(c)), c);
		assert_true(sandbox_message(c)[0] != '\0');
	}
	assert_int_equal(sandbox_cause_of("running"), CAUSE_NONE);
	assert_int_equal(sandbox_cause_of(NULL), CAUSE_NONE);
}

static void a_record_without_sense_is_refused(void **state)
{
	struct record rec = { 0 };
	struct sandbox *sb = NULL;

	(void)state;
	assert_int_equal(sandbox_new(NULL, &rec, &sb, NULL), -EINVAL);
	rec.id = strdup("x");
	rec.state = strdup("Dancing");
	rec.token = strdup("t");
	rec.entrypoint = strdup("[]");
	rec.metadata = strdup("{");
	assert_int_equal(sandbox_new(NULL, &rec, &sb, NULL), -EINVAL);
	free(rec.state);
	rec.state = strdup("Running");
	assert_true(sandbox_new(NULL, &rec, &sb, NULL) < 0); /* the metadata */
	record_clear(&rec);
	assert_null(sb);
}

static void image_patterns(void **state)
{
	(void)state;
	assert_true(images_matches("a:1", "a:1"));
	assert_false(images_matches("a:1", "a:12"));
	assert_true(images_matches("a:*", "a:12"));
	assert_true(images_matches("*", "anything"));
	assert_true(images_matches("a*", "a"));
	assert_false(images_matches("a:*", "b:1"));
	assert_false(images_matches("", "a"));
	assert_false(images_matches("a*b", "axb")); /* only at the end */
}

static void gateway_paths(void **state)
{
	static const char *const good[] = {
		"/sandboxes/x/proxy/80",        "/sandboxes/x/proxy/80/",
		"/v1/sandboxes/x/proxy/80/a/b", "/sandboxes/x/proxy/80//",
		"/sandboxes/%2e/proxy/0/",      "/sandboxes/x/proxy/99999",
	};
	static const char *const bad[] = {
		"",
		"/",
		"/sandboxes",
		"/sandboxes/",
		"/sandboxes//proxy/80",
		"/sandboxes/x/proxy/",
		"/sandboxes/x/proxy/80x",
		"/sandboxes/x/proxy/x80",
		"/sandboxes/x/y/proxy/80",
		"/v2/sandboxes/x/proxy/80",
		"/v1sandboxes/x/proxy/80",
		"/sandboxes/x/proxy/-1",
		"/sandboxes/x/proxy/99999999999999999999999",
		"/SANDBOXES/x/proxy/80",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		if (!gateway_is_path(span_str(good[i])))
			fail_msg("'%s' was not taken", good[i]);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (gateway_is_path(span_str(bad[i])))
			fail_msg("'%s' was taken", bad[i]);
}

static void queries_are_read_with_patience(void **state)
{
	int64_t n = 0;
	bool flag = false;

	(void)state;
	assert_true(request_number(SPAN_LIT(" +007.0 "), 1, 10, &n));
	assert_int_equal(n, 7);
	assert_false(request_number(SPAN_LIT("11"), 1, 10, &n));
	assert_false(request_number(SPAN_LIT("1.5"), 1, 10, &n));
	assert_false(request_number(SPAN_LIT(""), 0, 10, &n));
	assert_false(request_number(SPAN_LIT(".0"), 0, 10, &n));
	assert_true(request_flag(SPAN_LIT("YES"), &flag));
	assert_true(flag);
	assert_true(request_flag(SPAN_LIT("f"), &flag));
	assert_false(flag);
	assert_false(request_flag(SPAN_LIT("perhaps"), &flag));
}

static void members_in_either_spelling(void **state)
{
	AUTO(json_decref) json_t *v = NULL;

	(void)state;
	assert_int_equal(json_parse(SPAN_LIT("{\"mount_path\":\"a\",\"subPath\":\"b\",\"x\":null}"),
				    &json_default_limits, &v, NULL),
			 0);
	assert_string_equal(json_string_value(request_member(v, "mountPath")), "a");
	assert_string_equal(json_string_value(request_member(v, "subPath")), "b");
	assert_null(request_member(v, "x"));
	assert_null(request_member(v, "absent"));
}

static void examples_are_read_back_as_the_defaults(void **state)
{
	struct config defaults, read;
	struct buf out = BUF_INIT(MIB(1));
	char path[] = "/tmp/osb-config-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(config_init(&defaults, NULL), 0);
	assert_int_equal(config_init(&read, NULL), 0);
	assert_int_equal(config_example("native", &out), 0);
	assert_int_equal(write(fd, out.data, out.len), (ssize_t)out.len);
	(void)close(fd);
	assert_int_equal(config_load(&read, path, NULL), 0);
	assert_string_equal(read.host, defaults.host);
	assert_string_equal(read.runtime, "native");
	assert_int_equal(read.port, defaults.port);
	buf_clear(&out);
	assert_true(config_example("nothing", &out) < 0);
	buf_free(&out);
	config_free(&defaults);
	config_free(&read);
	(void)unlink(path);
}

static void settings_are_checked(void **state)
{
	struct config c;

	(void)state;
	assert_int_equal(config_init(&c, NULL), 0);
	assert_int_equal(config_set(&c, "server.port", "99999", NULL), -EINVAL);
	assert_int_equal(config_set(&c, "server.port", "eighty", NULL), -EINVAL);
	assert_int_equal(config_set(&c, "server.kill_on_exit", "perhaps", NULL), -EINVAL);
	assert_int_equal(config_set(&c, "no.such", "1", NULL), -EINVAL);
	assert_int_equal(config_set(&c, "storage.allowed_host_paths", "/a,/b c", NULL), 0);
	assert_int_equal(c.allowed_host_paths.n, 2);
	assert_string_equal(c.allowed_host_paths.items[1], "/b c");
	assert_int_equal(config_set(&c, "storage.allowed_host_paths", "/a,/a/../b", NULL), -EINVAL);
	assert_int_equal(c.allowed_host_paths.n, 2); /* as it was */
	assert_int_equal(config_set(&c, "network.dns", "192.0.2.1,::1,192.0.2.3", NULL), 0);
	assert_int_equal(config_set(&c, "network.dns", "::1,::1,::1,::1", NULL), -EINVAL);
	assert_int_equal(config_set(&c, "storage.allowed_host_paths", "", NULL), 0);
	assert_int_equal(c.allowed_host_paths.n, 0);
	assert_int_equal(config_set(&c, "runtime.type", "docker", NULL), 0);
	assert_int_equal(config_finish(&c, NULL), -ENOTSUP);
	config_free(&c);
}

static void histograms_count_up_to_all(void **state)
{
	struct histogram h = { 0 };
	struct buf out = BUF_INIT(KIB(16));

	(void)state;
	histogram_add(&h, 0);
	histogram_add(&h, 250);
	histogram_add(&h, 251);
	histogram_add(&h, UINT64_C(60000000));
	histogram_write(&h, "x", "words", &out);
	assert_non_null(buf_cstr(&out));
	assert_non_null(strstr(out.data, "x_bucket{le=\"0.000250\"} 2\n"));
	assert_non_null(strstr(out.data, "x_bucket{le=\"30.000000\"} 3\n"));
	assert_non_null(strstr(out.data, "x_bucket{le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(out.data, "x_count 4\n"));
	assert_non_null(strstr(out.data, "x_sum 60.000501\n"));
	buf_free(&out);
}

/* --- time: entries are due in order, and one that was moved is due then --- */

static struct {
	struct io_loop loop;
	struct ttl ttl;
	int64_t (*now_us)(void);
	struct heap_entry entries[4];
	unsigned order[8];
	unsigned n;
} tt;

static void ttl_gone(struct ttl *t)
{
	(void)t;
}

static void on_due(struct ttl *t, struct heap_entry *entry)
{
	tt.order[tt.n++] = (unsigned)(entry - tt.entries);
	if (entry == &tt.entries[1] && tt.n == 1)
		(void)ttl_set(t, entry, tt.now_us() + 20000); /* once more */
	if (heap_top(&t->heap) == NULL)
		ttl_close(t, ttl_gone);
}

static void due_in_order(enum ttl_clock clock, int64_t (*clock_us)(void))
{
	int64_t now_us = clock_us();

	memset(&tt, 0, sizeof(tt));
	tt.now_us = clock_us;
	assert_int_equal(io_loop_init(&tt.loop, NULL), 0);
	assert_int_equal(ttl_init(&tt.loop, &tt.ttl, clock, on_due, NULL), 0);
	assert_int_equal(ttl_set(&tt.ttl, &tt.entries[0], now_us + 10000), 0);
	assert_int_equal(ttl_set(&tt.ttl, &tt.entries[1], now_us - 5000000), 0); /* overdue */
	assert_int_equal(ttl_set(&tt.ttl, &tt.entries[2], now_us + 3600 * INT64_C(1000000)), 0);
	assert_int_equal(ttl_set(&tt.ttl, &tt.entries[3], now_us + 1), 0);
	ttl_clear(&tt.ttl, &tt.entries[3]);
	assert_int_equal(ttl_set(&tt.ttl, &tt.entries[2], now_us + 5000), 0); /* sooner */
	io_loop_run(&tt.loop);
	assert_int_equal(tt.n, 4);
	assert_int_equal(tt.order[0], 1);
	assert_int_equal(tt.order[1], 2);
	assert_int_equal(tt.order[2], 0);
	assert_int_equal(tt.order[3], 1);
	io_loop_free(&tt.loop);
}

static void what_is_due_comes_in_order(void **state)
{
	(void)state;
	due_in_order(TTL_WALL, clock_wall_us);
	due_in_order(TTL_BOOT, clock_boot_us);
}

/* A record from before lapses were noted, or a life that is set anew: both clocks say the same. */
static void an_end_is_noted_on_both_clocks(void **state)
{
	struct record rec = {
		.id = strdup("x"),
		.state = strdup("Running"),
		.token = strdup("t"),
		.entrypoint = strdup("[]"),
		.metadata = strdup("{}"),
		.expires_us = clock_wall_us() + 60 * INT64_C(1000000),
	};
	struct sandbox *sb;
	int64_t left_us;

	(void)state;
	assert_int_equal(sandbox_new(NULL, &rec, &sb, NULL), 0);
	left_us = sb->rec.lapses_us - clock_boot_us();
	assert_true(left_us > 0 && left_us <= 60 * INT64_C(1000000));
	sandbox_set_expiry(sb, clock_wall_us() + 3600 * INT64_C(1000000));
	left_us = sb->rec.lapses_us - clock_boot_us();
	assert_true(left_us > 60 * INT64_C(1000000) && left_us <= 3600 * INT64_C(1000000));
	sandbox_set_expiry(sb, 0);
	assert_int_equal(sb->rec.lapses_us, 0);
	sandbox_drop(sb);
}

/* --- a manager without a runtime --- */

static struct {
	struct io_loop loop;
	struct store *store;
	struct manager manager;
	struct config config;
	struct io_timer deadline; /* also what keeps the loop going */
	char dir[64], path[96];
} tm;

static void too_late(struct io_timer *timer)
{
	(void)timer;
	fail_msg("nothing happened for too long");
}

static int manager_set_up(void **state)
{
	(void)state;
	memset(&tm, 0, sizeof(tm));
	(void)snprintf(tm.dir, sizeof(tm.dir), "/tmp/osb-manager-XXXXXX");
	if (mkdtemp(tm.dir) == NULL || io_loop_init(&tm.loop, NULL) < 0)
		return -1;
	io_timer_init(&tm.loop, &tm.deadline, too_late);
	(void)snprintf(tm.path, sizeof(tm.path), "%s/db", tm.dir);
	tm.config = (struct config){
		.state_dir = tm.dir,
		.store_path = tm.path,
		.max_ended = 1000,
		.retention_s = 60,
		.create_timeout_s = 60,
	};
	return store_open(&tm.loop, tm.path, &tm.store, NULL);
}

static void store_gone(void *ctx)
{
	(void)ctx;
	tm.store = NULL;
	io_loop_stop(&tm.loop);
}

static void manager_gone(struct manager *m)
{
	(void)m;
	store_close(tm.store, store_gone, NULL);
}

/* manager_close was called. */
static void run_to_the_end(void)
{
	io_timer_start(&tm.deadline, 30000, 0);
	io_loop_run(&tm.loop);
	assert_null(tm.store);
}

static int manager_tear_down(void **state)
{
	static const char *const names[] = { "db", "db-wal", "db-shm", "db.ends" };
	char path[128];

	(void)state;
	ends_close(&tm.manager.ends);
	io_timer_close(&tm.deadline, NULL);
	io_loop_free(&tm.loop);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", tm.dir, names[i]);
		(void)unlink(path);
	}
	(void)snprintf(path, sizeof(path), "%s/volumes", tm.dir);
	(void)rmdir(path);
	return rmdir(tm.dir);
}

/* So many records of this state, STATE-1 and on. */
static void put_records(unsigned n, const char *state, int64_t expires_us, int64_t lapses_us)
{
	char sql[512];

	(void)snprintf(sql, sizeof(sql),
		       "WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT %u)"
		       " INSERT INTO sandboxes SELECT '%s-' || n, '%s', NULL, NULL, 1, n, %lld, 1,"
		       " 0, 'host', '[]', '{}', '{}', '[]', '{}', NULL, NULL, 't', NULL, 'another',"
		       " 0, 0, 0, %lld FROM c",
		       n, state, state, (long long)expires_us, (long long)lapses_us);
	assert_int_equal(db_exec(store_db(tm.store), sql, NULL), 0);
}

static void time_since_another_boot_says_nothing(void **state)
{
	int64_t hour_us = 3600 * INT64_C(1000000);
	const struct sandbox *sb;

	(void)state;
	put_records(1, "Running", clock_wall_us() + hour_us, 1);
	assert_int_equal(manager_init(&tm.loop, &tm.manager, &tm.config, tm.store, NULL), 0);
	sb = manager_find(&tm.manager, SPAN_LIT("Running-1"), false);
	assert_non_null(sb);
	assert_in_range(sb->rec.lapses_us, clock_boot_us(), clock_boot_us() + hour_us);
	assert_int_equal(sb->stored.lapses_us, sb->rec.lapses_us);
	manager_close(&tm.manager, manager_gone);
	run_to_the_end();
}

/* More than are looked at in one go, so that the clock has something to tell when all is freed. */
static void one_that_is_closed_waits_for_nothing(void **state)
{
	(void)state;
	put_records(500, "Terminated", 0, 0);
	put_records(1, "Running", clock_wall_us() + 1000000, 0);
	assert_int_equal(manager_init(&tm.loop, &tm.manager, &tm.config, tm.store, NULL), 0);
	assert_int_equal(tm.manager.n_ended, 500);
	assert_int_equal(tm.manager.n_live, 1);
	manager_close(&tm.manager, manager_gone);
	assert_null(heap_top(&tm.manager.dates.heap));
	assert_null(heap_top(&tm.manager.delays.heap));
	run_to_the_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_named_and_found),
		cmocka_unit_test(causes_end_in_a_final_state_and_are_found_again),
		cmocka_unit_test(a_record_without_sense_is_refused),
		cmocka_unit_test(image_patterns),
		cmocka_unit_test(gateway_paths),
		cmocka_unit_test(queries_are_read_with_patience),
		cmocka_unit_test(members_in_either_spelling),
		cmocka_unit_test(examples_are_read_back_as_the_defaults),
		cmocka_unit_test(settings_are_checked),
		cmocka_unit_test(histograms_count_up_to_all),
		cmocka_unit_test(what_is_due_comes_in_order),
		cmocka_unit_test(an_end_is_noted_on_both_clocks),
		cmocka_unit_test_setup_teardown(time_since_another_boot_says_nothing,
						manager_set_up, manager_tear_down),
		cmocka_unit_test_setup_teardown(one_that_is_closed_waits_for_nothing,
						manager_set_up, manager_tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
