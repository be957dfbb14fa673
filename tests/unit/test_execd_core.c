/* What execd works out without a server: environments, paths, users, plain command lines, the end
 * of processes in words. */
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "execd/env.h"
#include "execd/proc.h"
#include "execd/simple.h"
#include "execd/tree.h"
#include "execd/users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* --- env --- */

static const char *get(const struct env *v, const char *name)
{
	return env_get(v, span_str(name));
}

static void env_later_values_win(void **state)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	char *vars[] = { (char[]){ "A=1" }, (char[]){ "B=2" },  (char[]){ "A=3" },
			 (char[]){ "=x" },  (char[]){ "none" }, NULL };

	(void)state;
	env_init(v);
	assert_int_equal(env_add(v, vars), 0);
	assert_int_equal(v->n, 2);
	assert_string_equal(get(v, "A"), "3");
	assert_null(get(v, "none"));
	assert_int_equal(env_set(v, SPAN_LIT("C"), SPAN_LIT("")), 0);
	assert_string_equal(get(v, "C"), "");
	assert_string_equal(v->vars[2], "C=");
	assert_null(v->vars[3]);
}

static void env_unset_keeps_the_others(void **state)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	char name[8];

	(void)state;
	env_init(v);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "V%d", i);
		assert_int_equal(env_set(v, span_str(name), span_str(name)), 0);
	}
	for (int i = 0; i < 100; i += 2) {
		(void)snprintf(name, sizeof(name), "V%d", i);
		env_unset(v, span_str(name));
		env_unset(v, span_str(name));
	}
	assert_int_equal(v->n, 50);
	assert_null(v->vars[50]);
	for (int i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "V%d", i);
		if (i % 2 == 0)
			assert_null(get(v, name));
		else
			assert_string_equal(get(v, name), name);
	}
}

static void env_refuses_what_cannot_be(void **state)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	autofree char *big = malloc(ENV_MAX_BYTES);

	(void)state;
	env_init(v);
	assert_int_equal(env_set(v, SPAN_LIT(""), SPAN_LIT("x")), -EINVAL);
	assert_int_equal(env_set(v, SPAN_LIT("A=B"), SPAN_LIT("x")), -EINVAL);
	assert_int_equal(env_set(v, span_of("A\0B", 3), SPAN_LIT("x")), -EINVAL);
	assert_int_equal(env_set(v, SPAN_LIT("A"), span_of("x\0y", 3)), -EINVAL);
	memset(big, 'x', ENV_MAX_BYTES);
	assert_int_equal(env_set(v, SPAN_LIT("A"), span_of(big, ENV_MAX_BYTES)), -E2BIG);
	assert_int_equal(v->n, 0);
}

static void env_expands_references(void **state)
{
	static const struct {
		const char *in, *out; /* NULL: refused */
	} cases[] = {
		{ "plain", "plain" },   { "$A", "one" },
		{ "${A}b", "oneb" },    { "$A/$B", "one/two 2" },
		{ "$AB", NULL },        { "${NOPE}/x", NULL },
		{ "a$", "a$" },         { "a$/b", "a$/b" },
		{ "a$.b", "a$.b" },     { "x$1y", "xy" },
		{ "x$$y", "xy" },       { "x${y", "xy" },
		{ "x${}y", "xy" },      { "x${a b}y", "xy" },
		{ "~", "/users/me" },   { "~/x", "/users/me/x" },
		{ "~other", "~other" }, { "a~", "a~" },
		{ "$E", "" },           { "$T/x", "/users/me/x" },
	};
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	char *vars[] = { (char[]){ "A=one" }, (char[]){ "B=two 2" }, (char[]){ "HOME=/users/me" },
			 (char[]){ "E=" },    (char[]){ "T=~" },     NULL };

	(void)state;
	env_init(v);
	assert_int_equal(env_add(v, vars), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		autofree char *out = NULL;
		struct err e = ERR_INIT;
		int r = env_expand(v, span_str(cases[i].in), &out, &e);

		assert_int_equal(r, cases[i].out != NULL ? 0 : -EINVAL);
		if (r == 0)
			assert_string_equal(out, cases[i].out);
		else
			assert_true(strstr(e.msg, "AB") != NULL || strstr(e.msg, "NOPE") != NULL);
	}
	env_unset(v, SPAN_LIT("HOME"));
	char *none = NULL;

	assert_int_equal(env_expand(v, SPAN_LIT("~/x"), &none, NULL), -EINVAL);
}

static void env_paths_are_clean_and_literal_names_win(void **state)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	char dir[] = "/tmp/osb-env-XXXXXX", odd[64], cwd[PATH_MAX], want[PATH_MAX + 8];
	autofree char *a = NULL, *b = NULL, *c = NULL;
	char *d = NULL;

	(void)state;
	env_init(v);
	assert_non_null(mkdtemp(dir));
	assert_int_equal(env_set(v, SPAN_LIT("D"), span_str(dir)), 0);
	(void)snprintf(odd, sizeof(odd), "%s/$D", dir);
	assert_int_equal(mkdir(odd, 0700), 0);
	assert_int_equal(env_expand_path_in(v, span_str(odd), &a, NULL), 0);
	assert_string_equal(a, odd);
	assert_int_equal(env_expand_path_in(v, SPAN_LIT("$D/x/../y//z/."), &b, NULL), 0);
	(void)snprintf(want, sizeof(want), "%s/y/z", dir);
	assert_string_equal(b, want);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(env_expand_path_in(v, SPAN_LIT(""), &c, NULL), 0);
	assert_string_equal(c, cwd);
	assert_int_equal(env_expand_path_in(v, span_of("a\0b", 3), &d, NULL), -EINVAL);
	assert_int_equal(rmdir(odd), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void env_files_are_read_line_by_line(void **state)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	char *base[] = { (char[]){ "X=ex" }, NULL };

	(void)state;
	env_init(v);
	assert_int_equal(env_add_file(v,
				      SPAN_LIT("# c\n\n A = 1 \r\nB=$X-${Y}-\nnoequals\n=bad\nA=2\n"
					       "C='q'\nD=$A\nE=a=b"),
				      base),
			 0);
	assert_string_equal(get(v, "A"), "2");
	assert_string_equal(get(v, "B"), "ex--");
	assert_string_equal(get(v, "C"), "'q'");
	assert_string_equal(get(v, "D"), ""); /* looked up in the base alone */
	assert_string_equal(get(v, "E"), "a=b");
	assert_int_equal(v->n, 5);
}

/* --- users --- */

static void users_are_found(void **state)
{
	AUTO(users_free)
	struct users *u = users_parse(
		SPAN_LIT(
			"root:x:0:0:root:/root:/bin/sh\n# comment\nbroken\nme:x:1000:100::/users/me:\n"
			"neg:x:-1:0::/:\nhuge:x:4294967295:0::/:\nlast:*:7:8:::"),
		SPAN_LIT("root:x:0:\nusers:x:100:other\nwheel:x:10:root,me\nvideo:x:44: me ,x\n"
			 "bad:x:zz:me\n"));
	struct user_ids ids;
	const gid_t gid = 55;
	uid_t uid = 0;

	(void)state;
	assert_non_null(u);
	assert_string_equal(users_name(u, 1000), "me");
	assert_string_equal(users_name(u, 7), "last");
	assert_null(users_name(u, UINT32_MAX));
	assert_string_equal(users_group_name(u, 44), "video");
	assert_null(users_group_name(u, 9999));
	assert_true(users_find(u, "me", &uid));
	assert_int_equal(uid, 1000);
	assert_true(users_find(u, "123", &uid));
	assert_int_equal(uid, 123);
	assert_false(users_find(u, "huge", &uid));
	assert_false(users_find(u, "4294967295", &uid));

	users_ids(u, 1000, NULL, &ids);
	assert_int_equal(ids.gid, 100);
	assert_int_equal(ids.n_groups, 2);
	assert_int_equal(ids.groups[0], 10);
	assert_int_equal(ids.groups[1], 44);
	users_ids(u, 1000, &gid, &ids);
	assert_int_equal(ids.gid, 55);
	assert_int_equal(ids.n_groups, 0);
	users_ids(u, 4242, NULL, &ids); /* unknown: a group of its own, not root's */
	assert_int_equal(ids.gid, 4242);
	assert_int_equal(ids.n_groups, 0);
}

static void users_need_no_files(void **state)
{
	AUTO(users_free) struct users *u = users_parse(SPAN_LIT(""), SPAN_LIT(""));

	(void)state;
	assert_non_null(u);
	assert_null(users_name(u, 0));
}

/* --- simple --- */

static void simple_takes_plain_words_only(void **state)
{
	static const struct {
		const char *text;
		unsigned words; /* 0: for the shell */
	} cases[] = {
		{ "ls", 1 },
		{ "ls -la /tmp", 3 },
		{ "  git   status\t", 2 },
		{ "python3 a.py --x=1 user@host:/p 50% a,b +x", 7 },
		{ "/usr/bin/env", 1 },
		{ "true", 1 },
		{ "echo hi there", 3 },
		{ "", 0 },
		{ "   ", 0 },
		{ "true x", 0 },
		{ "echo -n x", 0 },
		{ "echo 'a'", 0 },
		{ "echo $A", 0 },
		{ "ls *", 0 },
		{ "ls ~", 0 },
		{ "a b;c", 0 },
		{ "a & b", 0 },
		{ "a|b", 0 },
		{ "a >b", 0 },
		{ "a {b,c}", 0 },
		{ "a #b", 0 },
		{ "a !b", 0 },
		{ "a\nb", 0 },
		{ "a [b]", 0 },
		{ "a \\b", 0 },
		{ "A=1 b", 0 },
		{ "A=1", 0 },
		{ "./x", 0 },
		{ "bin/x", 0 },
		{ "cd /tmp", 0 },
		{ "exit 3", 0 },
		{ "if", 0 },
		{ "time ls", 0 },
		{ ". x", 0 },
		{ "kill 1", 0 },
		{ "caf\xc3\xa9", 0 },
	};
	struct simple s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		bool is = simple_split(cases[i].text, &s);

		if (is != (cases[i].words > 0))
			fail_msg("%s", cases[i].text);
		if (is)
			assert_int_equal(s.n, cases[i].words);
	}
	assert_true(simple_split(" cp  -r a\tb ", &s));
	assert_string_equal(s.argv[0], "cp");
	assert_string_equal(s.argv[3], "b");
	assert_null(s.argv[4]);
}

static void simple_is_bounded(void **state)
{
	char text[SIMPLE_MAX_LEN + 8];
	struct simple s;

	(void)state;
	memset(text, 'a', sizeof(text));
	text[SIMPLE_MAX_LEN - 1] = '\0';
	assert_true(simple_split(text, &s));
	text[SIMPLE_MAX_LEN - 1] = 'a';
	text[SIMPLE_MAX_LEN] = '\0';
	assert_false(simple_split(text, &s));
	for (size_t i = 0; i < 2 * SIMPLE_MAX_WORDS; i++)
		text[i] = i % 2 == 0 ? 'x' : ' ';
	text[2 * SIMPLE_MAX_WORDS] = '\0';
	assert_true(simple_split(text, &s));
	assert_int_equal(s.n, SIMPLE_MAX_WORDS);
	text[2 * SIMPLE_MAX_WORDS] = 'x';
	text[2 * SIMPLE_MAX_WORDS + 1] = '\0';
	assert_false(simple_split(text, &s));
}

static void simple_respects_a_tampered_shell(void **state)
{
	static const char *const names[] = { "BASH_ENV", "SHELLOPTS", "BASH_FUNC_ls%%", "ENV" };
	struct simple s;

	(void)state;
	for (size_t i = 0; i <= ARRAY_LEN(names); i++) {
		AUTO(env_free) struct env *v = &(struct env){ 0 };
		bool is;

		env_init(v);
		assert_int_equal(env_set(v, SPAN_LIT("PATH"), SPAN_LIT("/usr/bin:/bin")), 0);
		if (i < ARRAY_LEN(names))
			assert_int_equal(env_set(v, span_str(names[i]), SPAN_LIT("x")), 0);
		is = simple_prepare("ls -l", NULL, v, &s);
		assert_int_equal(is, i == ARRAY_LEN(names));
		if (is) {
			assert_non_null(get(v, "PWD"));
			assert_string_equal(get(v, "_"), s.path);
			free(s.path);
		}
		assert_false(simple_prepare("no-such-program-at-all", NULL, v, &s));
	}
}

static void simple_leaves_relative_paths_to_the_shell(void **state)
{
	static const char *const paths[] = { ".:/usr/bin:/bin", "/usr/bin:",      ":/usr/bin",
					     "bin:/usr/bin",    "/usr/bin::/bin", "" };
	struct simple s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		AUTO(env_free) struct env *v = &(struct env){ 0 };

		env_init(v);
		assert_false(simple_prepare("ls", NULL, v, &s)); /* no PATH at all */
		assert_int_equal(env_set(v, SPAN_LIT("PATH"), span_str(paths[i])), 0);
		assert_false(simple_prepare("ls", NULL, v, &s));
	}
}

/* --- processes --- */

static void ends_have_words(void **state)
{
	static const struct {
		int status, code;
		const char *text;
	} cases[] = {
		{ 0, 0, "exit status 0" },
		{ 3 << 8, 3, "exit status 3" },
		{ 255 << 8, 255, "exit status 255" },
		{ SIGKILL, -1, "signal: killed" },
		{ SIGSEGV | 0x80, -1, "signal: segmentation fault (core dumped)" },
		{ 40, -1, "signal: signal 40" },
	};
	char text[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		proc_status_text(cases[i].status, text, sizeof(text));
		assert_string_equal(text, cases[i].text);
		assert_int_equal(proc_exit_code(cases[i].status), cases[i].code);
	}
}

static void programs_are_looked_up(void **state)
{
	char *env[] = { (char[]){ "PATH=:relative:/no/such:/usr/bin:/bin" }, NULL };
	autofree char *sh = proc_which("sh", env), *none = proc_which("no-such-program", env);
	autofree char *as_is = proc_which("/x/y", env), *dir = proc_which(".", env);

	(void)state;
	assert_non_null(sh);
	assert_int_equal(sh[0], '/');
	assert_null(none);
	assert_string_equal(as_is, "/x/y");
	assert_null(dir);
}

/* Three levels, some of them in sessions of their own. */
static void a_tree_is_killed_whole(void **state)
{
	int ready[2], n = 0;
	pid_t child, pid;
	char byte;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		for (int i = 0; i < 3; i++) {
			if (fork() == 0) {
				if (fork() == 0)
					(void)setsid();
				if (write(ready[1], "x", 1) != 1)
					_exit(1);
				for (;;)
					(void)pause();
			}
		}
		for (;;)
			(void)pause();
	}
	for (int i = 0; i < 6; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(tree_signal(getpid(), 0), 7);
	assert_int_equal(tree_kill(getpid()), 7);
	while ((pid = wait(NULL)) > 0)
		n += pid == child;
	assert_int_equal(n, 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(env_later_values_win),
		cmocka_unit_test(env_unset_keeps_the_others),
		cmocka_unit_test(env_refuses_what_cannot_be),
		cmocka_unit_test(env_expands_references),
		cmocka_unit_test(env_paths_are_clean_and_literal_names_win),
		cmocka_unit_test(env_files_are_read_line_by_line),
		cmocka_unit_test(users_are_found),
		cmocka_unit_test(users_need_no_files),
		cmocka_unit_test(simple_takes_plain_words_only),
		cmocka_unit_test(simple_is_bounded),
		cmocka_unit_test(simple_respects_a_tampered_shell),
		cmocka_unit_test(simple_leaves_relative_paths_to_the_shell),
		cmocka_unit_test(ends_have_words),
		cmocka_unit_test(programs_are_looked_up),
		cmocka_unit_test(a_tree_is_killed_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
