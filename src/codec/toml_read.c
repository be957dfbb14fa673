#include "codec/toml.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/buf.h"
#include "codec/chars.h"
#include "codec/toml_number.h"
#include "codec/utf8.h"

/* Recursive descent, one function per piece of the grammar. Every one starts at r->p and leaves it
 * behind what it read; on error it returns a negative number and the words are in r->e. */
struct reader {
	struct arena *arena;
	const char *p, *end;
	const char *line_start;
	unsigned line;
	unsigned depth;
	unsigned n_nodes;
	struct toml_node *root;
	struct toml_node *section; /* the table that keys go to */
	struct buf scratch;        /* a string while it is read */
	struct err *e;
};

struct key {
	unsigned n;
	struct span parts[TOML_MAX_DEPTH];
	const char *start;
};

static int fail_at(struct reader *r, const char *at, const char *fmt, ...) PRINTF(3, 4);
static int fail_at(struct reader *r, const char *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)err_vset(r->e, EINVAL, fmt, ap);
	va_end(ap);
	/* a key may be long: the place comes first, so that it is never what gets cut */
	if (r->e != NULL)
		(void)err_wrap(r->e, "line %u, column %zu", r->line,
			       (size_t)(at - r->line_start) + 1);
	return -EINVAL;
}

static int fail(struct reader *r, const char *words)
{
	return fail_at(r, r->p, "%s", words);
}

static int no_memory(struct reader *r)
{
	return err_set(r->e, ENOMEM, "line %u: not enough memory", r->line);
}

/* ---- bytes ---- */

static bool at_end(const struct reader *r)
{
	return r->p == r->end;
}

/* The byte at r->p, or NUL at the end; NUL itself was refused before. */
static char peek(const struct reader *r)
{
	return at_end(r) ? '\0' : *r->p;
}

static bool take(struct reader *r, char c)
{
	if (peek(r) != c || at_end(r))
		return false;
	r->p++;
	return true;
}

static bool starts(const struct reader *r, const char *s)
{
	return span_starts(span_of(r->p, (size_t)(r->end - r->p)), s);
}

static size_t newline_len(const struct reader *r)
{
	if (peek(r) == '\n')
		return 1;
	return starts(r, "\r\n") ? 2 : 0;
}

static bool take_newline(struct reader *r)
{
	size_t n = newline_len(r);

	if (n == 0)
		return false;
	r->p += n;
	r->line++;
	r->line_start = r->p;
	return true;
}

static void skip_blanks(struct reader *r)
{
	while (peek(r) == ' ' || peek(r) == '\t')
		r->p++;
}

static bool is_control(char c)
{
	return chars_is(c, CHARS_CTL);
}

static int skip_comment(struct reader *r)
{
	if (!take(r, '#'))
		return 0;
	while (!at_end(r) && newline_len(r) == 0) {
		if (is_control(*r->p))
			return fail(r, "control character in a comment");
		r->p++;
	}
	return 0;
}

/* Blanks, comments and line ends, as they may stand within an array. */
static int skip_space(struct reader *r)
{
	int k;

	do {
		skip_blanks(r);
		k = skip_comment(r);
		if (k < 0)
			return k;
	} while (take_newline(r));
	return 0;
}

/* Nothing but a comment may follow on this line. */
static int end_line(struct reader *r)
{
	int k;

	skip_blanks(r);
	k = skip_comment(r);
	if (k < 0)
		return k;
	if (!at_end(r) && !take_newline(r))
		return fail(r, "something unexpected at the end of the line");
	return 0;
}

/* ---- strings ---- */

/* \uXXXX and \UXXXXXXXX: the digits are at r->p. */
static int read_unicode(struct reader *r, size_t digits)
{
	uint64_t cp;
	char text[4];
	size_t n;

	if ((size_t)(r->end - r->p) < digits || !span_hex_u64(span_of(r->p, digits), &cp))
		return fail(r, "hexadecimal digits expected");
	n = cp <= 0x10ffff ? utf8_put((uint32_t)cp, text) : 0;
	if (n == 0 || cp == 0)
		return fail(r, "no such character");
	r->p += digits;
	return buf_add(&r->scratch, text, n);
}

/* Behind a backslash. */
static int read_escape(struct reader *r, bool multiline)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	const char *at = at_end(r) ? NULL : strchr(from, *r->p);
	struct reader before = *r;

	if (at != NULL) {
		r->p++;
		return buf_add_char(&r->scratch, to[at - from]);
	}
	if (take(r, 'u'))
		return read_unicode(r, 4);
	if (take(r, 'U'))
		return read_unicode(r, 8);
	/* at the end of a line: what is blank up to the next word is left out */
	skip_blanks(r);
	if (!multiline || newline_len(r) == 0)
		return fail(&before, "unknown escape");
	do {
		skip_blanks(r);
	} while (take_newline(r));
	skip_blanks(r);
	return 0;
}

/* How many of that quote stand here? Five at most: three that end the text, two of its own. */
static size_t count_quotes(const struct reader *r, char quote)
{
	size_t n = 0;

	while (n < 5 && r->p + n < r->end && r->p[n] == quote)
		n++;
	return n;
}

/* The inside of a string up to its end, which is left. */
static int read_text(struct reader *r, char quote, bool multiline)
{
	struct reader opened = *r;
	int k = 0;

	while (k >= 0) {
		if (at_end(r) || (!multiline && newline_len(r) > 0))
			return fail(&opened, "this string does not end");
		if (*r->p == quote && (!multiline || count_quotes(r, quote) >= 3))
			return 0;
		if (quote == '"' && take(r, '\\'))
			k = read_escape(r, multiline);
		else if (take_newline(r))
			k = buf_add_char(&r->scratch, '\n');
		else if (is_control(*r->p))
			k = fail(r, "control character in a string");
		else
			k = buf_add_char(&r->scratch, *r->p++);
	}
	return k;
}

/* "basic" or 'literal', or over several lines in three quotes. */
static int read_string(struct reader *r, bool may_be_multiline, struct span *ret)
{
	char quote = *r->p, *copy;
	bool multiline = may_be_multiline && count_quotes(r, quote) >= 3;
	int k;

	buf_clear(&r->scratch);
	r->p += multiline ? 3 : 1;
	if (multiline)
		(void)take_newline(r);
	k = read_text(r, quote, multiline);
	if (k < 0)
		return k == -EINVAL ? k : no_memory(r);
	if (multiline) { /* quotes beyond the three belong to the text */
		size_t own = count_quotes(r, quote) - 3;

		if (buf_add(&r->scratch, r->p, own) < 0)
			return no_memory(r);
		r->p += own;
	}
	r->p += multiline ? 3 : 1;
	copy = arena_dup(r->arena, buf_span(&r->scratch));
	if (copy == NULL)
		return no_memory(r);
	*ret = span_of(copy, r->scratch.len);
	return 0;
}

/* ---- keys and tables ---- */

static bool is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int read_key_part(struct reader *r, struct span *ret)
{
	const char *start = r->p;
	char *copy;

	if (peek(r) == '"' || peek(r) == '\'')
		return read_string(r, false, ret);
	while (!at_end(r) && is_bare(*r->p))
		r->p++;
	if (r->p == start)
		return fail(r, "a key is expected");
	*ret = span_of(start, (size_t)(r->p - start));
	copy = arena_dup(r->arena, *ret);
	if (copy == NULL)
		return no_memory(r);
	ret->p = copy;
	return 0;
}

/* a.b."c d", with the blanks around it. */
static int read_key(struct reader *r, struct key *ret)
{
	int k;

	skip_blanks(r);
	ret->start = r->p;
	ret->n = 0;
	do {
		if (ret->n == ARRAY_LEN(ret->parts))
			return fail(r, "a key has too many parts");
		skip_blanks(r);
		k = read_key_part(r, &ret->parts[ret->n]);
		if (k < 0)
			return k;
		ret->n++;
		skip_blanks(r);
	} while (take(r, '.'));
	return 0;
}

static int already_there(struct reader *r, const struct key *key, const struct toml_node *n)
{
	char path[160];

	toml_path(n, path, sizeof(path));
	return fail_at(r, key->start, "'%s' is defined already in line %u", path, n->line);
}

/* A node at the end of a table or array. */
static struct toml_node *add_node(struct reader *r, struct toml_node *parent, struct span key,
				  const char *at)
{
	struct toml_node *n;

	if (r->n_nodes == TOML_MAX_NODES) {
		(void)err_set(r->e, EMSGSIZE, "line %u: more than %d values", r->line,
			      TOML_MAX_NODES);
		return NULL;
	}
	n = arena_zalloc(r->arena, sizeof(*n));
	if (n == NULL) {
		(void)no_memory(r);
		return NULL;
	}
	r->n_nodes++;
	n->line = r->line;
	n->column = (unsigned)(at - r->line_start) + 1;
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
static int walk_header(struct reader *r, const struct key *key, struct toml_node **ret)
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
static int walk_dotted(struct reader *r, const struct key *key, struct toml_node *section,
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

/* [a.b]: r->p is behind the bracket. */
static int read_table_header(struct reader *r, const struct key *key)
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
		n->line = r->line;
	} else {
		return already_there(r, key, n);
	}
	r->section = n;
	return 0;
}

/* [[a.b]] */
static int read_list_header(struct reader *r, const struct key *key)
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
	struct key key = { 0 };
	int k;

	r->p++;
	list = take(r, '[');
	k = read_key(r, &key);
	if (k < 0)
		return k;
	if (!take(r, ']') || (list && !take(r, ']')))
		return fail(r, list ? "']]' is expected" : "']' is expected");
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
	const char *start = r->p;
	struct span s;

	while (!at_end(r) && (is_bare(*r->p) || strchr("+.:", *r->p) != NULL))
		r->p++;
	s = span_of(start, (size_t)(r->p - start));
	if (s.len == 0)
		return fail(r, "a value is expected");
	if (span_is(s, "true") || span_is(s, "false")) {
		n->type = TOML_BOOLEAN;
		n->boolean = s.p[0] == 't';
		return 0;
	}
	if ((all_digits(s, 4) && s.p[4] == '-') || (all_digits(s, 2) && s.p[2] == ':'))
		return fail_at(r, start, "dates and times are not supported, use a string");
	if (!toml_number(s, n))
		return fail_at(r, start, "'%.*s' is not a value", (int)MIN(s.len, (size_t)40), s.p);
	return 0;
}

static int read_value(struct reader *r, struct toml_node *n);

static int read_pair(struct reader *r, struct toml_node *section)
{
	struct toml_node *t = NULL, *n;
	struct key key = { 0 };
	int k;

	k = read_key(r, &key);
	if (k < 0)
		return k;
	if (!take(r, '='))
		return fail(r, "'=' is expected");
	k = walk_dotted(r, &key, section, &t);
	if (k < 0)
		return k;
	n = toml_child(t, key.parts[key.n - 1]);
	if (n != NULL)
		return already_there(r, &key, n);
	k = add_table(r, t, key.parts[key.n - 1], key.start, TOML_CLOSED, &n);
	if (k < 0)
		return k;
	skip_blanks(r);
	return read_value(r, n);
}

static int read_array(struct reader *r, struct toml_node *n)
{
	struct toml_node *item;
	int k;

	n->type = TOML_ARRAY;
	r->p++;
	for (;;) {
		k = skip_space(r);
		if (k < 0)
			return k;
		if (take(r, ']'))
			return 0;
		k = add_table(r, n, span_of(NULL, 0), r->p, TOML_CLOSED, &item);
		if (k == 0)
			k = read_value(r, item);
		if (k == 0)
			k = skip_space(r);
		if (k < 0)
			return k;
		if (take(r, ']'))
			return 0;
		if (!take(r, ','))
			return fail(r, "',' or ']' is expected");
	}
}

static int read_inline_table(struct reader *r, struct toml_node *n)
{
	int k;

	n->type = TOML_TABLE;
	r->p++;
	skip_blanks(r);
	if (take(r, '}'))
		return 0;
	for (;;) {
		k = read_pair(r, n);
		if (k < 0)
			return k;
		skip_blanks(r);
		if (take(r, '}'))
			return 0;
		if (!take(r, ','))
			return fail(r, "',' or '}' is expected");
	}
}

static int read_value(struct reader *r, struct toml_node *n)
{
	int k;

	switch (peek(r)) {
	case '"':
	case '\'':
		n->type = TOML_STRING;
		return read_string(r, true, &n->string);
	case '[':
	case '{':
		if (++r->depth > TOML_MAX_DEPTH)
			return fail(r, "nested too deeply");
		k = peek(r) == '[' ? read_array(r, n) : read_inline_table(r, n);
		r->depth--;
		return k;
	default:
		return read_word(r, n);
	}
}

static int read_line(struct reader *r)
{
	int k = 0;

	skip_blanks(r);
	if (peek(r) == '[')
		k = read_header(r);
	else if (!at_end(r) && peek(r) != '#' && newline_len(r) == 0)
		k = read_pair(r, r->section);
	return k < 0 ? k : end_line(r);
}

/* NUL and what is not UTF-8 are told with their line before anything else is read. */
static int check_bytes(struct reader *r)
{
	struct reader scan = *r;
	uint32_t cp;
	int n;

	while (!at_end(&scan)) {
		if (take_newline(&scan))
			continue;
		n = utf8_decode(span_of(scan.p, (size_t)(scan.end - scan.p)), &cp);
		if (n < 0)
			return fail(&scan, "not UTF-8");
		if (cp == 0)
			return fail(&scan, "a NUL character");
		scan.p += n;
	}
	return 0;
}

int toml_parse(struct arena *arena, struct span text, struct toml_node **ret, struct err *e)
{
	if (text.len == 0)
		text = SPAN_LIT(""); /* NULL has no end to compare with */

	struct reader r = {
		.arena = arena,
		.p = text.p,
		.end = text.p + text.len,
		.line_start = text.p,
		.line = 1,
		.scratch = BUF_INIT(TOML_MAX_BYTES),
		.e = e,
	};
	int k;

	if (text.len > TOML_MAX_BYTES)
		return err_set(e, EMSGSIZE, "longer than %zu bytes", TOML_MAX_BYTES);
	k = check_bytes(&r);
	if (k == 0 && starts(&r, "\xef\xbb\xbf"))
		r.p += 3; /* some editors put a mark of the encoding in front */
	if (k == 0)
		k = add_table(&r, NULL, span_of(NULL, 0), r.p, TOML_HEADER, &r.root);
	r.section = r.root;
	while (k == 0 && !at_end(&r))
		k = read_line(&r);
	buf_free(&r.scratch);
	if (k < 0)
		return k;
	*ret = r.root;
	return 0;
}
