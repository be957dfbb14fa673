/* The store: what was told to be written is there afterwards, in order, and an answer comes
 * after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "store/ends.h"
#include "store/records.h"
#include "store/schema.h"

static struct {
	struct io_loop loop;
	struct store *store;
	char dir[64];
	char path[96];
	struct io_timer deadline; /* also what keeps the loop going */
	unsigned answers, awaited;
	int last_result;
} t;

static void too_late(struct io_timer *timer)
{
	(void)timer;
	fail_msg("nothing happened for too long");
}

static void run_loop(void)
{
	io_timer_start(&t.deadline, 30000, 0);
	io_loop_run(&t.loop);
	io_timer_stop(&t.deadline);
}

/* Until so many answers have come in all. */
static void await(unsigned answers)
{
	t.awaited = answers;
	if (t.answers < answers)
		run_loop();
	assert_int_equal(t.answers, answers);
}

static void count_answer(void)
{
	if (++t.answers == t.awaited)
		io_loop_stop(&t.loop);
}

static int set_up(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	(void)snprintf(t.dir, sizeof(t.dir), "/tmp/osb-store-XXXXXX");
	if (mkdtemp(t.dir) == NULL || io_loop_init(&t.loop, NULL) < 0)
		return -1;
	io_timer_init(&t.loop, &t.deadline, too_late);
	(void)snprintf(t.path, sizeof(t.path), "%s/db", t.dir);
	return store_open(&t.loop, t.path, &t.store, NULL);
}

static void closed(void *ctx)
{
	(void)ctx;
	t.store = NULL;
	io_loop_stop(&t.loop);
}

static void close_store(void)
{
	store_close(t.store, closed, NULL);
	run_loop();
	assert_null(t.store);
}

static void reopen(void)
{
	close_store();
	assert_int_equal(store_open(&t.loop, t.path, &t.store, NULL), 0);
}

static int tear_down(void **state)
{
	static const char *const names[] = { "db", "db-wal", "db-shm" };

	(void)state;
	if (t.store != NULL)
		close_store();
	io_timer_close(&t.deadline, NULL);
	io_loop_free(&t.loop);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char path[128];

		(void)snprintf(path, sizeof(path), "%s/%s", t.dir, names[i]);
		(void)unlink(path);
	}
	return rmdir(t.dir);
}

static char *text(const char *s)
{
	return (char *)(uintptr_t)s;
}

static struct record sample(const char *id, int64_t created_us)
{
	return (struct record){
		.id = text(id),
		.state = text("Pending"),
		.transition_us = created_us,
		.created_us = created_us,
		.expires_us = created_us + 60,
		.lapses_us = created_us + 6,
		.image = text("host"),
		.entrypoint = text("[\"true\"]"),
		.metadata = text("{\"a\":\"b\"}"),
		.limits = text("{}"),
		.volumes = text("[]"),
		.extensions = text("{}"),
		.token = text("secret"),
		.idle_s = 7,
	};
}

static void answered(void *ctx, int result, const char *why)
{
	(void)ctx;
	(void)why;
	t.last_result = result;
	count_answer();
}

struct loaded {
	struct record recs[8];
	unsigned n;
};

static int load_one(void *ctx, struct record *rec, struct err *e)
{
	struct loaded *l = ctx;

	(void)e;
	l->recs[l->n++] = *rec;
	*rec = (struct record){ 0 };
	return 0;
}

static void forget(struct loaded *l)
{
	for (unsigned i = 0; i < l->n; i++)
		record_clear(&l->recs[i]);
	l->n = 0;
}

static void records_survive(void **state)
{
	struct loaded l = { 0 };
	struct record a = sample("b-later", 2000), b = sample("a-sooner", 1000);

	(void)state;
	records_insert(t.store, &a, answered, NULL);
	records_insert(t.store, &b, answered, NULL);
	assert_int_equal(t.answers, 0); /* never from inside */
	assert_int_equal(store_backlog(t.store), 2);
	await(2);
	assert_int_equal(store_backlog(t.store), 0);

	a.state = text("Running");
	a.reason = text("running");
	a.boot_id = text("this one");
	a.hidden = 1;
	records_set_status(t.store, &a, answered, NULL);
	records_set_expiry(t.store, "b-later", 99, 77, answered, NULL);
	records_set_metadata(t.store, "b-later", "{}", answered, NULL);
	reopen(); /* finishes what was submitted */
	assert_int_equal(t.answers, 5);

	assert_int_equal(records_load(t.store, load_one, &l, NULL), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.recs[0].id, "a-sooner"); /* oldest first */
	assert_string_equal(l.recs[0].state, "Pending");
	assert_string_equal(l.recs[0].metadata, "{\"a\":\"b\"}");
	assert_int_equal(l.recs[0].idle_s, 7);
	assert_int_equal(l.recs[0].lapses_us, 1006);
	assert_null(l.recs[0].reason);
	assert_null(l.recs[0].os);
	assert_string_equal(l.recs[1].state, "Running");
	assert_string_equal(l.recs[1].boot_id, "this one");
	assert_string_equal(l.recs[1].metadata, "{}");
	assert_int_equal(l.recs[1].expires_us, 99);
	assert_int_equal(l.recs[1].lapses_us, 77);
	assert_int_equal(l.recs[1].hidden, 1);
	forget(&l);
}

static void a_failed_write_concerns_itself_alone(void **state)
{
	struct record a = sample("one", 1), twice = sample("one", 2), other = sample("two", 3);
	struct loaded l = { 0 };

	(void)state;
	records_insert(t.store, &a, NULL, NULL);
	records_insert(t.store, &twice, answered, NULL);
	records_insert(t.store, &other, NULL, NULL);
	reopen();
	assert_int_equal(t.answers, 1);
	assert_int_equal(t.last_result, -EEXIST);
	assert_int_equal(records_load(t.store, load_one, &l, NULL), 0);
	assert_int_equal(l.n, 2);
	forget(&l);
}

static void deleted_records_take_their_events_along(void **state)
{
	struct record a = sample("one", 1);
	struct loaded l = { 0 };

	(void)state;
	records_insert(t.store, &a, NULL, NULL);
	records_add_event(t.store, "one", "state", "Pending");
	records_delete(t.store, "one", NULL, NULL);
	records_add_event(t.store, "one", "state", "too late"); /* of nobody: not kept */
	reopen();
	assert_int_equal(records_load(t.store, load_one, &l, NULL), 0);
	assert_int_equal(l.n, 0);
	{
		struct db_stmt *s = db_stmt(store_db(t.store), "SELECT count(*) FROM events", NULL);

		assert_int_equal(db_step(s, NULL), 1);
		assert_int_equal(db_i64(s, 0), 0);
		db_reset(s);
	}
}

static void events_read(void *ctx, int result, const struct records_event *events, unsigned n)
{
	unsigned *want = ctx;

	assert_int_equal(result, 0);
	assert_int_equal(n, want[0]);
	for (unsigned i = 0; i < n; i++) {
		char words[16];

		(void)snprintf(words, sizeof(words), "%u", want[1] + i);
		assert_string_equal(events[i].message, words);
	}
	count_answer();
}

static void the_latest_events_are_kept(void **state)
{
	struct record a = sample("one", 1), b = sample("two", 1);
	unsigned few[2] = { 3, 297 }, all[2] = { RECORDS_MAX_EVENTS, 100 }, none[2] = { 1, 7 };

	(void)state;
	records_insert(t.store, &a, NULL, NULL);
	records_insert(t.store, &b, NULL, NULL);
	records_add_event(t.store, "two", "k", "7"); /* another's history is left alone */
	for (unsigned i = 0; i < 300; i++) {
		char words[16];

		(void)snprintf(words, sizeof(words), "%u", i);
		records_add_event(t.store, "one", "k", words);
	}
	records_read_events(t.store, "one", 3, events_read, few);
	records_read_events(t.store, "one", 100000, events_read, all);
	records_read_events(t.store, "two", 10, events_read, none);
	await(3);
}

static int count_volume(void *ctx, const char *name, enum volume_stay stay)
{
	static const char *const names[] = {
		[VOLUME_KEPT] = "kept",
		[VOLUME_EPHEMERAL] = "going",
		[VOLUME_UNPROVEN] = "new",
	};
	unsigned *seen = ctx;

	assert_string_equal(name, names[stay]);
	*seen |= 1u << stay;
	return 0;
}

static void volumes_are_remembered_as_they_were_made(void **state)
{
	unsigned seen = 0;

	(void)state;
	/* the one that was made last counts: nobody took notice of the other's end */
	records_add_volume(t.store, "kept", VOLUME_EPHEMERAL, NULL, NULL);
	records_add_volume(t.store, "kept", VOLUME_KEPT, answered, NULL);
	records_add_volume(t.store, "going", VOLUME_EPHEMERAL, NULL, NULL);
	records_add_volume(t.store, "gone", VOLUME_EPHEMERAL, NULL, NULL);
	records_add_volume(t.store, "new", VOLUME_UNPROVEN, NULL, NULL);
	records_delete_volume(t.store, "gone");
	records_keep_volumes(t.store, "[{\"claim\":\"going\"}]"); /* it was not made for that */
	reopen();
	assert_int_equal(t.last_result, 0);
	assert_int_equal(records_load_volumes(t.store, count_volume, &seen, NULL), 0);
	assert_int_equal(seen, 7);
	records_delete_volume(t.store, "kept");
	records_delete_volume(t.store, "going");
	records_add_volume(t.store, "kept", VOLUME_UNPROVEN, NULL, NULL);
	records_keep_volumes(t.store, "[{\"name\":\"a\",\"host\":\"/new\"},{\"claim\":\"kept\"}]");
	records_delete_volume(t.store, "new");
	reopen();
	seen = 0;
	assert_int_equal(records_load_volumes(t.store, count_volume, &seen, NULL), 0);
	assert_int_equal(seen, 1u << VOLUME_KEPT);
}

static void refuse_updates_of(const char *table)
{
	char sql[160];

	(void)snprintf(
		sql, sizeof(sql),
		"CREATE TRIGGER refuse BEFORE UPDATE ON %s BEGIN SELECT RAISE(FAIL, 'no'); END",
		table);
	assert_int_equal(db_exec(store_db(t.store), sql, NULL), 0);
}

static void what_was_made_is_recorded_with_its_volumes_or_refused(void **state)
{
	static const char *const tables[] = { "volumes", "sandboxes" };
	struct record a = sample("a", 1000);
	unsigned seen = 0;

	(void)state;
	a.volumes = text("[{\"claim\":\"kept\"}]");
	records_insert(t.store, &a, answered, NULL);
	records_add_volume(t.store, "kept", VOLUME_UNPROVEN, answered, NULL);
	await(2);
	a.state = text("Running");
	for (unsigned i = 0; i < ARRAY_LEN(tables); i++) {
		refuse_updates_of(tables[i]);
		records_set_made(t.store, &a, answered, NULL);
		await(3 + i);
		assert_true(t.last_result < 0);
		assert_int_equal(db_exec(store_db(t.store), "DROP TRIGGER refuse", NULL), 0);
	}
	records_set_made(t.store, &a, answered, NULL);
	await(5);
	assert_int_equal(t.last_result, 0);
	assert_int_equal(records_load_volumes(t.store, count_volume, &seen, NULL), 0);
	assert_int_equal(seen, 1u << VOLUME_KEPT);
}

static void nobody_else_may_read_or_share_it(void **state)
{
	struct store *second;
	struct err e = ERR_INIT;
	struct stat st;

	(void)state;
	assert_int_equal(stat(t.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(store_open(&t.loop, t.path, &second, &e), -EBUSY);
	assert_non_null(strstr(e.msg, "another server"));
}

static void an_older_file_is_brought_up_to_date(void **state)
{
	struct record a = sample("kept", 1);
	struct loaded l = { 0 };
	struct db *db;

	(void)state;
	records_insert(t.store, &a, answered, NULL);
	await(1);
	close_store();
	assert_int_equal(db_open(t.path, &db, NULL), 0);
	assert_int_equal(db_exec(db, "ALTER TABLE sandboxes DROP COLUMN lapses_us", NULL), 0);
	assert_int_equal(db_exec(db, "PRAGMA user_version = 1", NULL), 0);
	db_close(db);
	assert_int_equal(store_open(&t.loop, t.path, &t.store, NULL), 0);
	assert_int_equal(records_load(t.store, load_one, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_int_equal(l.recs[0].expires_us, 61);
	assert_int_equal(l.recs[0].lapses_us, 0);
	forget(&l);
}

static void a_newer_file_is_refused(void **state)
{
	struct err e = ERR_INIT;
	struct db *db;

	(void)state;
	close_store();
	assert_int_equal(db_open(t.path, &db, NULL), 0);
	assert_int_equal(db_exec(db, "PRAGMA user_version = 1000", NULL), 0);
	db_close(db);
	assert_int_equal(store_open(&t.loop, t.path, &t.store, &e), -ENOTSUP);
	assert_non_null(strstr(e.msg, "1000"));
	t.store = NULL;
}

static void rubbish_is_no_database(void **state)
{
	struct err e = ERR_INIT;
	int fd;

	(void)state;
	close_store();
	fd = open(t.path, O_WRONLY | O_TRUNC);
	assert_true(write(fd, "this is not a database, but it is long enough", 45) == 45);
	(void)close(fd);
	assert_true(store_open(&t.loop, t.path, &t.store, &e) < 0);
	assert_true(e.msg[0] != '\0');
	t.store = NULL;
}

/* --- ends --- */

static struct ends ends;

static const char *ends_path(void)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s.ends", t.path);
	return path;
}

static void reopen_ends(void)
{
	ends_close(&ends);
	assert_int_equal(ends_open(&ends, ends_path(), NULL), 0);
}

static void ends_are_read_again_until_they_are_removed(void **state)
{
	struct ends_note note;
	int one, two;

	(void)state;
	assert_int_equal(ends_open(&ends, ends_path(), NULL), 0);
	assert_int_equal(ends.n_slots, ENDS_MAX);
	one = ends_put(&ends, -1, "one", "user_delete", true, NULL);
	two = ends_put(&ends, -1, "two", "ttl_expiry", false, NULL);
	assert_true(one >= 0 && two >= 0 && one != two);
	ends_remove(&ends, one);
	reopen_ends();
	assert_false(ends_read(&ends, one, &note));
	assert_true(ends_read(&ends, two, &note));
	assert_string_equal(note.id, "two");
	assert_string_equal(note.reason, "ttl_expiry");
	assert_int_equal(note.hidden, 0);
	/* what was read keeps its slot, and may be said anew in it */
	assert_int_equal(ends_put(&ends, -1, "three", "exited", false, NULL), one);
	assert_int_equal(ends_put(&ends, two, "two", "ttl_expiry", true, NULL), two);
	reopen_ends();
	assert_true(ends_read(&ends, two, &note));
	assert_int_equal(note.hidden, 1);
	ends_close(&ends);
	(void)unlink(ends_path());
}

static void ends_need_no_room_once_they_are_open(void **state)
{
	struct stat before, after;
	char id[41];
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(ends_open(&ends, ends_path(), NULL), 0);
	assert_int_equal(fstat(ends.fd, &before), 0);
	assert_int_equal(before.st_mode & 0777, 0600);
	assert_true(before.st_blocks * 512 >= before.st_size);
	for (int i = 0; i < ENDS_MAX; i++) {
		(void)snprintf(id, sizeof(id), "%d", i);
		assert_int_equal(ends_put(&ends, -1, id, "user_delete", true, NULL), i);
	}
	assert_int_equal(ends_put(&ends, -1, "more", "user_delete", true, &e), -ENOSPC);
	ends_remove(&ends, 7);
	assert_int_equal(ends_put(&ends, -1, "more", "user_delete", true, &e), 7);
	assert_int_equal(fstat(ends.fd, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_blocks, before.st_blocks);
	ends_close(&ends);
	(void)unlink(ends_path());
}

static void notes_that_make_no_sense_are_none(void **state)
{
	char garbage[64];
	struct ends_note note;

	(void)state;
	memset(garbage, 'x', sizeof(garbage));
	assert_int_equal(ends_open(&ends, ends_path(), NULL), 0);
	assert_int_equal(pwrite(ends.fd, garbage, sizeof(garbage), 0), (int)sizeof(garbage));
	reopen_ends();
	assert_false(ends_read(&ends, 0, &note));
	memset(garbage, 'x', 40);
	garbage[40] = '\0';
	assert_int_equal(ends_put(&ends, -1, garbage, "exited", false, NULL), -ENAMETOOLONG);
	ends_close(&ends);
	(void)unlink(ends_path());
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(records_survive),
		TEST(a_failed_write_concerns_itself_alone),
		TEST(deleted_records_take_their_events_along),
		TEST(the_latest_events_are_kept),
		TEST(volumes_are_remembered_as_they_were_made),
		TEST(what_was_made_is_recorded_with_its_volumes_or_refused),
		TEST(nobody_else_may_read_or_share_it),
		TEST(an_older_file_is_brought_up_to_date),
		TEST(a_newer_file_is_refused),
		TEST(rubbish_is_no_database),
		TEST(ends_are_read_again_until_they_are_removed),
		TEST(ends_need_no_room_once_they_are_open),
		TEST(notes_that_make_no_sense_are_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
