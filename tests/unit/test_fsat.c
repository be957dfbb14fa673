/* Files below a directory somebody hostile may have filled. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "sys/fsat.h"

static char root[] = "/tmp/osb-fsat-XXXXXX";
static int root_fd, out_fd;

static void make_file(int dir, const char *name, const char *text)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fsat_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

/* root/in is the tree, root/out what it must not reach */
static int setup(void **state)
{
	int top;

	(void)state;
	assert_non_null(mkdtemp(root));
	top = open(root, O_RDONLY | O_DIRECTORY);
	assert_true(top >= 0);
	root_fd = fsat_mkdir_open(top, "in", 0755);
	out_fd = fsat_mkdir_open(top, "out", 0755);
	assert_true(root_fd >= 0 && out_fd >= 0);
	make_file(out_fd, "canary", "alive");
	assert_int_equal(mkdirat(root_fd, "d", 0755), 0);
	make_file(root_fd, "d/f", "text\n");
	assert_int_equal(symlinkat("d", root_fd, "inner"), 0);
	assert_int_equal(symlinkat("../out", root_fd, "up"), 0);
	assert_int_equal(symlinkat(root, root_fd, "abs"), 0);
	assert_int_equal(symlinkat("loop", root_fd, "loop"), 0);
	close(top);
	return 0;
}

static int teardown(void **state)
{
	char text[16];

	(void)state;
	assert_int_equal(fsat_read(out_fd, "canary", text, sizeof(text)), 5);
	close(root_fd);
	close(out_fd);
	return fsat_remove_tree(AT_FDCWD, root, NULL);
}

static void beneath_follows_nothing(void **state)
{
	static const char *const bad[] = { "inner/f",    "up/canary",     "abs",
					   "loop",       "../out/canary", "d/../../out/canary",
					   "/etc/passwd" };
	int fd = fsat_open_beneath(root_fd, "d/f", O_RDONLY, 0);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_true(fsat_open_beneath(root_fd, bad[i], O_RDONLY, 0) < 0);
}

static void in_root_stays_inside(void **state)
{
	int fd = fsat_open_in_root(root_fd, "/inner/f", O_RDONLY, 0);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	fd = fsat_open_in_root(root_fd, "/../../d/f", O_RDONLY, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fsat_open_in_root(root_fd, "/up/canary", O_RDONLY, 0), -ENOENT);
	assert_int_equal(fsat_open_in_root(root_fd, "/abs", O_RDONLY, 0), -ENOENT);
	assert_int_equal(fsat_open_in_root(root_fd, "/loop", O_RDONLY, 0), -ELOOP);
}

static void directories_are_made_inside(void **state)
{
	struct stat st;
	int fd = fsat_mkdirs_in_root(root_fd, "/x/y/z");

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root_fd, "x/y/z", &st, 0), 0);
	fd = fsat_mkdirs_in_root(root_fd, "/inner/new");
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(fstatat(root_fd, "d/new", &st, 0), 0);
	/* a link out of the tree means a place inside it, which is not there */
	assert_true(fsat_mkdirs_in_root(root_fd, "/up/new") < 0);
	assert_true(fsat_mkdirs_in_root(root_fd, "/d/f/new") < 0);
	assert_true(fsat_mkdirs_in_root(root_fd, "/loop/new") < 0);
	assert_true(fsat_mkdirs_in_root(root_fd, "/a/../../b") < 0);
	assert_int_equal(fstatat(out_fd, "new", &st, 0), -1);
}

static void replace_and_read(void **state)
{
	char text[8];
	uint64_t v;

	(void)state;
	assert_int_equal(fsat_replace(root_fd, "n", "42\n", 3, 0600), 0);
	assert_int_equal(fsat_read_u64(root_fd, "n", &v), 0);
	assert_int_equal(v, 42);
	assert_int_equal(fsat_read(root_fd, "n", text, 3), -EFBIG);
	assert_int_equal(fsat_read(root_fd, "missing", text, 3), -ENOENT);
	assert_int_equal(fsat_put(root_fd, "missing", "x"), -ENOENT);
}

static void deep_and_wide_trees_go(void **state)
{
	unsigned budget = 10;
	int at = fsat_mkdir_open(root_fd, "big", 0755);
	struct stat st;

	(void)state;
	/* deeper than any path may be long */
	for (unsigned i = 0; i < 3000; i++) {
		int next = fsat_mkdir_open(at, "dddddd", 0755);

		assert_true(next >= 0);
		make_file(at, "f", "x");
		close(at);
		at = next;
	}
	assert_int_equal(symlinkat("../../../out", at, "out"), 0);
	close(at);
	assert_int_equal(fsat_remove_tree(root_fd, "big", &budget), -EAGAIN);
	assert_int_equal(fsat_remove_tree(root_fd, "big", NULL), 0);
	assert_int_equal(fstatat(root_fd, "big", &st, 0), -1);
	assert_int_equal(fsat_remove_tree(root_fd, "big", NULL), 0);
}

static void removal_does_not_follow(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(root_fd, "t", 0755), 0);
	assert_int_equal(symlinkat("../../out", root_fd, "t/link"), 0);
	assert_int_equal(mkdirat(root_fd, "t/.rm-0", 0755), 0); /* a name the work itself uses */
	assert_int_equal(mkdirat(root_fd, "t/.rm-0/a", 0755), 0);
	assert_int_equal(mkdirat(root_fd, "t/.rm-0/a/b", 0755), 0);
	assert_int_equal(fsat_remove_tree(root_fd, "t", NULL), 0);
	assert_int_equal(fsat_remove_tree(root_fd, "up", NULL), 0); /* the link itself */
}

static void one_name_goes(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(mkdirat(root_fd, "gone", 0755), 0);
	assert_int_equal(symlinkat("gone", root_fd, "to-it"), 0);
	assert_int_equal(fsat_unlink(root_fd, "gone", 0), -EISDIR);
	assert_int_equal(fsat_unlink(root_fd, "to-it", 0), 0); /* the link itself */
	assert_int_equal(fstatat(root_fd, "gone", &st, 0), 0);
	assert_int_equal(fsat_unlink(root_fd, "gone", AT_REMOVEDIR), 0);
	assert_int_equal(fsat_unlink(root_fd, "gone", AT_REMOVEDIR), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(beneath_follows_nothing),
		cmocka_unit_test(in_root_stays_inside),
		cmocka_unit_test(directories_are_made_inside),
		cmocka_unit_test(replace_and_read),
		cmocka_unit_test(deep_and_wide_trees_go),
		cmocka_unit_test(removal_does_not_follow),
		cmocka_unit_test(one_name_goes),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
