#include "codec/toml.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *toml_type_name(enum toml_type type)
{
	switch (type) {
	case TOML_STRING:
		return "a string";
	case TOML_INTEGER:
		return "an integer";
	case TOML_FLOAT:
		return "a real number";
	case TOML_BOOLEAN:
		return "a boolean";
	case TOML_ARRAY:
		return "an array";
	case TOML_TABLE:
		return "a table";
	}
	return "nothing";
}

/* ---- where a node is ---- */

static size_t index_in_parent(const struct toml_node *n)
{
	size_t i = 0;

	toml_for_each (it, n->parent) {
		if (it == n)
			break;
		i++;
	}
	return i;
}

void toml_path(const struct toml_node *n, char *out, size_t size)
{
	char front[256];
	int len;

	out[0] = '\0';
	/* from the last part to the first, each in front of what is there */
	for (; n->parent != NULL; n = n->parent) {
		bool first = n->parent->parent == NULL;

		if (n->key.p == NULL)
			len = snprintf(front, sizeof(front), "[%zu]%s", index_in_parent(n), out);
		else
			len = snprintf(front, sizeof(front), "%s%.*s%s", first ? "" : ".",
				       (int)MIN(n->key.len, sizeof(front)), n->key.p, out);
		if (len < 0)
			return;
		(void)snprintf(out, size, "%s", front);
	}
}

static int wrong_type(struct err *e, const struct toml_node *n, const char *expected)
{
	char path[200];

	toml_path(n, path, sizeof(path));
	(void)err_set(e, EINVAL, "line %u: '%s' must be %s, not %s", n->line, path, expected,
		      toml_type_name(n->type));
	return -EINVAL;
}

/* ---- lookup ---- */

struct toml_node *toml_child(const struct toml_node *t, struct span key)
{
	if (t->type != TOML_TABLE)
		return NULL;
	toml_for_each (it, t)
		if (span_eq(it->key, key))
			return it;
	return NULL;
}

/* 1 and *ret, 0, or an error if the path leads through something that is no table. */
static int find(struct toml_node *t, const char *path, struct toml_node **ret, struct err *e)
{
	struct span rest = span_str(path);

	while (rest.p != NULL) {
		if (t->type != TOML_TABLE)
			return wrong_type(e, t, "a table");
		t = toml_child(t, span_cut(&rest, '.'));
		if (t == NULL)
			return 0;
		t->used = true;
	}
	*ret = t;
	return 1;
}

struct toml_node *toml_get(struct toml_node *t, const char *path)
{
	struct toml_node *n = NULL;

	return find(t, path, &n, NULL) > 0 ? n : NULL;
}

int toml_need(struct toml_node *n, enum toml_type type, struct err *e)
{
	n->used = true;
	return n->type == type ? 0 : wrong_type(e, n, toml_type_name(type));
}

static int find_typed(struct toml_node *t, const char *path, enum toml_type type,
		      struct toml_node **ret, struct err *e)
{
	struct toml_node *n = NULL;
	int r = find(t, path, &n, e);

	if (r <= 0)
		return r;
	r = toml_need(n, type, e);
	if (r < 0)
		return r;
	*ret = n;
	return 1;
}

int toml_get_str(struct toml_node *t, const char *path, const char **ret, struct err *e)
{
	struct toml_node *n = NULL;
	int r = find_typed(t, path, TOML_STRING, &n, e);

	if (r > 0)
		*ret = n->string.p;
	return r;
}

int toml_get_i64(struct toml_node *t, const char *path, int64_t min, int64_t max, int64_t *ret,
		 struct err *e)
{
	struct toml_node *n = NULL;
	int r = find_typed(t, path, TOML_INTEGER, &n, e);

	if (r <= 0)
		return r;
	if (n->integer < min || n->integer > max)
		return err_set(e, EINVAL, "line %u: '%s' must be between %" PRId64 " and %" PRId64,
			       n->line, path, min, max);
	*ret = n->integer;
	return 1;
}

int toml_get_f64(struct toml_node *t, const char *path, double *ret, struct err *e)
{
	struct toml_node *n = NULL;
	int r = find(t, path, &n, e);

	if (r <= 0)
		return r;
	if (n->type == TOML_INTEGER)
		*ret = (double)n->integer;
	else if (n->type == TOML_FLOAT && isfinite(n->real))
		*ret = n->real;
	else if (n->type == TOML_FLOAT)
		return err_set(e, EINVAL, "line %u: '%s' must be finite", n->line, path);
	else
		return wrong_type(e, n, "a number");
	return 1;
}

int toml_get_bool(struct toml_node *t, const char *path, bool *ret, struct err *e)
{
	struct toml_node *n = NULL;
	int r = find_typed(t, path, TOML_BOOLEAN, &n, e);

	if (r > 0)
		*ret = n->boolean;
	return r;
}

int toml_get_array(struct toml_node *t, const char *path, struct toml_node **ret, struct err *e)
{
	return find_typed(t, path, TOML_ARRAY, ret, e);
}

int toml_get_table(struct toml_node *t, const char *path, struct toml_node **ret, struct err *e)
{
	return find_typed(t, path, TOML_TABLE, ret, e);
}

/* ---- who was asked for ---- */

/* The next node of the tree under `root` in the order of the file, or NULL. */
static struct toml_node *next_node(const struct toml_node *root, struct toml_node *n, bool enter)
{
	if (enter && n->first != NULL)
		return n->first;
	while (n != root) {
		if (n->next != NULL)
			return n->next;
		n = n->parent;
	}
	return NULL;
}

void toml_use_all(struct toml_node *n)
{
	for (struct toml_node *it = n; it != NULL; it = next_node(n, it, true))
		it->used = true;
}

struct toml_node *toml_next_unused(struct toml_node *root, struct toml_node *after)
{
	struct toml_node *n = after == NULL ? next_node(root, root, true)
					    : next_node(root, after, false);

	/* elements of arrays have no name to be asked by: only what is in them counts */
	while (n != NULL && (n->used || n->key.p == NULL))
		n = next_node(root, n, true);
	return n;
}
