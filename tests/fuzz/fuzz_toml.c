/* Configuration files.
 *  - A tree is sound: links, counts, unique keys, strings that end, sane positions.
 *  - Written again in its simplest form, it reads back as the same tree.
 *  - A refusal has a number and words. */
#include <math.h>

#include "check.h"

#include "base/buf.h"
#include "codec/toml.h"

static void check_string(struct span s)
{
	CHECK(s.p[s.len] == '\0');
	CHECK(memchr(s.p, '\0', s.len + 1) == s.p + s.len);
}

static void check_tree(const struct toml_node *n, unsigned depth, unsigned *deepest)
{
	size_t count = 0;

	*deepest = MAX(*deepest, depth);
	CHECK(n->line > 0 && n->column > 0);
	if (n->type == TOML_STRING)
		check_string(n->string);
	if (n->type != TOML_ARRAY && n->type != TOML_TABLE)
		return;
	toml_for_each (it, n) {
		CHECK(it->parent == n);
		CHECK((it->key.p != NULL) == (n->type == TOML_TABLE));
		CHECK((it->next == NULL) == (n->last == it));
		if (it->key.p != NULL) {
			check_string(it->key);
			CHECK(toml_child(n, it->key) == it); /* the only one of that name */
		}
		check_tree(it, depth + 1, deepest);
		count++;
	}
	CHECK(count == n->count);
}

/* ---- written again: everything inline, strings with escapes only ---- */

static void write_string(struct buf *out, struct span s)
{
	(void)buf_add_char(out, '"');
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
			(void)buf_printf(out, "\\u%04X", c);
		else
			(void)buf_add_char(out, (char)c);
	}
	(void)buf_add_char(out, '"');
}

static void write_node(struct buf *out, const struct toml_node *n)
{
	switch (n->type) {
	case TOML_STRING:
		write_string(out, n->string);
		break;
	case TOML_INTEGER:
		(void)buf_printf(out, "%lld", (long long)n->integer);
		break;
	case TOML_FLOAT:
		if (isfinite(n->real))
			(void)buf_printf(out, "%.17e", n->real);
		else
			(void)buf_add_str(out, isnan(n->real) ? "nan"
					       : n->real > 0  ? "inf"
							      : "-inf");
		break;
	case TOML_BOOLEAN:
		(void)buf_add_str(out, n->boolean ? "true" : "false");
		break;
	case TOML_ARRAY:
		(void)buf_add_char(out, '[');
		toml_for_each (it, n) {
			write_node(out, it);
			(void)buf_add_char(out, ',');
		}
		(void)buf_add_char(out, ']');
		break;
	case TOML_TABLE:
		(void)buf_add_char(out, '{');
		toml_for_each (it, n) {
			if (it != n->first)
				(void)buf_add_char(out, ',');
			write_string(out, it->key);
			(void)buf_add_char(out, '=');
			write_node(out, it);
		}
		(void)buf_add_char(out, '}');
		break;
	}
}

static void check_equal(const struct toml_node *a, const struct toml_node *b)
{
	const struct toml_node *other = b->first;

	CHECK(a->type == b->type && a->count == b->count && span_eq(a->key, b->key));
	switch (a->type) {
	case TOML_STRING:
		CHECK(span_eq(a->string, b->string));
		break;
	case TOML_INTEGER:
		CHECK(a->integer == b->integer);
		break;
	case TOML_FLOAT:
		CHECK(a->real == b->real || (isnan(a->real) && isnan(b->real)));
		break;
	case TOML_BOOLEAN:
		CHECK(a->boolean == b->boolean);
		break;
	case TOML_ARRAY:
	case TOML_TABLE:
		toml_for_each (it, a) {
			check_equal(it, other);
			other = other->next;
		}
		break;
	}
}

static void check_again(const struct toml_node *root)
{
	struct arena arena = ARENA_INIT(64 << 20);
	struct buf out = BUF_INIT(TOML_MAX_BYTES);
	struct toml_node *again = NULL;

	toml_for_each (it, root) {
		write_string(&out, it->key);
		(void)buf_add_char(&out, '=');
		write_node(&out, it);
		(void)buf_add_char(&out, '\n');
	}
	CHECK(!buf_failed(&out));
	CHECK(toml_parse(&arena, buf_span(&out), &again, NULL) == 0);
	check_equal(root, again);
	arena_free(&arena);
	buf_free(&out);
}

/* Every key is told exactly once as long as nobody asked, and none afterwards. */
static void check_unused(struct toml_node *root)
{
	struct toml_node *n = NULL;
	size_t count = 0;
	char path[64];

	while ((n = toml_next_unused(root, n)) != NULL) {
		CHECK(n->parent == root);
		toml_path(n, path, sizeof(path));
		CHECK(memchr(path, '\0', sizeof(path)) != NULL);
		count++;
	}
	CHECK(count == root->count);
	toml_use_all(root);
	CHECK(toml_next_unused(root, NULL) == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena arena = ARENA_INIT(64 << 20);
	struct toml_node *root = NULL;
	struct err e = ERR_INIT;
	unsigned deepest = 0;
	int r;

	if (size > 8192)
		return 0;
	r = toml_parse(&arena, span_of(data, size), &root, &e);
	CHECK(toml_parse(&arena, span_of(data, size), &root, NULL) == r);
	if (r < 0) {
		CHECK(root == NULL && e.code == -r && strncmp(e.msg, "line ", 5) == 0);
	} else {
		check_tree(root, 0, &deepest);
		check_unused(root);
		if (deepest <= TOML_MAX_DEPTH) /* headers nest deeper than inline tables may */
			check_again(root);
	}
	arena_free(&arena);
	return 0;
}
