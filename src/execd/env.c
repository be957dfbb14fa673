#include "execd/env.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/path.h"
#include "execd/execd.h"

#define FILE_MAX MIB(1)

void env_init(struct env *v)
{
	*v = (struct env){ 0 };
	map_init(&v->index);
}

void env_free(struct env *v)
{
	if (v == NULL)
		return;
	for (size_t i = 0; i < v->n; i++)
		free(v->vars[i]);
	free(v->vars);
	map_free(&v->index);
	*v = (struct env){ 0 };
}

/* The index holds positions counted from one, so that none is NULL. */
static size_t find(const struct env *v, struct span name)
{
	return (size_t)(uintptr_t)map_get(&v->index, name);
}

static int grow(struct env *v)
{
	size_t cap = v->cap > 0 ? v->cap * 2 : 32;
	char **vars;

	if (v->n + 1 < v->cap)
		return 0;
	vars = realloc(v->vars, cap * sizeof(*vars));
	if (vars == NULL)
		return -ENOMEM;
	v->vars = vars;
	v->cap = cap;
	v->vars[v->n] = NULL;
	return 0;
}

int env_set(struct env *v, struct span name, struct span value)
{
	size_t len = name.len + value.len + 2, at = find(v, name);
	char *text;
	int r;

	if (name.len == 0 || memchr(name.p, '=', name.len) != NULL ||
	    memchr(name.p, '\0', name.len) != NULL ||
	    (value.len > 0 && memchr(value.p, '\0', value.len) != NULL))
		return -EINVAL;
	if (len > ENV_MAX_BYTES - v->bytes)
		return -E2BIG;
	r = grow(v);
	if (r < 0)
		return r;
	text = malloc(len);
	if (text == NULL)
		return -ENOMEM;
	memcpy(text, name.p, name.len);
	text[name.len] = '=';
	if (value.len > 0)
		memcpy(text + name.len + 1, value.p, value.len);
	text[len - 1] = '\0';
	if (at == 0) {
		r = map_put(&v->index, name, (void *)(uintptr_t)(v->n + 1), NULL);
		if (r < 0) {
			free(text);
			return r;
		}
		v->vars[v->n++] = text;
		v->vars[v->n] = NULL;
	} else {
		v->bytes -= strlen(v->vars[at - 1]) + 1;
		free(v->vars[at - 1]);
		v->vars[at - 1] = text;
	}
	v->bytes += len;
	return 0;
}

int env_add(struct env *v, char *const *vars)
{
	for (; vars != NULL && *vars != NULL; vars++) {
		struct span value = span_str(*vars), name = span_cut(&value, '=');
		int r = value.p != NULL && name.len > 0 ? env_set(v, name, value) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

void env_unset(struct env *v, struct span name)
{
	size_t at = find(v, name), last = v->n;

	if (at == 0)
		return;
	(void)map_remove(&v->index, name);
	v->bytes -= strlen(v->vars[at - 1]) + 1;
	free(v->vars[at - 1]);
	if (at != last) { /* the last one takes its place */
		struct span moved = span_str(v->vars[last - 1]);

		v->vars[at - 1] = v->vars[last - 1];
		/* replaces an entry that is there, so it cannot fail */
		(void)map_put(&v->index, span_cut(&moved, '='), (void *)(uintptr_t)at, NULL);
	}
	v->vars[--v->n] = NULL;
}

const char *env_get(const struct env *v, struct span name)
{
	size_t at = find(v, name);

	return at > 0 ? v->vars[at - 1] + name.len + 1 : NULL;
}

bool env_same(const struct env *a, const struct env *b)
{
	for (size_t i = 0; i < a->n; i++) {
		struct span value = span_str(a->vars[i]), name = span_cut(&value, '=');
		const char *other = env_get(b, name);

		if (other == NULL || !span_is(value, other))
			return false;
	}
	return a->n == b->n;
}

/* --- $NAME --- */

static bool is_name_byte(char c, bool first)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	       (!first && c >= '0' && c <= '9');
}

bool env_is_name(struct span s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!is_name_byte(s.p[i], i == 0))
			return false;
	return s.len > 0;
}

/* The reference that `s` (which begins with '$') starts with. Returns its length; *ret_name is the
 * name, or empty for what a shell would understand but this place does not (it is swallowed). A
 * length of 0: no reference, the dollar is itself. */
static size_t reference(struct span s, struct span *ret_name)
{
	size_t n = 1;

	*ret_name = span_of(NULL, 0);
	if (s.len < 2)
		return 0;
	if (s.p[1] == '{') {
		const char *close = memchr(s.p, '}', s.len);

		if (close == NULL)
			return 2;
		*ret_name = span_of(s.p + 2, (size_t)(close - s.p) - 2);
		return ret_name->len + 3;
	}
	if (strchr("*#$@!?-0123456789", s.p[1]) != NULL && s.p[1] != '\0')
		return 2;
	while (n < s.len && is_name_byte(s.p[n], n == 1))
		n++;
	if (n == 1)
		return 0;
	*ret_name = span_of(s.p + 1, n - 1);
	return n;
}

/* Replace the references of `text`. Names that are not set are listed in `missing`, if given. */
static void substitute(struct span text, const char *(*get)(const void *ctx, struct span name),
		       const void *ctx, struct buf *out, struct buf *missing)
{
	while (text.len > 0) {
		const char *dollar = memchr(text.p, '$', text.len);
		size_t plain = dollar != NULL ? (size_t)(dollar - text.p) : text.len, n;
		struct span name;
		const char *value;

		(void)buf_add(out, text.p, plain);
		text = span_skip(text, plain);
		if (text.len == 0)
			break;
		n = reference(text, &name);
		if (n == 0) {
			(void)buf_add_char(out, '$');
			text = span_skip(text, 1);
			continue;
		}
		value = env_is_name(name) ? get(ctx, name) : NULL;
		if (value != NULL) {
			(void)buf_add_str(out, value);
		} else if (env_is_name(name) && missing != NULL) {
			(void)buf_add_str(missing, missing->len > 0 ? ", " : "");
			(void)buf_add_span(missing, name);
		}
		text = span_skip(text, n);
	}
}

static const char *get_var(const void *ctx, struct span name)
{
	return env_get(ctx, name);
}

static const char *get_environ(const void *ctx, struct span name)
{
	for (char *const *p = ctx; p != NULL && *p != NULL; p++)
		if (strncmp(*p, name.p, name.len) == 0 && (*p)[name.len] == '=')
			return *p + name.len + 1;
	return NULL;
}

static int take_text(struct buf *text, char **ret, struct err *e)
{
	*ret = buf_take(text, NULL);
	if (*ret != NULL)
		return 0;
	return text->starved ? err_code(e, ENOMEM, "text")
			     : err_set(e, ENAMETOOLONG, "the expanded text is too long");
}

static int expand(struct span text, const char *(*get)(const void *ctx, struct span name),
		  const void *ctx, char **ret, struct err *e)
{
	AUTO(buf_free) struct buf *out = &BUF_INIT(KIB(64)), *missing = &BUF_INIT(128);
	const char *home;

	substitute(text, get, ctx, out, missing);
	if (missing->starved)
		return err_code(e, ENOMEM, "text");
	if (missing->len > 0 || missing->failed)
		return err_set(e, EINVAL, "undefined environment variable: %.*s",
			       SPAN_FMT(buf_span(missing)));
	if (out->len > 0 && out->data[0] == '~' && (out->len == 1 || out->data[1] == '/')) {
		AUTO(buf_free) struct buf *full = &BUF_INIT(KIB(64));

		home = get(ctx, SPAN_LIT("HOME"));
		if (home == NULL || home[0] == '\0')
			return err_set(e, EINVAL, "cannot expand ~: HOME is not set");
		(void)buf_add_str(full, home);
		(void)buf_add_span(full, span_skip(buf_span(out), 1));
		return take_text(full, ret, e);
	}
	return take_text(out, ret, e);
}

int env_expand(const struct env *v, struct span text, char **ret, struct err *e)
{
	return expand(text, get_var, v, ret, e);
}

/* --- paths --- */

static int absolute(const char *path, char **ret, struct err *e)
{
	char cwd[PATH_MAX], full[PATH_MAX];

	if (path[0] != '/' && getcwd(cwd, sizeof(cwd)) == NULL)
		return err_sys(e, "find the working directory");
	if (path_clean(full, sizeof(full), path[0] == '/' ? "/" : cwd, path) < 0)
		return err_code(e, ENAMETOOLONG, "path");
	*ret = strdup(full);
	return *ret != NULL ? 0 : err_code(e, ENOMEM, "path");
}

static int expand_path(struct span path, const char *(*get)(const void *ctx, struct span name),
		       const void *ctx, char **ret, struct err *e)
{
	autofree char *plain = NULL, *expanded = NULL;
	struct stat st;
	int r;

	if (path.len > 0 && memchr(path.p, '\0', path.len) != NULL)
		return err_set(e, EINVAL, "the path contains a NUL byte");
	plain = span_dup(path.p != NULL ? path : SPAN_LIT(""));
	if (plain == NULL)
		return err_code(e, ENOMEM, "path");
	if (strchr(plain, '$') == NULL && plain[0] != '~')
		return absolute(plain, ret, e);
	if (lstat(plain, &st) == 0) /* a name that looks like a reference, but is there */
		return absolute(plain, ret, e);
	r = expand(path, get, ctx, &expanded, e);
	return r < 0 ? r : absolute(expanded, ret, e);
}

int env_expand_path(const struct execd *x, struct span path, char **ret, struct err *e)
{
	return expand_path(path, get_environ, x->env, ret, e);
}

int env_expand_path_in(const struct env *v, struct span path, char **ret, struct err *e)
{
	return expand_path(path, get_var, v, ret, e);
}

/* --- the EXECD_ENVS file --- */

static struct span trim(struct span s)
{
	static const char blanks[] = " \t\r\v\f";

	while (s.len > 0 && strchr(blanks, s.p[0]) != NULL && s.p[0] != '\0')
		s = span_skip(s, 1);
	while (s.len > 0 && strchr(blanks, s.p[s.len - 1]) != NULL && s.p[s.len - 1] != '\0')
		s.len--;
	return s;
}

int env_add_file(struct env *v, struct span text, char *const *base)
{
	AUTO(buf_free) struct buf *value = &BUF_INIT(ENV_MAX_BYTES);

	while (text.p != NULL) {
		struct span line = trim(span_cut(&text, '\n'));
		struct span name = span_cut(&line, '=');
		int r;

		if (name.len == 0 || name.p[0] == '#' || line.p == NULL)
			continue;
		buf_clear(value);
		substitute(trim(line), get_environ, base, value, NULL);
		r = buf_error(value);
		if (r == 0)
			r = env_set(v, trim(name), buf_span(value));
		if (r < 0 && r != -EINVAL) /* one bad line spoils no other */
			return r;
	}
	return 0;
}

static int add_envs_file(const struct execd *x, struct env *v, struct err *e)
{
	AUTO(buf_free) struct buf *text = &BUF_INIT(FILE_MAX);
	autofree char *path = NULL;
	autofd int fd = -EBADF;
	ssize_t n = 1;
	int r;

	r = env_expand_path(x, span_str(x->opt.envs_file), &path, e);
	if (r < 0)
		return r;
	/* not waiting for the other end of a FIFO that somebody put there */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return 0; /* it need not be there */
	while (n > 0 && buf_reserve(text, KIB(4)) == 0) {
		n = read(fd, text->data + text->len, KIB(4));
		text->len += n > 0 ? (size_t)n : 0;
	}
	if (text->starved)
		return err_code(e, ENOMEM, "environment file %s", path);
	r = env_add_file(v, buf_span(text), x->env);
	return r < 0 ? err_code(e, r, "environment file %s", path) : 0;
}

int env_for_process(const struct execd *x, struct env *v, struct err *e)
{
	int r;

	r = env_add(v, x->env);
	if (r < 0)
		return err_code(e, r, "environment");
	return x->opt.envs_file != NULL ? add_envs_file(x, v, e) : 0;
}
