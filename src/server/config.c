#include "server/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/path.h"
#include "codec/toml.h"
#include "server/config_table.h"

#define MAX_CONFIG_BYTES MIB(1)

static void *field(struct config *c, const struct config_option *o)
{
	return (char *)c + o->offset;
}

static int add_item(struct config *c, struct config_list *l, const char *text, struct err *e)
{
	const char **items = arena_alloc(&c->arena, (l->n + 1) * sizeof(*items));

	if (items == NULL || text == NULL)
		return err_code(e, ENOMEM, "configuration");
	if (l->n > 0)
		memcpy(items, l->items, l->n * sizeof(*items));
	items[l->n] = text;
	*l = (struct config_list){ items, l->n + 1 };
	return 0;
}

static int add_pair(struct config *c, struct config_pairs *p, const char *key, const char *value,
		    struct err *e)
{
	struct config_pair *items = arena_alloc(&c->arena, (p->n + 1) * sizeof(*items));

	if (items == NULL || key == NULL || value == NULL)
		return err_code(e, ENOMEM, "configuration");
	if (p->n > 0)
		memcpy(items, p->items, p->n * sizeof(*items));
	items[p->n] = (struct config_pair){ key, value };
	*p = (struct config_pairs){ items, p->n + 1 };
	return 0;
}

static int parse_bool(const char *text, bool *ret)
{
	static const struct {
		const char *word;
		bool value;
	} words[] = {
		{ "true", true },   { "yes", true }, { "1", true },  { "on", true },
		{ "false", false }, { "no", false }, { "0", false }, { "off", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (span_caseis(span_str(text), words[i].word)) {
			*ret = words[i].value;
			return 0;
		}
	}
	return -EINVAL;
}

static int check(const struct config_option *o, const char *value, struct err *e)
{
	int r = o->check != NULL ? o->check(value, e) : 0;

	if (r < 0)
		(void)err_wrap(e, "%s", o->key);
	return r;
}

static int set_list(struct config *c, const struct config_option *o, const struct config_list *l,
		    struct err *e)
{
	if (o->max > 0 && l->n > o->max)
		return err_set(e, EINVAL, "%s: at most %lld", o->key, (long long)o->max);
	for (unsigned i = 0; i < l->n; i++) {
		int r = check(o, l->items[i], e);

		if (r < 0)
			return r;
	}
	*(struct config_list *)field(c, o) = *l;
	return 0;
}

static int set_text(struct config *c, const struct config_option *o, const char *text,
		    struct err *e)
{
	struct span rest = span_str(text);
	struct config_list list = { 0 };
	const char *copy;
	int64_t number;
	int r;

	switch (o->type) {
	case CONFIG_STRING:
		copy = arena_strdup(&c->arena, text);
		if (copy == NULL)
			return err_code(e, ENOMEM, "configuration");
		r = check(o, copy, e);
		if (r >= 0)
			*(const char **)field(c, o) = copy;
		return r;
	case CONFIG_INTEGER:
		if (!span_i64(rest, &number) || number < o->min || number > o->max)
			return err_set(e, EINVAL, "%s: '%s' is not a number from %lld to %lld",
				       o->key, text, (long long)o->min, (long long)o->max);
		*(int64_t *)field(c, o) = number;
		return 0;
	case CONFIG_BOOLEAN:
		if (parse_bool(text, field(c, o)) < 0)
			return err_set(e, EINVAL, "%s: '%s' is neither true nor false", o->key,
				       text);
		return 0;
	case CONFIG_LIST:
		while (rest.len > 0) {
			r = add_item(c, &list, arena_dup(&c->arena, span_cut(&rest, ',')), e);
			if (r < 0)
				return r;
		}
		return set_list(c, o, &list, e);
	case CONFIG_PAIRS:
		break;
	}
	if (text[0] == '\0')
		return 0;
	return err_set(e, EINVAL, "%s can only be set in a file", o->key);
}

int config_set(struct config *c, const char *key, const char *value, struct err *e)
{
	for (const struct config_option *o = config_options; o->key != NULL; o++)
		if (strcmp(o->key, key) == 0)
			return set_text(c, o, value, e);
	return err_set(e, EINVAL, "there is no setting '%s'", key);
}

int config_init(struct config *c, struct err *e)
{
	*c = (struct config){ .arena = ARENA_INIT(MIB(4)) };
	for (const struct config_option *o = config_options; o->key != NULL; o++) {
		int r = set_text(c, o, o->fallback, e);

		if (r < 0)
			return r;
	}
	return 0;
}

void config_free(struct config *c)
{
	arena_free(&c->arena);
}

/* --- the file --- */

static int load_list(struct config *c, const struct config_option *o, struct toml_node *root,
		     struct err *e)
{
	struct config_list list = { 0 };
	struct toml_node *array = NULL;
	int r = toml_get_array(root, o->key, &array, e);

	if (r <= 0)
		return r;
	toml_for_each (n, array) {
		r = toml_need(n, TOML_STRING, e);
		if (r >= 0)
			r = add_item(c, &list, arena_strdup(&c->arena, n->string.p), e);
		if (r < 0)
			return r;
	}
	return set_list(c, o, &list, e);
}

static int load_pairs(struct config *c, const struct config_option *o, struct toml_node *root,
		      struct err *e)
{
	struct config_pairs pairs = { 0 };
	struct toml_node *table = NULL;
	int r = toml_get_table(root, o->key, &table, e);

	if (r <= 0)
		return r;
	toml_for_each (n, table) {
		r = toml_need(n, TOML_STRING, e);
		if (r >= 0)
			r = add_pair(c, &pairs, arena_strdup(&c->arena, n->key.p),
				     arena_strdup(&c->arena, n->string.p), e);
		if (r < 0)
			return r;
	}
	*(struct config_pairs *)field(c, o) = pairs;
	return 0;
}

static int load_option(struct config *c, const struct config_option *o, struct toml_node *root,
		       struct err *e)
{
	const char *text = NULL;
	int r;

	switch (o->type) {
	case CONFIG_STRING:
		r = toml_get_str(root, o->key, &text, e);
		return r > 0 ? set_text(c, o, text, e) : r;
	case CONFIG_INTEGER:
		return toml_get_i64(root, o->key, o->min, o->max, field(c, o), e);
	case CONFIG_BOOLEAN:
		return toml_get_bool(root, o->key, field(c, o), e);
	case CONFIG_LIST:
		return load_list(c, o, root, e);
	case CONFIG_PAIRS:
		return load_pairs(c, o, root, e);
	}
	return 0;
}

static int read_file(const char *path, struct buf *out, struct err *e)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	ssize_t n;

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	do {
		if (buf_reserve(out, KIB(4)) < 0)
			return err_set(e, EFBIG, "'%s' is too large", path);
		n = read(fd, out->data + out->len, out->cap - out->len);
		if (n < 0)
			return err_sys(e, "read '%s'", path);
		out->len += (size_t)n;
	} while (n > 0);
	return 0;
}

/* A setting of the public server that promises more isolation than there is here. To go on without
 * would break the promise; anything else that nothing reads is only told. */
static int check_promise(const struct toml_node *root, struct err *e)
{
	const struct toml_node *t = toml_child(root, SPAN_LIT("secure_runtime"));
	const struct toml_node *n = NULL;

	if (t != NULL && t->type == TOML_TABLE)
		n = toml_child(t, SPAN_LIT("type"));
	if (n == NULL || (n->type == TOML_STRING && n->string.len == 0))
		return 0;
	return err_set(e, ENOTSUP,
		       "line %u: secure_runtime.type: there is no such runtime here; leave it out "
		       "to run sandboxes on the native one",
		       n->line);
}

int config_load(struct config *c, const char *path, struct err *e)
{
	struct arena arena = ARENA_INIT(MIB(8));
	struct buf text = BUF_INIT(MAX_CONFIG_BYTES);
	struct toml_node *root = NULL;
	int r;

	r = read_file(path, &text, e);
	if (r >= 0)
		r = toml_parse(&arena, buf_span(&text), &root, e);
	for (const struct config_option *o = config_options; r >= 0 && o->key != NULL; o++)
		r = load_option(c, o, root, e);
	if (r >= 0)
		r = check_promise(root, e);
	for (struct toml_node *n = NULL; r >= 0 && (n = toml_next_unused(root, n)) != NULL;) {
		char key[128], line[16];

		toml_path(n, key, sizeof(key));
		(void)snprintf(line, sizeof(line), "%u", n->line);
		log_warn("a setting that nothing reads", { "file", path }, { "key", key },
			 { "line", line });
	}
	if (r < 0)
		(void)err_wrap(e, "'%s'", path);
	buf_free(&text);
	arena_free(&arena);
	return r < 0 ? r : 0;
}

/* --- what follows from the rest --- */

static int default_state_dir(struct config *c, struct err *e)
{
	const char *home = getenv("HOME"), *xdg = getenv("XDG_STATE_HOME");

	if (c->state_dir[0] != '\0') {
		char clean[4096], cwd[4096];

		if (getcwd(cwd, sizeof(cwd)) == NULL)
			return err_sys(e, "where are we");
		if (path_clean(clean, sizeof(clean), cwd, c->state_dir) < 0)
			return err_code(e, ENAMETOOLONG, "state directory");
		c->state_dir = arena_strdup(&c->arena, clean);
	} else if (geteuid() == 0) {
		c->state_dir = "/var/lib/opensandbox";
	} else if (xdg != NULL && xdg[0] == '/') {
		c->state_dir = arena_printf(&c->arena, "%s/opensandbox", xdg);
	} else if (home != NULL && home[0] == '/') {
		c->state_dir = arena_printf(&c->arena, "%s/.opensandbox", home);
	} else {
		return err_set(e, EINVAL, "no state directory: set --state-dir");
	}
	return c->state_dir != NULL ? 0 : err_code(e, ENOMEM, "configuration");
}

int config_finish(struct config *c, struct err *e)
{
	int r;

	r = default_state_dir(c, e);
	if (r < 0)
		return r;
	if (c->store_path[0] == '\0')
		c->store_path = arena_printf(&c->arena, "%s/server/server.db", c->state_dir);
	if (c->store_path == NULL)
		return err_code(e, ENOMEM, "configuration");
	if (strcmp(c->runtime, "native") != 0)
		return err_set(e, ENOTSUP,
			       "runtime.type: this program has no '%s' driver, only 'native'",
			       c->runtime);
	return 0;
}
