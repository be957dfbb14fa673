#include "codec/param.h"

#include "codec/chars.h"
#include "codec/url.h"
#include "codec/utf8.h"

struct span param_first(struct span value, struct span *rest)
{
	struct span first = span_cut(&value, ';');

	*rest = value;
	return span_trim(first);
}

/* The raw inside of a quoted string that begins at s.p[0]; 0 if it does not end, else its bytes
 * with both quotes. A backslash hides the quote behind it. */
static size_t quoted_len(struct span s)
{
	for (size_t i = 1; i < s.len; i++) {
		if (s.p[i] == '"')
			return i + 1;
		if (s.p[i] == '\\' && i + 1 < s.len && (s.p[i + 1] == '"' || s.p[i + 1] == '\\'))
			i++;
	}
	return 0;
}

static bool is_bare(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c <= ' ' || c == 0x7f || c == '"' || c == ';')
			return false;
	}
	return s.len > 0;
}

int param_next(struct span *rest, struct param *ret)
{
	struct span s = *rest;
	struct param p = { 0 };
	size_t n;

	for (;;) {
		s = span_trim(s);
		if (s.len == 0)
			return 0;
		if (s.p[0] != ';')
			break;
		s = span_skip(s, 1);
	}
	n = chars_run(s.p, s.len, CHARS_TOKEN);
	p.name = span_first(s, n);
	s = span_trim(span_skip(s, n));
	if (n == 0 || s.len == 0 || s.p[0] != '=')
		return -1;
	s = span_trim(span_skip(s, 1));
	if (s.len > 0 && s.p[0] == '"') {
		n = quoted_len(s);
		if (n == 0)
			return -1;
		p.raw = span_of(s.p + 1, n - 2);
		p.quoted = true;
		s = span_trim(span_skip(s, n));
		if (s.len > 0 && s.p[0] != ';')
			return -1;
	} else {
		p.raw = span_trim(span_cut(&s, ';'));
		if (!is_bare(p.raw))
			return -1;
	}
	*rest = s;
	*ret = p;
	return 1;
}

size_t param_value(const struct param *p, char *out)
{
	struct span s = p->raw;
	size_t n = 0;

	for (size_t i = 0; i < s.len; i++) {
		if (p->quoted && s.p[i] == '\\' && i + 1 < s.len &&
		    (s.p[i + 1] == '"' || s.p[i + 1] == '\\'))
			i++;
		out[n++] = s.p[i];
	}
	return n;
}

ptrdiff_t param_ext_value(const struct param *p, char *out)
{
	struct span rest = p->raw, charset;
	ptrdiff_t n;

	charset = span_cut(&rest, '\'');
	if (!span_caseis(charset, "utf-8") || rest.p == NULL)
		return -1;
	(void)span_cut(&rest, '\''); /* the language says nothing to us */
	if (rest.p == NULL)
		return -1;
	n = url_decode(rest, URL_PATH, out, rest.len);
	if (n < 0 || !utf8_valid(span_of(out, (size_t)n)))
		return -1;
	return n;
}
