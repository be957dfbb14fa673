/* The parts of execd's files, terminals and metrics that need no server: line numbers, the ring of
 * a terminal, modes in digits, control group texts, and trees on a real file system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rand.h"
#include "execd/cgstat.h"
#include "execd/linecut.h"
#include "execd/mkdirs.h"
#include "execd/newfile.h"
#include "execd/perm.h"
#include "execd/replace.h"
#include "execd/ring.h"
#include "execd/rmtree.h"
#include "execd/walk.h"

/* --- lines --- */

static void check_lines(const char *text, uint64_t first, uint64_t count, const char *want)
{
	size_t len = strlen(text);

	/* whole, and cut at every place */
	for (size_t cut = 0; cut <= len; cut++) {
		struct buf out = BUF_INIT(4096);
		struct linecut c;

		linecut_init(&c, first, count);
		if (!linecut_feed(&c, span_of(text, cut), &out))
			(void)linecut_feed(&c, span_of(text + cut, len - cut), &out);
		assert_int_equal(out.len, strlen(want));
		assert_memory_equal(out.data != NULL ? out.data : "", want, out.len);
		buf_free(&out);
	}
}

static void test_linecut(void **state)
{
	(void)state;
	check_lines("", 1, UINT64_MAX, "");
	check_lines("a", 1, UINT64_MAX, "a");
	check_lines("a\n", 1, UINT64_MAX, "a");
	check_lines("a\nb\n", 1, UINT64_MAX, "a\nb");
	check_lines("a\r\nb\r\n", 1, UINT64_MAX, "a\nb");
	check_lines("a\r\r\nb", 1, 1, "a");
	check_lines("a\rb\nc", 1, 1, "a\rb");
	check_lines("a\r", 1, 1, "a");
	check_lines("\n\n\n", 1, UINT64_MAX, "\n\n");
	check_lines("a\n\nb", 2, 2, "\nb");
	check_lines("a\nb\nc\nd", 2, 2, "b\nc");
	check_lines("a\nb", 3, 1, "");
	check_lines("a\nb\n", 3, UINT64_MAX, "");
}

static void test_linecut_says_when_it_has_all(void **state)
{
	struct buf out = BUF_INIT(64);
	struct linecut c;

	(void)state;
	linecut_init(&c, 2, 1);
	assert_false(linecut_feed(&c, SPAN_LIT("a\nb"), &out));
	assert_true(linecut_feed(&c, SPAN_LIT("c\nd\n"), &out));
	assert_true(linecut_feed(&c, SPAN_LIT("e"), &out));
	assert_memory_equal(out.data, "bc", 2);
	assert_int_equal(out.len, 2);
	buf_free(&out);
}

/* --- ring --- */

static void test_ring_keeps_the_last_bytes(void **state)
{
	unsigned char channel;
	struct span got;
	struct ring r;
	char byte[7];

	(void)state;
	assert_int_equal(ring_init(&r, 100), 0);
	assert_false(ring_get(&r, 0, 10, &got, &channel));
	for (unsigned i = 0; i < 300; i++) {
		memset(byte, (int)('a' + i % 26), sizeof(byte));
		ring_add(&r, 1, span_of(byte, i % 7 + 1));
		assert_true(r.end - r.start <= 100);
	}
	assert_int_equal(r.end - r.start, 100);
	assert_false(ring_get(&r, r.start - 1, 10, &got, &channel));
	assert_false(ring_get(&r, r.end, 10, &got, &channel));
	for (uint64_t at = r.start; at < r.end; at += got.len)
		assert_true(ring_get(&r, at, 9, &got, &channel) && got.len > 0 && got.len <= 9);
	ring_free(&r);
}

static void test_ring_takes_more_than_its_size(void **state)
{
	unsigned char channel;
	struct span got;
	char big[1000];
	struct ring r;

	(void)state;
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 7);
	assert_int_equal(ring_init(&r, 64), 0);
	ring_add(&r, 1, SPAN_LIT("before"));
	ring_add(&r, 1, span_of(big, sizeof(big)));
	assert_int_equal(r.end, 1006);
	assert_int_equal(r.start, 1006 - 64);
	for (uint64_t at = r.start; at < r.end; at++) {
		assert_true(ring_get(&r, at, 1, &got, &channel));
		assert_int_equal(got.p[0], big[at - 6]);
	}
	ring_free(&r);
}

static void test_ring_knows_the_channels(void **state)
{
	unsigned char channel;
	struct span got;
	struct ring r;

	(void)state;
	assert_int_equal(ring_init(&r, 1000), 0);
	ring_add(&r, 1, SPAN_LIT("out"));
	ring_add(&r, 2, SPAN_LIT("err"));
	ring_add(&r, 2, SPAN_LIT("or"));
	ring_add(&r, 1, SPAN_LIT("out2"));
	assert_true(ring_get(&r, 0, 100, &got, &channel));
	assert_true(span_is(got, "out") && channel == 1);
	assert_true(ring_get(&r, 4, 100, &got, &channel));
	assert_true(span_is(got, "rror") && channel == 2);
	assert_true(ring_get(&r, 8, 100, &got, &channel));
	assert_true(span_is(got, "out2") && channel == 1);
	ring_free(&r);
}

static void test_ring_with_more_changes_than_it_notes(void **state)
{
	unsigned char channel;
	struct span got;
	struct ring r;

	(void)state;
	assert_int_equal(ring_init(&r, 1 << 20), 0);
	for (unsigned i = 0; i < 3 * RING_MAX_RUNS; i++)
		ring_add(&r, (unsigned char)(1 + i % 2),
			 i % 2 == 0 ? SPAN_LIT("o") : SPAN_LIT("e"));
	assert_int_equal(r.end - r.start, RING_MAX_RUNS);
	for (uint64_t at = r.start; at < r.end; at++) {
		assert_true(ring_get(&r, at, 10, &got, &channel));
		assert_int_equal(got.len, 1);
		assert_int_equal(got.p[0], channel == 1 ? 'o' : 'e');
	}
	ring_free(&r);
}

/* --- modes --- */

static void test_mode_digits(void **state)
{
	static const int64_t bad[] = { -1, 8, 9, 18, 7778, 8000, 10000, INT64_MAX, INT64_MIN };
	mode_t mode = 0;

	(void)state;
	assert_true(perm_mode_of_digits(644, &mode) && mode == 0644);
	assert_true(perm_mode_of_digits(1777, &mode) && mode == 01777);
	assert_true(perm_mode_of_digits(7, &mode) && mode == 07);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(perm_mode_of_digits(bad[i], &mode));
	for (unsigned m = 0; m <= 07777; m++) {
		assert_true(perm_mode_of_digits(perm_digits_of_mode((mode_t)m), &mode));
		assert_int_equal(mode, m);
	}
	assert_int_equal(perm_digits_of_mode(S_IFREG | 0640), 640);
}

/* --- control groups --- */

static void check_found(const char *cgroup, const char *mounts, const char *controller,
			const char *want)
{
	struct cgstat_dir d = { 0 };
	bool found = cgstat_find(span_str(cgroup), span_str(mounts), controller, &d);

	assert_int_equal(found, want != NULL);
	if (want != NULL)
		assert_string_equal(d.path, want);
}

static void test_cgroup_paths(void **state)
{
	static const char v2[] =
		"22 1 0:2 / / rw - ext4 /dev/sda rw\n"
		"30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 none rw\n";
	static const char v1[] =
		"31 22 0:27 / /cg/memory rw shared:5 - cgroup cgroup rw,memory\n"
		"32 22 0:28 /docker/ab /cg/cpu,cpuacct rw - cgroup none rw,cpu,cpuacct\n";

	(void)state;
	check_found("0::/\n", v2, "", "/sys/fs/cgroup");
	check_found("0::/user.slice/x\n", v2, "", "/sys/fs/cgroup/user.slice/x");
	check_found("0::/../../outside\n", v2, "", "/sys/fs/cgroup");
	check_found("0::/\n", v2, "memory", NULL);
	check_found("4:memory:/a/b\n1:cpu,cpuacct:/docker/ab/in\n0::/\n", v1, "memory",
		    "/cg/memory/a/b");
	check_found("4:memory:/a\n1:cpu,cpuacct:/docker/ab/in\n0::/\n", v1, "cpuacct",
		    "/cg/cpu,cpuacct/in");
	check_found("1:cpu,cpuacct:/docker/ab\n", v1, "cpu", "/cg/cpu,cpuacct");
	check_found("1:cpu,cpuacct:/docker/abc\n", v1, "cpu", "/cg/cpu,cpuacct");
	check_found("1:cpu,cpuacct:/\n", v1, "cpu", "/cg/cpu,cpuacct");
	check_found("0::/x\n", v1, "", NULL);
	check_found("", "", "cpu", NULL);
	check_found("garbage\n::\n", "garbage\n- - -\n", "cpu", NULL);
}

static void test_cgroup_numbers(void **state)
{
	uint64_t n = 0;

	(void)state;
	assert_true(cgstat_parse_cpu_max(SPAN_LIT("max 100000\n")) < 0);
	assert_true(cgstat_parse_cpu_max(SPAN_LIT("50000 100000\n")) == 0.5);
	assert_true(cgstat_parse_cpu_max(SPAN_LIT("250000 100000")) == 2.5);
	assert_true(cgstat_parse_cpu_max(SPAN_LIT("")) < 0);
	assert_true(cgstat_parse_cpu_max(SPAN_LIT("1 0")) < 0);
	assert_true(cgstat_parse_key(SPAN_LIT("a 1\nab 2\ninactive_file 77\n"), "ab", &n) &&
		    n == 2);
	assert_true(cgstat_parse_key(SPAN_LIT("MemTotal:   12 kB\n"), "MemTotal", &n) && n == 12);
	assert_false(cgstat_parse_key(SPAN_LIT("abc 2\n"), "ab", &n));
	assert_false(cgstat_parse_key(SPAN_LIT("ab x\n"), "ab", &n));
}

/* --- trees --- */

static char top[64];

static int make_top(void **state)
{
	char id[17];

	(void)state;
	rand_hex(id, 8);
	(void)snprintf(top, sizeof(top), "/tmp/osb-unit-%s", id);
	return mkdir(top, 0755);
}

static int remove_top(void **state)
{
	(void)state;
	return rmtree(top, NULL);
}

static void touch(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(close(fd), 0);
}

/* More names than a window holds, twice over: read in several rounds, each name once, in order. */
static void test_walk_of_a_huge_directory(void **state)
{
	const unsigned n = 40000;
	struct walk_entry it;
	char path[128], last[64] = "";
	unsigned seen = 0;
	struct walk w;
	int r;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(path, sizeof(path), "%s/%08x", top, i * 2654435761u);
		touch(path);
	}
	assert_int_equal(walk_open(&w, top, WALK_UNLIMITED, NULL), 0);
	while ((r = walk_next(&w, &it, NULL)) > 0) {
		assert_true(strcmp(it.name, last) > 0);
		(void)snprintf(last, sizeof(last), "%s", it.name);
		seen++;
	}
	walk_close(&w);
	assert_int_equal(r, 0);
	assert_int_equal(seen, n);
}

static void test_walk_order_and_depth(void **state)
{
	static const char *const want[] = { "a", "a/x", "a/x/y", "b" };
	struct walk_entry it;
	char path[128];
	struct walk w;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/a/x/y", top);
	assert_int_equal(mkdirs(path, 0755, NULL, NULL), 0);
	(void)snprintf(path, sizeof(path), "%s/b", top);
	touch(path);
	for (unsigned depth = 0; depth <= 4; depth++) {
		unsigned n = 0;

		assert_int_equal(walk_open(&w, top, depth, NULL), 0);
		while (walk_next(&w, &it, NULL) > 0) {
			while (depth < 3 && strlen(want[n]) / 2 >= depth)
				n++; /* deeper than asked for */
			assert_string_equal(it.relative, want[n++]);
		}
		walk_close(&w);
	}
	assert_true(walk_open(&w, path, 1, NULL) == -ENOTDIR);
}

static void test_mkdirs_takes_back_what_it_made(void **state)
{
	char path[512], name[300];
	unsigned made = 7;
	struct stat st;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	(void)snprintf(path, sizeof(path), "%s/p/q/%s", top, name);
	assert_true(mkdirs(path, 0755, &made, NULL) == -ENAMETOOLONG);
	(void)snprintf(path, sizeof(path), "%s/p", top);
	assert_int_equal(stat(path, &st), -1);
	(void)snprintf(path, sizeof(path), "%s/p/q", top);
	assert_int_equal(mkdirs(path, 0755, &made, NULL), 0);
	assert_int_equal(made, 2);
	mkdirs_undo(path, made);
	(void)snprintf(path, sizeof(path), "%s/p", top);
	assert_int_equal(stat(path, &st), -1);
}

static void test_newfile_appears_at_the_end_only(void **state)
{
	struct perm none = PERM_NONE;
	char path[128], dir[128];
	struct newfile n;
	struct stat st;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/deep/er/file", top);
	(void)snprintf(dir, sizeof(dir), "%s/deep", top);
	assert_int_equal(newfile_open(&n, path, false, NULL), 0);
	assert_int_equal(write(n.fd, "x", 1), 1);
	assert_int_equal(stat(path, &st), -1);
	newfile_abort(&n);
	newfile_abort(&n);
	assert_int_equal(stat(dir, &st), -1);
	assert_int_equal(newfile_open(&n, path, false, NULL), 0);
	assert_int_equal(newfile_commit(&n, &none, true, NULL), 0);
	newfile_abort(&n);
	assert_int_equal(stat(path, &st), 0);
	assert_true(newfile_open(&n, dir, false, NULL) == -EISDIR);
	newfile_abort(&n);
}

static void test_rmtree_of_what_is_not_there(void **state)
{
	char path[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/none/below", top);
	assert_int_equal(rmtree(path, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_linecut),
		cmocka_unit_test(test_linecut_says_when_it_has_all),
		cmocka_unit_test(test_ring_keeps_the_last_bytes),
		cmocka_unit_test(test_ring_takes_more_than_its_size),
		cmocka_unit_test(test_ring_knows_the_channels),
		cmocka_unit_test(test_ring_with_more_changes_than_it_notes),
		cmocka_unit_test(test_mode_digits),
		cmocka_unit_test(test_cgroup_paths),
		cmocka_unit_test(test_cgroup_numbers),
		cmocka_unit_test_setup_teardown(test_walk_of_a_huge_directory, make_top,
						remove_top),
		cmocka_unit_test_setup_teardown(test_walk_order_and_depth, make_top, remove_top),
		cmocka_unit_test_setup_teardown(test_mkdirs_takes_back_what_it_made, make_top,
						remove_top),
		cmocka_unit_test_setup_teardown(test_newfile_appears_at_the_end_only, make_top,
						remove_top),
		cmocka_unit_test_setup_teardown(test_rmtree_of_what_is_not_there, make_top,
						remove_top),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
