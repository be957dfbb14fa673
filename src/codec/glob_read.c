#include "codec/glob_read.h"

#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "codec/glob.h"
#include "codec/utf8.h"

struct reader {
	struct arena *arena;
	struct span rest;
	unsigned depth;
	bool segment_start;
	struct err *e;
};

static int malformed(struct reader *r, const char *why)
{
	return err_set(r->e, EINVAL, "syntax error in pattern: %s", why);
}

static int no_memory(struct reader *r)
{
	return err_set(r->e, ENOMEM, "not enough memory for the pattern");
}

static bool take(struct reader *r, const char *s)
{
	if (!span_starts(r->rest, s))
		return false;
	r->rest = span_skip(r->rest, strlen(s));
	return true;
}

static struct glob_node *add_node(struct reader *r, struct glob_seq *seq, enum glob_op op)
{
	struct glob_node *n = arena_zalloc(r->arena, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->op = op;
	*seq->end = n;
	seq->end = &n->next;
	return n;
}

static struct glob_seq *new_seq(struct reader *r)
{
	struct glob_seq *seq = arena_zalloc(r->arena, sizeof(*seq));

	if (seq != NULL)
		seq->end = &seq->first;
	return seq;
}

size_t glob_next_char(struct span s, uint32_t *ret_cp)
{
	int n = utf8_decode(s, ret_cp);

	if (n > 0)
		return (size_t)n;
	*ret_cp = 0x110000u + (unsigned char)s.p[0];
	return 1;
}

/* One member of a class, which may be protected; its bytes, or 0 if there is none. */
static size_t class_char(struct span s, uint32_t *ret_cp)
{
	size_t skip = s.len > 0 && s.p[0] == '\\' ? 1 : 0;

	if (s.len <= skip)
		return 0;
	return skip + glob_next_char(span_skip(s, skip), ret_cp);
}

size_t glob_class_range(struct span s, uint32_t *ret_from, uint32_t *ret_to)
{
	size_t n = class_char(s, ret_from), more;

	*ret_to = *ret_from;
	if (n == 0 || s.len < n + 2 || s.p[n] != '-' || s.p[n + 1] == ']')
		return n;
	more = class_char(span_skip(s, n + 1), ret_to);
	return more > 0 && *ret_from <= *ret_to ? n + 1 + more : 0;
}

bool glob_class_is_negated(struct span s)
{
	return s.len > 0 && (s.p[0] == '!' || s.p[0] == '^');
}

/* Behind the '['. The node keeps what is between the brackets. */
static int read_class(struct reader *r, struct glob_seq *seq)
{
	struct span s = r->rest;
	struct glob_node *n;
	uint32_t from = 0, to = 0;
	size_t at = glob_class_is_negated(s) ? 1 : 0, first = at, len;

	while (at < s.len && s.p[at] != ']') {
		len = glob_class_range(span_skip(s, at), &from, &to);
		if (len == 0)
			return malformed(r, "a bad range in []");
		at += len;
	}
	if (at == s.len)
		return malformed(r, "'[' without ']'");
	if (at == first)
		return malformed(r, "nothing in []");
	n = add_node(r, seq, GLOB_ONE_OF);
	if (n == NULL)
		return no_memory(r);
	n->text = span_first(s, at);
	r->rest = span_skip(s, at + 1);
	return 0;
}

/* One byte that stands for itself; those in a row are kept together. */
static int add_literal(struct reader *r, struct glob_seq *seq, const char *byte)
{
	/* seq->end is the `next` of the last node, if there is one */
	struct glob_node *last = seq->first != NULL ? CONTAINER_OF(seq->end, struct glob_node, next)
						    : NULL;

	r->segment_start = *byte == '/';
	if (last == NULL || last->op != GLOB_LITERAL || last->text.p + last->text.len != byte) {
		last = add_node(r, seq, GLOB_LITERAL);
		if (last == NULL)
			return no_memory(r);
		last->text = span_of(byte, 0);
	}
	last->text.len++;
	return 0;
}

static int read_seq(struct reader *r, const char *until, struct glob_seq **ret);

/* Behind "{" or "!(": sequences with `sep` between them up to `close`. */
static int read_branches(struct reader *r, struct glob_seq *seq, enum glob_op op, char sep,
			 char close)
{
	const char until[] = { sep, close, '\0' };
	struct glob_node *n = add_node(r, seq, op);
	struct glob_seq **end;
	bool segment_start = r->segment_start;
	char separator;
	int k;

	if (n == NULL)
		return no_memory(r);
	if (++r->depth > GLOB_MAX_NESTING)
		return err_set(r->e, E2BIG, "the pattern is nested too deeply");
	end = &n->branches;
	do {
		r->segment_start = segment_start;
		k = read_seq(r, until, end);
		if (k < 0)
			return k;
		end = &(*end)->next;
		if (r->rest.len == 0)
			return malformed(r, op == GLOB_EITHER ? "'{' without '}'"
							      : "'!(' without ')'");
		separator = r->rest.p[0];
		r->rest = span_skip(r->rest, 1);
	} while (separator == sep);
	r->depth--;
	r->segment_start = false;
	return 0;
}

static int read_star(struct reader *r, struct glob_seq *seq)
{
	bool twice = take(r, "*");
	enum glob_op op = GLOB_STAR;

	if (twice)
		op = r->segment_start && take(r, "/") ? GLOB_DIRS : GLOB_FAR;
	r->segment_start = op == GLOB_DIRS;
	return add_node(r, seq, op) != NULL ? 0 : no_memory(r);
}

/* "/" + "**" at the very end: either that, or nothing. */
static int read_rest_of_tree(struct reader *r, struct glob_seq *seq)
{
	struct glob_node *n = add_node(r, seq, GLOB_EITHER);
	struct glob_seq *nothing = new_seq(r), *below = new_seq(r);

	if (n == NULL || nothing == NULL || below == NULL)
		return no_memory(r);
	n->branches = nothing;
	nothing->next = below;
	if (add_literal(r, below, r->rest.p) < 0 || add_node(r, below, GLOB_FAR) == NULL)
		return no_memory(r);
	r->rest = span_skip(r->rest, 3);
	return 0;
}

static int read_item(struct reader *r, struct glob_seq *seq)
{
	struct span s = r->rest;

	if (r->depth == 0 && span_is(s, "/**"))
		return read_rest_of_tree(r, seq);
	r->rest = span_skip(s, 1);
	switch (s.p[0]) {
	case '*':
		return read_star(r, seq);
	case '?':
		r->segment_start = false;
		return add_node(r, seq, GLOB_ANY) != NULL ? 0 : no_memory(r);
	case '[':
		r->segment_start = false;
		return read_class(r, seq);
	case '{':
		return read_branches(r, seq, GLOB_EITHER, ',', '}');
	case '}':
		return malformed(r, "'}' without '{'");
	case '!':
		if (take(r, "("))
			return read_branches(r, seq, GLOB_NONE_OF, '|', ')');
		break;
	case '\\':
		if (r->rest.len == 0)
			return malformed(r, "'\\' at the end");
		s = r->rest;
		r->rest = span_skip(s, 1);
		break;
	default:
		break;
	}
	return add_literal(r, seq, s.p);
}

/* Up to one of `until`, which stays. Within !() a bracket may stand for itself, and then so does
 * its other half. */
static int read_seq(struct reader *r, const char *until, struct glob_seq **ret)
{
	struct glob_seq *seq = new_seq(r);
	bool in_brackets = strchr(until, ')') != NULL;
	unsigned open = 0;
	int k = 0;

	if (seq == NULL)
		return no_memory(r);
	*ret = seq;
	while (k == 0 && r->rest.len > 0) {
		char c = r->rest.p[0];

		if (open == 0 && strchr(until, c) != NULL)
			break;
		if (in_brackets && c == '(')
			open++;
		else if (in_brackets && c == ')')
			open--;
		k = read_item(r, seq);
	}
	return k;
}

int glob_read(struct arena *arena, struct span pattern, struct glob_seq **ret, struct err *e)
{
	struct reader r = { .arena = arena, .rest = pattern, .segment_start = true, .e = e };

	return read_seq(&r, "", ret);
}
