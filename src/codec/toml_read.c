#include "codec/toml.h"

#include <errno.h>
#include <string.h>

#include "codec/toml_number.h"
#include "codec/toml_text.h"

/* Recursive descent, one function per piece of the grammar, each with the manners of those in
 * toml_text.h. */
struct reader {
	struct toml_text t;
	unsigned depth;
	unsigned n_nodes;
	struct toml_node *root;
	struct toml_node *section; /* the table that keys go to */
};

/* ---- tables ---- */

static int already_there(struct reader *r, const struct toml_key *key, const struct toml_node *n)
{
	char path[160];

	toml_path(n, path, sizeof(path));
	return toml_text_fail_at(&r->t, key->start, "'%s' is defined already in line %u", path,
				 n->line);
}

/* A node at the end of a table or array. */
static struct toml_node *add_node(struct reader *r, struct toml_node *parent, struct span key,
				  const char *at)
{
	struct toml_node *n;

	if (r->n_nodes == TOML_MAX_NODES) {
		(void)err_set(r->t.e, EMSGSIZE, "line %u: more than %d values", r->t.line,
			      TOML_MAX_NODES);
		return NULL;
	}
	n = arena_zalloc(r->t.arena, sizeof(*n));
	if (n == NULL) {
		(void)toml_text_no_memory(&r->t);
		return NULL;
	}
	r->n_nodes++;
	n->line = r->t.line;
	n->column = (unsigned)(at - r->t.line_start) + 1;
	n->key = key;
	n->parent = parent;
	if (parent == NULL)
		return n;
	if (parent->last != NULL)
		parent->last->next = n;
	else
		parent->first = n;
	parent->last = n;
	parent->count++;
	return n;
}

static int add_table(struct reader *r, struct toml_node *parent, struct span key, const char *at,
		     enum toml_origin origin, struct toml_node **ret)
{
	struct toml_node *n = add_node(r, parent, key, at);

	if (n == NULL)
		return r->n_nodes == TOML_MAX_NODES ? -EMSGSIZE : -ENOMEM;
	n->type = TOML_TABLE;
	n->origin = origin;
	*ret = n;
	return 0;
}

/* The tables in front of the last part of a [header], made if they are missing. */
static int walk_header(struct reader *r, const struct toml_key *key, struct toml_node **ret)
{
	struct toml_node *t = r->root, *n;
	int k;

	for (unsigned i = 0; i + 1 < key->n; i++) {
		n = toml_child(t, key->parts[i]);
		if (n == NULL) {
			k = add_table(r, t, key->parts[i], key->start, TOML_IMPLICIT, &n);
			if (k < 0)
				return k;
		}
		if (n->origin == TOML_LIST)
			n = n->last;
		if (n->type != TOML_TABLE || n->origin == TOML_CLOSED)
			return already_there(r, key, n);
		t = n;
	}
	*ret = t;
	return 0;
}

/* The same for the dotted key of a value: only tables that such keys made in this very section. */
static int walk_dotted(struct reader *r, const struct toml_key *key, struct toml_node *section,
		       struct toml_node **ret)
{
	struct toml_node *t = section, *n;
	int k;

	for (unsigned i = 0; i + 1 < key->n; i++) {
		n = toml_child(t, key->parts[i]);
		if (n == NULL) {
			k = add_table(r, t, key->parts[i], key->start, TOML_DOTTED, &n);
			if (k < 0)
				return k;
			n->section = section;
		}
		if (n->type != TOML_TABLE || n->origin != TOML_DOTTED || n->section != section)
			return already_there(r, key, n);
		t = n;
	}
	*ret = t;
	return 0;
}

/* [a.b]: r->t.p is behind the bracket. */
static int read_table_header(struct reader *r, const struct toml_key *key)
{
	struct span name = key->parts[key->n - 1];
	struct toml_node *t = NULL, *n;
	int k = walk_header(r, key, &t);

	if (k < 0)
		return k;
	n = toml_child(t, name);
	if (n == NULL) {
		k = add_table(r, t, name, key->start, TOML_HEADER, &n);
		if (k < 0)
			return k;
	} else if (n->type == TOML_TABLE && n->origin == TOML_IMPLICIT) {
		n->origin = TOML_HEADER;
		n->line = r->t.line;
	} else {
		return already_there(r, key, n);
	}
	r->section = n;
	return 0;
}

/* [[a.b]] */
static int read_list_header(struct reader *r, const struct toml_key *key)
{
	struct span name = key->parts[key->n - 1];
	struct toml_node *t = NULL, *n;
	int k = walk_header(r, key, &t);

	if (k < 0)
		return k;
	n = toml_child(t, name);
	if (n == NULL) {
		k = add_table(r, t, name, key->start, TOML_LIST, &n);
		if (k < 0)
			return k;
		n->type = TOML_ARRAY;
	} else if (n->origin != TOML_LIST) {
		return already_there(r, key, n);
	}
	return add_table(r, n, span_of(NULL, 0), key->start, TOML_HEADER, &r->section);
}

static int read_header(struct reader *r)
{
	bool list;
	struct toml_key key = { 0 };
	int k;

	r->t.p++;
	list = toml_text_take(&r->t, '[');
	k = toml_text_key(&r->t, &key);
	if (k < 0)
		return k;
	if (!toml_text_take(&r->t, ']') || (list && !toml_text_take(&r->t, ']')))
		return toml_text_fail(&r->t, list ? "']]' is expected" : "']' is expected");
	return list ? read_list_header(r, &key) : read_table_header(r, &key);
}

/* ---- values ---- */

static bool all_digits(struct span s, size_t n)
{
	uint64_t ignored;

	return s.len > n && span_u64(span_first(s, n), &ignored);
}

/* What begins with neither a quote nor a bracket. */
static int read_word(struct reader *r, struct toml_node *n)
{
	const char *start = r->t.p;
	struct span s;

	while (!toml_text_at_end(&r->t) &&
	       (toml_text_is_bare(*r->t.p) || strchr("+.:", *r->t.p) != NULL))
		r->t.p++;
	s = span_of(start, (size_t)(r->t.p - start));
	if (s.len == 0)
		return toml_text_fail(&r->t, "a value is expected");
	if (span_is(s, "true") || span_is(s, "false")) {
		n->type = TOML_BOOLEAN;
		n->boolean = s.p[0] == 't';
		return 0;
	}
	if ((all_digits(s, 4) && s.p[4] == '-') || (all_digits(s, 2) && s.p[2] == ':'))
		return toml_text_fail_at(&r->t, start,
					 "dates and times are not supported, use a string");
	if (!toml_number(s, n))
		return toml_text_fail_at(&r->t, start, "'%.*s' is not a value",
					 (int)MIN(s.len, (size_t)40), s.p);
	return 0;
}

static int read_value(struct reader *r, struct toml_node *n);

static int read_pair(struct reader *r, struct toml_node *section)
{
	struct toml_node *t = NULL, *n;
	struct toml_key key = { 0 };
	int k;

	k = toml_text_key(&r->t, &key);
	if (k < 0)
		return k;
	if (!toml_text_take(&r->t, '='))
		return toml_text_fail(&r->t, "'=' is expected");
	k = walk_dotted(r, &key, section, &t);
	if (k < 0)
		return k;
	n = toml_child(t, key.parts[key.n - 1]);
	if (n != NULL)
		return already_there(r, &key, n);
	k = add_table(r, t, key.parts[key.n - 1], key.start, TOML_CLOSED, &n);
	if (k < 0)
		return k;
	toml_text_skip_blanks(&r->t);
	return read_value(r, n);
}

static int read_array(struct reader *r, struct toml_node *n)
{
	struct toml_node *item;
	int k;

	n->type = TOML_ARRAY;
	r->t.p++;
	for (;;) {
		k = toml_text_skip_space(&r->t);
		if (k < 0)
			return k;
		if (toml_text_take(&r->t, ']'))
			return 0;
		k = add_table(r, n, span_of(NULL, 0), r->t.p, TOML_CLOSED, &item);
		if (k == 0)
			k = read_value(r, item);
		if (k == 0)
			k = toml_text_skip_space(&r->t);
		if (k < 0)
			return k;
		if (toml_text_take(&r->t, ']'))
			return 0;
		if (!toml_text_take(&r->t, ','))
			return toml_text_fail(&r->t, "',' or ']' is expected");
	}
}

static int read_inline_table(struct reader *r, struct toml_node *n)
{
	int k;

	n->type = TOML_TABLE;
	r->t.p++;
	toml_text_skip_blanks(&r->t);
	if (toml_text_take(&r->t, '}'))
		return 0;
	for (;;) {
		k = read_pair(r, n);
		if (k < 0)
			return k;
		toml_text_skip_blanks(&r->t);
		if (toml_text_take(&r->t, '}'))
			return 0;
		if (!toml_text_take(&r->t, ','))
			return toml_text_fail(&r->t, "',' or '}' is expected");
	}
}

static int read_value(struct reader *r, struct toml_node *n)
{
	int k;

	switch (toml_text_peek(&r->t)) {
	case '"':
	case '\'':
		n->type = TOML_STRING;
		return toml_text_string(&r->t, true, &n->string);
	case '[':
	case '{':
		if (++r->depth > TOML_MAX_DEPTH)
			return toml_text_fail(&r->t, "nested too deeply");
		k = toml_text_peek(&r->t) == '[' ? read_array(r, n) : read_inline_table(r, n);
		r->depth--;
		return k;
	default:
		return read_word(r, n);
	}
}

static int read_line(struct reader *r)
{
	int k = 0;

	toml_text_skip_blanks(&r->t);
	if (toml_text_peek(&r->t) == '[')
		k = read_header(r);
	else if (!toml_text_at_end(&r->t) && toml_text_peek(&r->t) != '#' &&
		 toml_text_newline_len(&r->t) == 0)
		k = read_pair(r, r->section);
	return k < 0 ? k : toml_text_end_line(&r->t);
}

int toml_parse(struct arena *arena, struct span text, struct toml_node **ret, struct err *e)
{
	struct reader r = { 0 };
	int k;

	k = toml_text_open(&r.t, arena, text, e);
	if (k == 0)
		k = add_table(&r, NULL, span_of(NULL, 0), r.t.p, TOML_HEADER, &r.root);
	r.section = r.root;
	while (k == 0 && !toml_text_at_end(&r.t))
		k = read_line(&r);
	toml_text_close(&r.t);
	if (k < 0)
		return k;
	*ret = r.root;
	return 0;
}
