/* A pattern becomes a sequence of nodes (glob_read.c). Matching walks them once, carrying the set
 * of places in the text that what was seen so far may end at: each node turns that set into the
 * next one. */
#include "codec/glob.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/util.h"
#include "codec/glob_read.h"

/* What one match may cost, in places looked at; only !() on long texts can come near it. */
#define MAX_STEPS 20000000u

int glob_init(struct glob *g, struct span pattern, struct err *e)
{
	struct glob_seq *seq = NULL;
	char *copy;
	int k;

	/* a node per byte at most, and a sequence */
	*g = (struct glob){ .arena = ARENA_INIT(GLOB_MAX_PATTERN * 2 * sizeof(struct glob_node)) };
	if (pattern.len > GLOB_MAX_PATTERN)
		return err_set(e, E2BIG, "the pattern is too long");
	if (span_find(pattern, '\0') >= 0)
		return err_set(e, EINVAL, "the pattern contains a NUL");
	copy = arena_dup(&g->arena, pattern);
	if (copy == NULL)
		return err_set(e, ENOMEM, "not enough memory for the pattern");
	g->has_slash = span_find(pattern, '/') >= 0;
	g->absolute = span_starts(pattern, "/");
	k = glob_read(&g->arena, span_of(copy, pattern.len), &seq, e);
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
	bool negated = glob_class_is_negated(s), found = false;
	uint32_t from, to;

	if (negated)
		s = span_skip(s, 1);
	while (s.len > 0 && !found) {
		s = span_skip(s, glob_class_range(s, &from, &to));
		found = from <= cp && cp <= to;
	}
	return found != negated;
}

static void match_literal(struct match *m, const struct glob_node *n, struct set *places)
{
	struct set next;

	set_clear(m, &next);
	set_for_each (i, m, places)
		if (m->text.len - i >= n->text.len &&
		    memcmp(m->text.p + i, n->text.p, n->text.len) == 0)
			set_add(&next, i + n->text.len);
	set_copy(m, places, &next);
}

static void match_char(struct match *m, const struct glob_node *n, struct set *places)
{
	struct set next;
	uint32_t cp;

	set_clear(m, &next);
	set_for_each (i, m, places) {
		if (i == m->text.len)
			break;
		size_t len = glob_next_char(span_skip(m->text, i), &cp);

		if (cp != '/' && (n->op == GLOB_ANY || class_has(n->text, cp)))
			set_add(&next, i + len);
	}
	set_copy(m, places, &next);
}

/* Every place up to the next slash (*), up to the end (**), or behind every slash (directories). */
static void match_star(struct match *m, const struct glob_node *n, struct set *places)
{
	bool on = false;

	for (size_t i = set_next(m, places, 0); i < m->text.len; i++) {
		bool slash = m->text.p[i] == '/';

		on |= set_has(places, i);
		if (n->op == GLOB_STAR)
			on &= !slash;
		if (on && (n->op != GLOB_DIRS || slash) && set_has(&m->chars, i + 1))
			set_add(places, i + 1);
	}
}

static void match_seq(struct match *m, const struct glob_seq *seq, struct set *places);

static void match_branches(struct match *m, const struct glob_node *n, struct set *places)
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
static void match_none_of(struct match *m, const struct glob_node *n, struct set *places)
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
	for (const struct glob_node *n = seq->first; n != NULL; n = n->next) {
		if (set_next(m, places, 0) > m->text.len || !spend(m, m->text.len + 1))
			return;
		switch (n->op) {
		case GLOB_LITERAL:
			match_literal(m, n, places);
			break;
		case GLOB_ANY:
		case GLOB_ONE_OF:
			match_char(m, n, places);
			break;
		case GLOB_STAR:
		case GLOB_FAR:
		case GLOB_DIRS:
			match_star(m, n, places);
			break;
		case GLOB_EITHER:
			match_branches(m, n, places);
			break;
		case GLOB_NONE_OF:
			match_none_of(m, n, places);
			break;
		}
	}
}

static void find_chars(struct match *m)
{
	uint32_t cp;

	set_clear(m, &m->chars);
	for (size_t i = 0; i < m->text.len; i += glob_next_char(span_skip(m->text, i), &cp))
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
