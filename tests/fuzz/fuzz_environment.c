/* Texts that clients and files of the sandbox bring into execd: an environment file, a path with
 * references in it, the user database, a command line. The input is all of these at once. */
#include "check.h"

#include "execd/env.h"
#include "execd/simple.h"
#include "execd/users.h"

static char *const base[] = { (char[]){ "A=one" }, (char[]){ "HOME=/home" }, (char[]){ "E=" },
			      NULL };

/* Every variable is a name, an equals sign and a value, and is found under its name. */
static void check_env(const struct env *v)
{
	size_t bytes = 0;

	for (size_t i = 0; i < v->n; i++) {
		struct span rest = span_str(v->vars[i]), name = span_cut(&rest, '=');

		CHECK(name.len > 0 && rest.p != NULL);
		CHECK(env_get(v, name) == v->vars[i] + name.len + 1);
		bytes += strlen(v->vars[i]) + 1;
	}
	CHECK(bytes == v->bytes && bytes <= ENV_MAX_BYTES);
	CHECK(v->vars == NULL || v->vars[v->n] == NULL);
}

static void fuzz_env(struct span text, uint64_t seed)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };

	env_init(v);
	CHECK(env_add(v, base) == 0);
	(void)env_add_file(v, text, base);
	check_env(v);
	while (v->n > 0 && check_random(&seed) % 8 != 0) {
		struct span rest = span_str(v->vars[check_random(&seed) % v->n]);
		struct span name = span_cut(&rest, '=');
		autofree char *copy = span_dup(name);

		env_unset(v, name);
		CHECK(env_get(v, span_str(copy)) == NULL);
		check_env(v);
	}
}

static void fuzz_expand(struct span text)
{
	AUTO(env_free) struct env *v = &(struct env){ 0 };
	autofree char *out = NULL;
	struct err e = ERR_INIT;
	int r;

	env_init(v);
	CHECK(env_add(v, base) == 0);
	r = env_expand(v, text, &out, &e);
	CHECK(r <= 0 && (r < 0) == (out == NULL));
	CHECK(r == 0 || e.msg[0] != '\0');
	if (r == 0 && memchr(text.p, '$', text.len) == NULL && text.p[0] != '~')
		CHECK(span_starts(text, out)); /* nothing to replace: only a NUL cuts it */
}

static void fuzz_users(struct span text)
{
	ptrdiff_t half = span_find(text, '\0');
	struct span first = half < 0 ? text : span_first(text, (size_t)half);
	struct span second = half < 0 ? text : span_skip(text, (size_t)half + 1);
	AUTO(users_free) struct users *u = NULL;
	struct user_ids ids;

	if (memchr(second.p, '\0', second.len) != NULL)
		return;
	u = users_parse(first, second);
	CHECK(u != NULL);
	for (uid_t uid = 0; uid < 4; uid++) {
		const char *name = users_name(u, uid);
		uid_t again;

		CHECK(name == NULL || users_find(u, name, &again));
		users_ids(u, uid, NULL, &ids);
		CHECK(ids.uid == uid && ids.n_groups <= USERS_MAX_GROUPS);
		CHECK(name != NULL || (ids.gid == uid && ids.n_groups == 0));
	}
}

/* What is taken for plain words, put together again, is the text but for its blanks. */
static void fuzz_simple(struct span text)
{
	autofree char *line = memchr(text.p, '\0', text.len) == NULL ? span_dup(text) : NULL;
	struct simple s;
	const char *at = line;

	if (line == NULL || !simple_split(line, &s))
		return;
	CHECK(s.n > 0 && s.n <= SIMPLE_MAX_WORDS && s.argv[s.n] == NULL);
	CHECK(strpbrk(line, "'\"\\$`|&;<>(){}[]*?!#~^\n\r") == NULL);
	for (unsigned i = 0; i < s.n; i++) {
		size_t len = strlen(s.argv[i]);

		at += strspn(at, " \t");
		CHECK(len > 0 && strncmp(at, s.argv[i], len) == 0);
		at += len;
	}
	CHECK(at[strspn(at, " \t")] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = span_of(data, size);

	if (size == 0 || size > KIB(64))
		return 0;
	fuzz_env(text, check_seed(data, size));
	fuzz_expand(text);
	fuzz_users(text);
	fuzz_simple(text);
	return 0;
}
