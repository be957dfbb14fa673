/* What is written into a v2 tree, shown on a directory that looks like one. */
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/util.h"
#include "sandbox/cgroup.h"
#include "sandbox/leaf.h"
#include "sys/fsat.h"

static char root[] = "/tmp/osb-leaf-XXXXXX";
static int root_fd;
static struct cgroups cg;

static void put(const char *name, const char *text)
{
	int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fsat_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static const char *get(const char *name)
{
	static char text[512];

	assert_true(fsat_read(root_fd, name, text, sizeof(text)) >= 0);
	return text;
}

/* A mount list with this tree and one that is of no interest. */
static int make_tree(void **state)
{
	static const char *const files[] = { "memory.max", "memory.swap.max", "cpu.max",
					     "pids.max",   "io.max",          "cgroup.freeze" };
	char line[256], path[128];

	(void)state;
	assert_non_null(mkdtemp(root));
	root_fd = open(root, O_RDONLY | O_DIRECTORY);
	assert_true(root_fd >= 0);
	put("cgroup.controllers", "cpuset cpu io memory pids\n");
	put("cgroup.subtree_control", "");
	assert_int_equal(mkdirat(root_fd, "inst", 0755), 0);
	put("inst/cgroup.controllers", "cpu io memory pids\n");
	put("inst/cgroup.subtree_control", "");
	put("inst/memory.swap.max", "max\n");
	assert_int_equal(mkdirat(root_fd, "inst/box", 0755), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		(void)snprintf(path, sizeof(path), "inst/box/%s", files[i]);
		put(path, "");
	}
	put("inst/box/cgroup.events", "populated 1\nfrozen 0\n");
	put("inst/box/memory.events",
	    "low 0\nhigh 0\nmax 3\noom 2\noom_kill 2\noom_group_kill 0\n");
	put("inst/box/cpu.stat", "usage_usec 1234\nuser_usec 1000\n");
	put("inst/box/memory.current", "5000\n");
	put("inst/box/memory.peak", "6000\n");
	put("inst/box/pids.current", "7\n");
	(void)snprintf(line, sizeof(line),
		       "20 1 0:19 / /proc rw - proc proc rw\n"
		       "30 1 0:25 / %s rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
		       root);
	put("mountinfo", line);
	(void)snprintf(path, sizeof(path), "%s/mountinfo", root);
	assert_int_equal(cgroup_setup(&cg, path, "inst", 0, root_fd, NULL), 0);
	cg.disk_major = 8;
	cg.disk_minor = 16;
	return 0;
}

static int drop_tree(void **state)
{
	(void)state;
	close(root_fd);
	return fsat_remove_tree(AT_FDCWD, root, NULL);
}

static void tree_is_found(void **state)
{
	uint32_t all = MSG_CAN_MEMORY | MSG_CAN_CPU | MSG_CAN_PIDS | MSG_CAN_IO | MSG_CAN_PAUSE |
		       MSG_CAN_SWAP_LIMIT;

	(void)state;
	assert_int_equal(cg.n, 1);
	assert_int_equal(cg.unified, 0);
	assert_true(cg.shown.v2);
	assert_int_equal(cgroup_features(&cg), all);
	/* the last one written: each is enabled by itself, so that one that fails stops no other */
	assert_non_null(strstr(get("cgroup.subtree_control"), "+pids"));
	assert_non_null(strstr(get("inst/cgroup.subtree_control"), "+pids"));
}

/* The root of a container's tree is a group with processes. */
static void processes_in_the_way_are_moved_aside(void **state)
{
	struct cgroups c;
	char path[64];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/mountinfo", root);
	put("cgroup.type", "domain\n");
	put("cgroup.procs", "17\n18\n");
	assert_int_equal(mkdirat(root_fd, "opensandbox-rest", 0755), 0);
	put("opensandbox-rest/cgroup.procs", "");
	assert_int_equal(cgroup_setup(&c, path, "inst", 0, root_fd, NULL), 0);
	assert_false(c.crowded);
	assert_string_equal(get("opensandbox-rest/cgroup.procs"), "18\n"); /* the last one */
	fd_close(&c.trees[0].fd);

	/* of a namespace that we do not see: nothing is given, and it is said */
	put("cgroup.procs", "0\n");
	put("cgroup.subtree_control", "");
	assert_int_equal(cgroup_setup(&c, path, "inst", 0, root_fd, NULL), 0);
	assert_true(c.crowded);
	assert_string_equal(get("opensandbox-rest/cgroup.procs"), "18\n");
	assert_string_equal(get("cgroup.subtree_control"), "");
	fd_close(&c.trees[0].fd);
	assert_int_equal(unlinkat(root_fd, "cgroup.type", 0), 0);
}

static void limits_in_the_words_of_v2(void **state)
{
	const struct msg_limits l = {
		.memory_bytes = MIB(64),
		.cpu_milli = 1500,
		.pids = 50,
		.io_read_bps = 1000,
	};
	struct leaf_door d;

	(void)state;
	assert_int_equal(leaf_make(&cg, "box", &l, &d, NULL), 0);
	assert_true(d.into_fd >= 0);
	assert_int_equal(d.n_tasks, 0);
	leaf_door_close(&d);
	assert_string_equal(get("inst/box/memory.max"), "67108864");
	assert_string_equal(get("inst/box/memory.swap.max"), "0");
	assert_string_equal(get("inst/box/cpu.max"), "150000 100000");
	assert_string_equal(get("inst/box/pids.max"), "50");
	assert_string_equal(get("inst/box/io.max"), "8:16 rbps=1000");
}

static void numbers_are_read(void **state)
{
	struct msg_stat_reply s = { 0 };

	(void)state;
	leaf_stat(&cg, "box", &s);
	assert_int_equal(s.cpu_usec, 1234);
	assert_int_equal(s.memory_bytes, 5000);
	assert_int_equal(s.memory_peak_bytes, 6000);
	assert_int_equal(s.oom_kills, 2);
	assert_int_equal(s.pids, 7);
}

static void freezing(void **state)
{
	struct rlimit files, none;
	int r;

	(void)state;
	assert_int_equal(leaf_is_frozen(&cg, "box"), 0);
	assert_int_equal(leaf_freeze(&cg, "box", true, NULL), 1);
	assert_string_equal(get("inst/box/cgroup.freeze"), "1");
	put("inst/box/cgroup.events", "populated 1\nfrozen 1\n");
	assert_int_equal(leaf_is_frozen(&cg, "box"), 1);
	assert_int_equal(leaf_is_frozen(&cg, "nobody"), -ENOENT);
	/* without a descriptor to look with, nobody knows */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	none = files;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	r = leaf_is_frozen(&cg, "box");
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
	assert_int_equal(r, -EMFILE);
	assert_int_equal(leaf_freeze(&cg, "box", true, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tree_is_found),
		cmocka_unit_test(processes_in_the_way_are_moved_aside),
		cmocka_unit_test(limits_in_the_words_of_v2),
		cmocka_unit_test(numbers_are_read),
		cmocka_unit_test(freezing),
	};

	return cmocka_run_group_tests(tests, make_tree, drop_tree);
}
