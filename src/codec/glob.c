/* A pattern becomes a sequence of nodes. Matching walks them once, carrying the set of places in
 * the text that what was seen so far may end at: each node turns that set into the next one. */
#include "codec/glob.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "codec/utf8.h"

/* What one match may cost, in places looked at; only !() on long texts can come near it. */
#define MAX_STEPS 20000000u

enum op {
	LITERAL, /* text */
	ANY,     /* ? */
	ONE_OF,  /* [text] */
	STAR,    /* * */
	FAR,     /* ** */
	DIRS,    /* ** and a slash */
	EITHER,  /* {} */
	NONE_OF, /* !() */
};

struct node {
	enum op op;
	struct span text;
	struct glob_seq *branches;
	struct node *next;
};

struct glob_seq {
	struct node *first, **end;
	struct glob_seq *next; /* branch */
};

/* ---- reading ---- */

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

static struct node *add_node(struct reader *r, struct glob_seq *seq, enum op op)
{
	struct node *n = arena_zalloc(r->arena, sizeof(*n));

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

/* The character at the front and its length. What is not UTF-8 equals itself alone. */
static size_t next_char(struct span s, uint32_t *ret_cp)
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
	return skip + next_char(span_skip(s, skip), ret_cp);
}

/* A member or a range of them at the front; its bytes, or 0. */
static size_t class_range(struct span s, uint32_t *ret_from, uint32_t *ret_to)
{
	size_t n = class_char(s, ret_from), more;

	*ret_to = *ret_from;
	if (n == 0 || s.len < n + 2 || s.p[n] != '-' || s.p[n + 1] == ']')
		return n;
	more = class_char(span_skip(s, n + 1), ret_to);
	return more > 0 && *ret_from <= *ret_to ? n + 1 + more : 0;
}

static bool class_is_negated(struct span s)
{
	return s.len > 0 && (s.p[0] == '!' || s.p[0] == '^');
}

/* Behind the '['. The node keeps what is between the brackets. */
static int read_class(struct reader *r, struct glob_seq *seq)
{
	struct span s = r->rest;
	struct node *n;
	uint32_t from = 0, to = 0;
	size_t at = class_is_negated(s) ? 1 : 0, first = at, len;

	while (at < s.len && s.p[at] != ']') {
		len = class_range(span_skip(s, at), &from, &to);
		if (len == 0)
			return malformed(r, "a bad range in []");
		at += len;
	}
	if (at == s.len)
		return malformed(r, "'[' without ']'");
	if (at == first)
		return malformed(r, "nothing in []");
	n = add_node(r, seq, ONE_OF);
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
	struct node *last = seq->first != NULL ? CONTAINER_OF(seq->end, struct node, next) : NULL;

	r->segment_start = *byte == '/';
	if (last == NULL || last->op != LITERAL || last->text.p + last->text.len != byte) {
		last = add_node(r, seq, LITERAL);
		if (last == NULL)
			return no_memory(r);
		last->text = span_of(byte, 0);
	}
	last->text.len++;
	return 0;
}

static int read_seq(struct reader *r, const char *until, struct glob_seq **ret);

/* Behind "{" or "!(": sequences with `sep` between them up to `close`. */
static int read_branches(struct reader *r, struct glob_seq *seq, enum op op, char sep, char close)
{
	const char until[] = { sep, close, '\0' };
	struct node *n = add_node(r, seq, op);
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
			return malformed(r, op == EITHER ? "'{' without '}'" : "'!(' without ')'");
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
	enum op op = STAR;

	if (twice)
		op = r->segment_start && take(r, "/") ? DIRS : FAR;
	r->segment_start = op == DIRS;
	return add_node(r, seq, op) != NULL ? 0 : no_memory(r);
}

/* "/" + "**" at the very end: either that, or nothing. */
static int read_rest_of_tree(struct reader *r, struct glob_seq *seq)
{
	struct node *n = add_node(r, seq, EITHER);
	struct glob_seq *nothing = new_seq(r), *below = new_seq(r);

	if (n == NULL || nothing == NULL || below == NULL)
		return no_memory(r);
	n->branches = nothing;
	nothing->next = below;
	if (add_literal(r, below, r->rest.p) < 0 || add_node(r, below, FAR) == NULL)
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
		return add_node(r, seq, ANY) != NULL ? 0 : no_memory(r);
	case '[':
		r->segment_start = false;
		return read_class(r, seq);
	case '{':
		return read_branches(r, seq, EITHER, ',', '}');
	case '}':
		return malformed(r, "'}' without '{'");
	case '!':
		if (take(r, "("))
			return read_branches(r, seq, NONE_OF, '|', ')');
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

int glob_init(struct glob *g, struct span pattern, struct err *e)
{
	struct glob_seq *seq = NULL;
	struct reader r = { .segment_start = true, .e = e };
	char *copy;
	int k;

	/* a node per byte at most, and a sequence */
	*g = (struct glob){ .arena = ARENA_INIT(GLOB_MAX_PATTERN * 2 * sizeof(struct node)) };
	if (pattern.len > GLOB_MAX_PATTERN)
		return err_set(e, E2BIG, "the pattern is too long");
	if (span_find(pattern, '\0') >= 0)
		return err_set(e, EINVAL, "the pattern contains a NUL");
	r.arena = &g->arena;
	copy = arena_dup(&g->arena, pattern);
	if (copy == NULL)
		return no_memory(&r);
	r.rest = span_of(copy, pattern.len);
	g->has_slash = span_find(r.rest, '/') >= 0;
	g->absolute = span_starts(r.rest, "/");
	k = read_seq(&r, "", &seq);
	if (k < 0) {
		glob_free(g);
		return k;
	}
	g->seq = seq;
	return 0;
}

void glob_free(struct glob *g)
{
	arena_free(&g->arena);
	g->seq = NULL;
}

/* ---- matching ---- */

#define SET_WORDS (GLOB_MAX_TEXT / 64 + 1)

/* Places in the text: bit i is "in front of byte i". Only the words a text needs are ever
 * touched. */
struct set {
	uint64_t w[SET_WORDS];
};

struct match {
	struct span text;
	size_t words;
	unsigned steps;   /* left */
	struct set chars; /* where characters begin, and the end */
};

static void set_clear(const struct match *m, struct set *s)
{
	memset(s->w, 0, m->words * sizeof(s->w[0]));
}

static void set_copy(const struct match *m, struct set *to, const struct set *from)
{
	memcpy(to->w, from->w, m->words * sizeof(to->w[0]));
}

static void set_add(struct set *s, size_t i)
{
	s->w[i / 64] |= UINT64_C(1) << i % 64;
}

static bool set_has(const struct set *s, size_t i)
{
	return (s->w[i / 64] >> i % 64 & 1) != 0;
}

static void set_merge(const struct match *m, struct set *into, const struct set *from)
{
	for (size_t i = 0; i < m->words; i++)
		into->w[i] |= from->w[i];
}

/* The first place at or behind `from`, or one behind the end of the text. */
static size_t set_next(const struct match *m, const struct set *s, size_t from)
{
	size_t word = from / 64;
	uint64_t bits;

	if (from > m->text.len)
		return from;
	bits = s->w[word] & ~UINT64_C(0) << from % 64;
	while (bits == 0) {
		if (++word == m->words)
			return m->text.len + 1;
		bits = s->w[word];
	}
	return word * 64 + (size_t)__builtin_ctzll(bits);
}

#define set_for_each(i, m, s) \
	for (size_t i = set_next(m, s, 0); i <= (m)->text.len; i = set_next(m, s, i + 1))

static bool spend(struct match *m, size_t steps)
{
	m->steps -= (unsigned)MIN(steps, (size_t)m->steps);
	return m->steps > 0;
}

static bool class_has(struct span s, uint32_t cp)
{
	bool negated = class_is_negated(s), found = false;
	uint32_t from, to;

	if (negated)
		s = span_skip(s, 1);
	while (s.len > 0 && !found) {
		s = span_skip(s, class_range(s, &from, &to));
		found = from <= cp && cp <= to;
	}
	return found != negated;
}

static void match_literal(struct match *m, const struct node *n, struct set *places)
{
	struct set next;

	set_clear(m, &next);
	set_for_each (i, m, places)
		if (m->text.len - i >= n->text.len &&
		    memcmp(m->text.p + i, n->text.p, n->text.len) == 0)
			set_add(&next, i + n->text.len);
	set_copy(m, places, &next);
}

static void match_char(struct match *m, const struct node *n, struct set *places)
{
	struct set next;
	uint32_t cp;

	set_clear(m, &next);
	set_for_each (i, m, places) {
		if (i == m->text.len)
			break;
		size_t len = next_char(span_skip(m->text, i), &cp);

		if (cp != '/' && (n->op == ANY || class_has(n->text, cp)))
			set_add(&next, i + len);
	}
	set_copy(m, places, &next);
}

/* Every place up to the next slash (*), up to the end (**), or behind every slash (directories). */
static void match_star(struct match *m, const struct node *n, struct set *places)
{
	bool on = false;

	for (size_t i = set_next(m, places, 0); i < m->text.len; i++) {
		bool slash = m->text.p[i] == '/';

		on |= set_has(places, i);
		if (n->op == STAR)
			on &= !slash;
		if (on && (n->op != DIRS || slash) && set_has(&m->chars, i + 1))
			set_add(places, i + 1);
	}
}

static void match_seq(struct match *m, const struct glob_seq *seq, struct set *places);

static void match_branches(struct match *m, const struct node *n, struct set *places)
{
	struct set all, one;

	set_clear(m, &all);
	for (const struct glob_seq *b = n->branches; b != NULL; b = b->next) {
		set_copy(m, &one, places);
		match_seq(m, b, &one);
		set_merge(m, &all, &one);
	}
	set_copy(m, places, &all);
}

/* From each place alone: every end within the segment, but for those of the branches. */
static void match_none_of(struct match *m, const struct node *n, struct set *places)
{
	struct set all, ends;

	set_clear(m, &all);
	set_for_each (from, m, places) {
		set_clear(m, &ends);
		set_add(&ends, from);
		match_branches(m, n, &ends);
		for (size_t i = from; i <= m->text.len; i++) {
			if (!set_has(&ends, i) && set_has(&m->chars, i))
				set_add(&all, i);
			if (i == m->text.len || m->text.p[i] == '/')
				break;
		}
		if (m->steps == 0)
			break;
	}
	set_copy(m, places, &all);
}

static void match_seq(struct match *m, const struct glob_seq *seq, struct set *places)
{
	for (const struct node *n = seq->first; n != NULL; n = n->next) {
		if (set_next(m, places, 0) > m->text.len || !spend(m, m->text.len + 1))
			return;
		switch (n->op) {
		case LITERAL:
			match_literal(m, n, places);
			break;
		case ANY:
		case ONE_OF:
			match_char(m, n, places);
			break;
		case STAR:
		case FAR:
		case DIRS:
			match_star(m, n, places);
			break;
		case EITHER:
			match_branches(m, n, places);
			break;
		case NONE_OF:
			match_none_of(m, n, places);
			break;
		}
	}
}

static void find_chars(struct match *m)
{
	uint32_t cp;

	set_clear(m, &m->chars);
	for (size_t i = 0; i < m->text.len; i += next_char(span_skip(m->text, i), &cp))
		set_add(&m->chars, i);
	set_add(&m->chars, m->text.len);
}

bool glob_match(const struct glob *g, struct span text)
{
	struct set places;
	struct match m;

	if (text.len > GLOB_MAX_TEXT || g->seq == NULL)
		return false;
	m.text = text;
	m.words = text.len / 64 + 1;
	m.steps = MAX_STEPS;
	find_chars(&m);
	set_clear(&m, &places);
	set_add(&places, 0);
	match_seq(&m, g->seq, &places);
	return m.steps > 0 && set_has(&places, text.len);
}
