#include "codec/toml_text.h"

#include <errno.h>
#include <stdarg.h>

#include "codec/chars.h"
#include "codec/utf8.h"

int toml_text_fail_at(struct toml_text *t, const char *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)err_vset(t->e, EINVAL, fmt, ap);
	va_end(ap);
	/* a key may be long: the place comes first, so that it is never what gets cut */
	if (t->e != NULL)
		(void)err_wrap(t->e, "line %u, column %zu", t->line,
			       (size_t)(at - t->line_start) + 1);
	return -EINVAL;
}

int toml_text_fail(struct toml_text *t, const char *words)
{
	return toml_text_fail_at(t, t->p, "%s", words);
}

int toml_text_no_memory(struct toml_text *t)
{
	return err_set(t->e, ENOMEM, "line %u: not enough memory", t->line);
}

/* ---- bytes ---- */

bool toml_text_at_end(const struct toml_text *t)
{
	return t->p == t->end;
}

char toml_text_peek(const struct toml_text *t)
{
	return toml_text_at_end(t) ? '\0' : *t->p;
}

bool toml_text_take(struct toml_text *t, char c)
{
	if (toml_text_peek(t) != c || toml_text_at_end(t))
		return false;
	t->p++;
	return true;
}

static bool starts(const struct toml_text *t, const char *s)
{
	return span_starts(span_of(t->p, (size_t)(t->end - t->p)), s);
}

size_t toml_text_newline_len(const struct toml_text *t)
{
	if (toml_text_peek(t) == '\n')
		return 1;
	return starts(t, "\r\n") ? 2 : 0;
}

bool toml_text_take_newline(struct toml_text *t)
{
	size_t n = toml_text_newline_len(t);

	if (n == 0)
		return false;
	t->p += n;
	t->line++;
	t->line_start = t->p;
	return true;
}

void toml_text_skip_blanks(struct toml_text *t)
{
	while (toml_text_peek(t) == ' ' || toml_text_peek(t) == '\t')
		t->p++;
}

static bool is_control(char c)
{
	return chars_is(c, CHARS_CTL);
}

static int skip_comment(struct toml_text *t)
{
	if (!toml_text_take(t, '#'))
		return 0;
	while (!toml_text_at_end(t) && toml_text_newline_len(t) == 0) {
		if (is_control(*t->p))
			return toml_text_fail(t, "control character in a comment");
		t->p++;
	}
	return 0;
}

int toml_text_skip_space(struct toml_text *t)
{
	int k;

	do {
		toml_text_skip_blanks(t);
		k = skip_comment(t);
		if (k < 0)
			return k;
	} while (toml_text_take_newline(t));
	return 0;
}

int toml_text_end_line(struct toml_text *t)
{
	int k;

	toml_text_skip_blanks(t);
	k = skip_comment(t);
	if (k < 0)
		return k;
	if (!toml_text_at_end(t) && !toml_text_take_newline(t))
		return toml_text_fail(t, "something unexpected at the end of the line");
	return 0;
}

/* ---- strings ---- */

/* \uXXXX and \UXXXXXXXX: the digits are at t->p. */
static int read_unicode(struct toml_text *t, size_t digits)
{
	uint64_t cp;
	char text[4];
	size_t n;

	if ((size_t)(t->end - t->p) < digits || !span_hex_u64(span_of(t->p, digits), &cp))
		return toml_text_fail(t, "hexadecimal digits expected");
	n = cp <= 0x10ffff ? utf8_put((uint32_t)cp, text) : 0;
	if (n == 0 || cp == 0)
		return toml_text_fail(t, "no such character");
	t->p += digits;
	return buf_add(&t->scratch, text, n);
}

/* Behind a backslash. */
static int read_escape(struct toml_text *t, bool multiline)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	const char *at = toml_text_at_end(t) ? NULL : strchr(from, *t->p);
	struct toml_text before = *t;

	if (at != NULL) {
		t->p++;
		return buf_add_char(&t->scratch, to[at - from]);
	}
	if (toml_text_take(t, 'u'))
		return read_unicode(t, 4);
	if (toml_text_take(t, 'U'))
		return read_unicode(t, 8);
	/* at the end of a line: what is blank up to the next word is left out */
	toml_text_skip_blanks(t);
	if (!multiline || toml_text_newline_len(t) == 0)
		return toml_text_fail(&before, "unknown escape");
	do {
		toml_text_skip_blanks(t);
	} while (toml_text_take_newline(t));
	toml_text_skip_blanks(t);
	return 0;
}

/* How many of that quote stand here? Five at most: three that end the text, two of its own. */
static size_t count_quotes(const struct toml_text *t, char quote)
{
	size_t n = 0;

	while (n < 5 && t->p + n < t->end && t->p[n] == quote)
		n++;
	return n;
}

/* The inside of a string up to its end, which is left. */
static int read_text(struct toml_text *t, char quote, bool multiline)
{
	struct toml_text opened = *t;
	int k = 0;

	while (k >= 0) {
		if (toml_text_at_end(t) || (!multiline && toml_text_newline_len(t) > 0))
			return toml_text_fail(&opened, "this string does not end");
		if (*t->p == quote && (!multiline || count_quotes(t, quote) >= 3))
			return 0;
		if (quote == '"' && toml_text_take(t, '\\'))
			k = read_escape(t, multiline);
		else if (toml_text_take_newline(t))
			k = buf_add_char(&t->scratch, '\n');
		else if (is_control(*t->p))
			k = toml_text_fail(t, "control character in a string");
		else
			k = buf_add_char(&t->scratch, *t->p++);
	}
	return k;
}

int toml_text_string(struct toml_text *t, bool may_be_multiline, struct span *ret)
{
	char quote = *t->p, *copy;
	bool multiline = may_be_multiline && count_quotes(t, quote) >= 3;
	int k;

	buf_clear(&t->scratch);
	t->p += multiline ? 3 : 1;
	if (multiline)
		(void)toml_text_take_newline(t);
	k = read_text(t, quote, multiline);
	if (k < 0)
		return k == -EINVAL ? k : toml_text_no_memory(t);
	if (multiline) { /* quotes beyond the three belong to the text */
		size_t own = count_quotes(t, quote) - 3;

		if (buf_add(&t->scratch, t->p, own) < 0)
			return toml_text_no_memory(t);
		t->p += own;
	}
	t->p += multiline ? 3 : 1;
	copy = arena_dup(t->arena, buf_span(&t->scratch));
	if (copy == NULL)
		return toml_text_no_memory(t);
	*ret = span_of(copy, t->scratch.len);
	return 0;
}

/* ---- keys ---- */

bool toml_text_is_bare(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int read_key_part(struct toml_text *t, struct span *ret)
{
	const char *start = t->p;
	char *copy;

	if (toml_text_peek(t) == '"' || toml_text_peek(t) == '\'')
		return toml_text_string(t, false, ret);
	while (!toml_text_at_end(t) && toml_text_is_bare(*t->p))
		t->p++;
	if (t->p == start)
		return toml_text_fail(t, "a key is expected");
	*ret = span_of(start, (size_t)(t->p - start));
	copy = arena_dup(t->arena, *ret);
	if (copy == NULL)
		return toml_text_no_memory(t);
	ret->p = copy;
	return 0;
}

int toml_text_key(struct toml_text *t, struct toml_key *ret)
{
	int k;

	toml_text_skip_blanks(t);
	ret->start = t->p;
	ret->n = 0;
	do {
		if (ret->n == ARRAY_LEN(ret->parts))
			return toml_text_fail(t, "a key has too many parts");
		toml_text_skip_blanks(t);
		k = read_key_part(t, &ret->parts[ret->n]);
		if (k < 0)
			return k;
		ret->n++;
		toml_text_skip_blanks(t);
	} while (toml_text_take(t, '.'));
	return 0;
}

/* ---- all of it ---- */

/* NUL and what is not UTF-8 are told with their line before anything else is read. */
static int check_bytes(const struct toml_text *t)
{
	struct toml_text scan = *t;
	uint32_t cp;
	int n;

	while (!toml_text_at_end(&scan)) {
		if (toml_text_take_newline(&scan))
			continue;
		n = utf8_decode(span_of(scan.p, (size_t)(scan.end - scan.p)), &cp);
		if (n < 0)
			return toml_text_fail(&scan, "not UTF-8");
		if (cp == 0)
			return toml_text_fail(&scan, "a NUL character");
		scan.p += n;
	}
	return 0;
}

int toml_text_open(struct toml_text *t, struct arena *arena, struct span text, struct err *e)
{
	int k;

	if (text.len > TOML_MAX_BYTES)
		return err_set(e, EMSGSIZE, "longer than %zu bytes", TOML_MAX_BYTES);
	if (text.len == 0)
		text = SPAN_LIT(""); /* NULL has no end to compare with */
	*t = (struct toml_text){
		.arena = arena,
		.p = text.p,
		.end = text.p + text.len,
		.line_start = text.p,
		.line = 1,
		.scratch = BUF_INIT(TOML_MAX_BYTES),
		.e = e,
	};
	k = check_bytes(t);
	if (k == 0 && starts(t, "\xef\xbb\xbf"))
		t->p += 3; /* some editors put a mark of the encoding in front */
	return k;
}

void toml_text_close(struct toml_text *t)
{
	buf_free(&t->scratch);
}
