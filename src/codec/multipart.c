#include "codec/multipart.h"

#include <errno.h>

#include "base/util.h"
#include "codec/chars.h"
#include "codec/param.h"

/* Theory of operation
 *
 *	PREAMBLE --delimiter--> BORDER --CRLF--> HEAD --empty line--> DATA --delimiter--> BORDER ...
 *	                          |
 *	                          '--"--"--> EPILOGUE
 *
 * A delimiter is CRLF "--" boundary. Its first byte, CR, occurs nowhere else in it, hence a
 * failed match can only start again at the byte that failed: no tables are needed to search for
 * it.
 *
 * At the start of the body and right behind a head the CRLF of the delimiter may be missing,
 * because the line end before it counts. `match` starts at 2 there and `implied` says that these
 * two bytes were never data, so that they are not handed out when the match fails. */
enum state {
	PREAMBLE,
	BORDER,      /* behind a delimiter */
	BORDER_DASH, /* ... and one '-' */
	BORDER_PAD,  /* ... and blanks, which mail gateways once added */
	BORDER_CR,
	HEAD,
	DATA,
	EPILOGUE,
	BROKEN,
};

const struct multipart_limits multipart_default_limits = {
	.max_head = MULTIPART_HEAD_MAX,
	.max_parts = 1000,
};

static bool is_boundary(struct span s)
{
	if (s.len == 0 || s.len > MULTIPART_BOUNDARY_MAX || s.p[s.len - 1] == ' ')
		return false;
	for (size_t i = 0; i < s.len; i++) {
		char c = s.p[i];
		bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			     (c >= 'A' && c <= 'Z');

		/* RFC 2046 5.1.1, bchars */
		if (!alnum && memchr("'()+_,-./:=? ", c, 13) == NULL)
			return false;
	}
	return true;
}

int multipart_init(struct multipart *m, struct span content_type,
		   const struct multipart_limits *limits, struct err *e)
{
	char boundary[MULTIPART_HEAD_MAX];
	size_t len = 0;
	bool found = false;
	struct param p;
	struct span rest;
	int r;

	if (content_type.len > sizeof(boundary) ||
	    !span_caseis(param_first(content_type, &rest), "multipart/form-data"))
		return err_set(e, EINVAL, "Content-Type is not multipart/form-data");
	while ((r = param_next(&rest, &p)) > 0) {
		if (!span_caseis(p.name, "boundary"))
			continue;
		if (found)
			return err_set(e, EINVAL, "Content-Type has two boundaries");
		len = param_value(&p, boundary);
		found = true;
	}
	if (r < 0)
		return err_set(e, EINVAL, "Content-Type has a malformed parameter");
	if (!found)
		return err_set(e, EINVAL, "Content-Type has no boundary");
	if (!is_boundary(span_of(boundary, len)))
		return err_set(e, EINVAL, "Content-Type has an invalid boundary");

	m->limits = *limits;
	m->limits.max_head = MIN(m->limits.max_head, sizeof(m->head));
	m->part = (struct multipart_part){ 0 };
	m->state = PREAMBLE;
	m->n_parts = 0;
	m->match = m->implied = 2;
	m->head_len = m->skipped = 0;
	memcpy(m->delim, "\r\n--", 4);
	memcpy(m->delim + 4, boundary, len);
	m->delim_len = (unsigned)len + 4;
	return 0;
}

/* ---- the head of a part ---- */

static int bad_head(struct err *e, const char *why)
{
	return err_set(e, EINVAL, "multipart: part %s", why);
}

/* Which parameters were there. */
struct seen {
	bool name, filename, ext_filename;
};

static int take_param(struct multipart *m, const struct param *p, struct seen *seen, struct err *e)
{
	/* decoded where it stands: a value is never longer than what it is decoded from */
	char *out = m->head + (p->raw.p - m->head);
	struct span *into;
	bool *this;
	ptrdiff_t n;

	if (span_caseis(p->name, "name")) {
		this = &seen->name;
		into = &m->part.name;
	} else if (span_caseis(p->name, "filename")) {
		this = &seen->filename;
		into = &m->part.filename;
	} else if (span_caseis(p->name, "filename*")) {
		this = &seen->ext_filename;
		into = &m->part.filename;
	} else {
		return 0;
	}
	if (*this)
		return bad_head(e, "has a parameter twice");
	*this = true;
	if (this == &seen->filename && seen->ext_filename)
		return 0; /* the extended form counts, wherever it stands */
	n = this == &seen->ext_filename ? param_ext_value(p, out) : (ptrdiff_t)param_value(p, out);
	if (n < 0)
		return bad_head(e, "has a malformed filename*");
	*into = span_of(out, (size_t)n);
	return 0;
}

static int take_disposition(struct multipart *m, struct span value, struct seen *seen,
			    struct err *e)
{
	struct span rest;
	struct param p;
	int r;

	if (seen->name)
		return bad_head(e, "has two Content-Disposition lines");
	if (!span_caseis(param_first(value, &rest), "form-data"))
		return bad_head(e, "is not form-data");
	while ((r = param_next(&rest, &p)) > 0) {
		r = take_param(m, &p, seen, e);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return bad_head(e, "has a malformed Content-Disposition");
	if (!seen->name)
		return bad_head(e, "has no name");
	m->part.has_filename = seen->filename || seen->ext_filename;
	return 0;
}

static int take_line(struct multipart *m, struct span line, struct seen *seen, struct err *e)
{
	size_t n = chars_run(line.p, line.len, CHARS_TOKEN);
	struct span name = span_first(line, n), value;

	if (n == 0 || n == line.len || line.p[n] != ':')
		return bad_head(e, "has a malformed header line");
	value = span_trim(span_skip(line, n + 1));
	if (span_caseis(name, "content-disposition"))
		return take_disposition(m, value, seen, e);
	if (span_caseis(name, "content-type")) {
		m->part.content_type = value;
		return 0;
	}
	/* Nobody sends these any more; to take encoded bytes for the file's own would be worse than
	 * to refuse them. */
	if (span_caseis(name, "content-transfer-encoding") && !span_caseis(value, "binary") &&
	    !span_caseis(value, "8bit") && !span_caseis(value, "7bit"))
		return bad_head(e, "has a Content-Transfer-Encoding");
	return 0;
}

/* m->head holds the header lines, each with its CRLF, and the empty line. */
static int parse_head(struct multipart *m, struct err *e)
{
	struct seen seen = { 0 };
	size_t at = 0;
	int r;

	m->part = (struct multipart_part){ 0 };
	while (at < m->head_len - 2) {
		const char *line = m->head + at;
		const char *end = memchr(line, '\r', m->head_len - at);
		size_t len = (size_t)(end - line);

		r = take_line(m, span_of(line, len), &seen, e);
		if (r < 0)
			return r;
		at += len + 2;
	}
	return seen.name ? 0 : bad_head(e, "has no Content-Disposition");
}

/* One byte of a head: 1 when it is complete, 0 when not. */
static int add_head_byte(struct multipart *m, char c, struct err *e)
{
	size_t len = m->head_len;
	bool after_cr = len > 0 && m->head[len - 1] == '\r';

	if (len == m->limits.max_head)
		return err_set(e, EMSGSIZE, "multipart: head of a part larger than %zu bytes",
			       m->limits.max_head);
	if (after_cr != (c == '\n'))
		return bad_head(e, "has a line that does not end in CRLF");
	if (c != '\r' && c != '\n' && chars_is(c, CHARS_CTL))
		return bad_head(e, "has a control byte in its head");
	m->head[m->head_len++] = c;
	return c == '\n' && (len == 1 || m->head[len - 2] == '\n');
}

static int next_in_head(struct multipart *m, struct span *in, struct err *e)
{
	int r;

	while (in->len > 0) {
		r = add_head_byte(m, in->p[0], e);
		if (r < 0)
			return r;
		*in = span_skip(*in, 1);
		if (r == 0)
			continue;
		r = parse_head(m, e);
		if (r < 0)
			return r;
		m->state = DATA;
		m->match = m->implied = 2;
		return MULTIPART_PART;
	}
	return MULTIPART_MORE;
}

/* ---- contents ---- */

static bool delim_complete(const struct multipart *m)
{
	return m->match == m->delim_len;
}

/* Go on with a match that began in an earlier piece. When it fails, what was held back is the
 * result, and m->match is 0. */
static struct span resume_match(struct multipart *m, struct span *in)
{
	struct span held;

	while (in->len > 0 && !delim_complete(m) && in->p[0] == m->delim[m->match]) {
		*in = span_skip(*in, 1);
		m->match++;
	}
	if (in->len == 0 || delim_complete(m))
		return span_of(NULL, 0);
	held = span_of(m->delim + m->implied, m->match - m->implied);
	m->match = m->implied = 0;
	return held;
}

/* Everything up to the delimiter, or up to what may become one at the end of the piece. */
static struct span search_delim(struct multipart *m, struct span *in)
{
	const char *start = in->p, *end = in->p + in->len, *at = start;
	size_t n;

	while ((at = memchr(at, '\r', (size_t)(end - at))) != NULL) {
		n = MIN((size_t)(end - at), (size_t)m->delim_len);
		if (memcmp(at, m->delim, n) == 0) {
			m->match = (unsigned)n;
			*in = span_of(at + n, (size_t)(end - at) - n);
			return span_of(start, (size_t)(at - start));
		}
		at++;
	}
	*in = span_of(end, 0);
	return span_of(start, (size_t)(end - start));
}

/* Contents until the piece ends or m->match says that the delimiter is complete. */
static struct span next_contents(struct multipart *m, struct span *in)
{
	struct span data = span_of(NULL, 0);

	if (m->match > 0)
		data = resume_match(m, in);
	if (data.len == 0 && m->match == 0 && in->len > 0)
		data = search_delim(m, in);
	return data;
}

static void enter_border(struct multipart *m)
{
	m->state = BORDER;
	m->match = m->implied = 0;
}

static int next_in_preamble(struct multipart *m, struct span *in, struct err *e)
{
	m->skipped += next_contents(m, in).len;
	if (m->skipped > m->limits.max_head)
		return err_set(e, EMSGSIZE, "multipart: no boundary in the first %zu bytes",
			       m->limits.max_head);
	if (delim_complete(m))
		enter_border(m);
	return MULTIPART_MORE;
}

static int next_in_data(struct multipart *m, struct span *in, struct span *ret_data)
{
	struct span data = next_contents(m, in);

	if (data.len > 0) {
		*ret_data = data;
		return MULTIPART_DATA;
	}
	if (!delim_complete(m))
		return MULTIPART_MORE;
	enter_border(m);
	return MULTIPART_PART_END;
}

/* One byte between a delimiter and what follows it. */
static int step_border(struct multipart *m, char c, struct err *e)
{
	bool blank = c == ' ' || c == '\t';

	if (m->state == BORDER && c == '-') {
		m->state = BORDER_DASH;
	} else if (m->state == BORDER_DASH && c == '-') {
		m->state = EPILOGUE;
		return MULTIPART_END;
	} else if ((m->state == BORDER || m->state == BORDER_PAD) && (blank || c == '\r')) {
		m->state = blank ? BORDER_PAD : BORDER_CR;
	} else if (m->state == BORDER_CR && c == '\n') {
		if (m->n_parts == m->limits.max_parts)
			return err_set(e, EMSGSIZE, "multipart: more than %u parts",
				       m->limits.max_parts);
		m->n_parts++;
		m->head_len = 0;
		m->state = HEAD;
	} else {
		return err_set(e, EINVAL, "multipart: a boundary is not alone on its line");
	}
	return MULTIPART_MORE;
}

static int step(struct multipart *m, struct span *in, struct span *ret_data, struct err *e)
{
	char c;

	switch ((enum state)m->state) {
	case PREAMBLE:
		return next_in_preamble(m, in, e);
	case BORDER:
	case BORDER_DASH:
	case BORDER_PAD:
	case BORDER_CR:
		c = in->p[0];
		*in = span_skip(*in, 1);
		return step_border(m, c, e);
	case HEAD:
		return next_in_head(m, in, e);
	case DATA:
		return next_in_data(m, in, ret_data);
	case EPILOGUE:
		*in = span_skip(*in, in->len);
		return MULTIPART_MORE;
	case BROKEN:
		break;
	}
	return err_set(e, EINVAL, "multipart: went on after an error");
}

int multipart_next(struct multipart *m, struct span *in, struct span *ret_data, struct err *e)
{
	int r;

	/* A delimiter that was completed by the last byte of a piece is told with that piece. */
	while (in->len > 0 || (m->state == DATA && delim_complete(m))) {
		r = step(m, in, ret_data, e);
		if (r < 0)
			m->state = BROKEN;
		if (r != MULTIPART_MORE)
			return r;
	}
	return MULTIPART_MORE;
}

int multipart_finish(const struct multipart *m, struct err *e)
{
	if (m->state == EPILOGUE)
		return 0;
	if (m->n_parts == 0)
		return err_set(e, EINVAL, "multipart: no part");
	return err_set(e, EINVAL, "multipart: the body ends within part %u", m->n_parts);
}
