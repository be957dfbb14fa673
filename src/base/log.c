#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"

#define LINE_MAX_LEN KIB(8)

static struct {
	const char *program;
	enum log_level max;
	enum log_format format;
	int fd;
} state = { "opensandbox", LOG_INFO, LOG_TEXT, STDERR_FILENO };

static const char *const level_names[] = { "error", "warn", "info", "debug" };

void log_setup(const char *program, enum log_level max, enum log_format format)
{
	state.program = program;
	state.max = max;
	state.format = format;
}

void log_set_fd(int fd)
{
	state.fd = fd;
}

bool log_enabled(enum log_level level)
{
	return level <= state.max;
}

bool log_parse_level(const char *name, enum log_level *ret)
{
	for (unsigned i = 0; i < ARRAY_LEN(level_names); i++) {
		if (span_caseis(span_str(name), level_names[i])) {
			*ret = (enum log_level)i;
			return true;
		}
	}
	if (!span_caseis(span_str(name), "warning")) /* as files of the public server have it */
		return false;
	*ret = LOG_WARN;
	return true;
}

/* A line in the making. `safe` is the last place inside a string of it, between two characters,
 * where it can end early and still be closed in order. */
struct line {
	struct buf out;
	size_t safe;
};

#define TAIL_LEN 32 /* kept free for closing a line that was cut, and its newline */

static void mark_safe(struct line *l)
{
	if (!buf_failed(&l->out) && l->out.len <= LINE_MAX_LEN - TAIL_LEN)
		l->safe = l->out.len;
}

/* Length of the well-formed UTF-8 sequence at s (RFC 3629 section 4), or 0. */
static unsigned sequence_len(const unsigned char *s)
{
	unsigned n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (s[0] > 0xf4)
		return 0;
	for (unsigned i = 1; i < n; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
	    (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
		return 0; /* overlong, surrogate, beyond Unicode */
	return n;
}

/* Control characters (the second set included: terminals obey those too), quotes and backslashes
 * become JSON escapes and broken UTF-8 its replacement, in both formats: a line stays a line. */
static void add_escaped(struct line *l, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	mark_safe(l);
	for (unsigned n; *s != '\0'; s += n) {
		n = sequence_len(s);
		if (n == 0) {
			(void)buf_add_str(&l->out, "\\ufffd");
			n = 1;
		} else if (n == 1 && (*s < 0x20 || *s == 0x7f)) {
			(void)buf_printf(&l->out, "\\u%04x", *s);
		} else if (n == 2 && s[0] == 0xc2 && s[1] < 0xa0) {
			(void)buf_printf(&l->out, "\\u%04x", s[1]);
		} else {
			if (*s == '"' || *s == '\\')
				(void)buf_add_char(&l->out, '\\');
			(void)buf_add(&l->out, s, n);
		}
		mark_safe(l);
	}
}

/* Can a value stand in a text line without quotes? */
static bool plain(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++)
		if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f || *s == '"' ||
		    *s == '\\' || *s == '=')
			return false;
	return true;
}

static void line_json(struct line *l, enum log_level level, const char *when, const char *msg,
		      const struct log_field *fields, unsigned n)
{
	(void)buf_printf(&l->out, "{\"time\":\"%s\",\"level\":\"%s\",\"program\":\"%s\",\"msg\":\"",
			 when, level_names[level], state.program);
	add_escaped(l, msg);
	for (unsigned i = 0; i < n; i++) {
		(void)buf_printf(&l->out, "\",\"%s\":\"", fields[i].key);
		add_escaped(l, fields[i].value != NULL ? fields[i].value : "");
	}
	(void)buf_add_str(&l->out, "\"}");
}

static void line_text(struct line *l, enum log_level level, const char *when, const char *msg,
		      const struct log_field *fields, unsigned n)
{
	(void)buf_printf(&l->out, "%s %-5s %s: ", when, level_names[level], state.program);
	add_escaped(l, msg);
	for (unsigned i = 0; i < n; i++) {
		const char *value = fields[i].value != NULL ? fields[i].value : "";
		bool bare = plain(value);

		(void)buf_printf(&l->out, bare ? " %s=" : " %s=\"", fields[i].key);
		add_escaped(l, value);
		if (!bare)
			(void)buf_add_char(&l->out, '"');
	}
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields, unsigned n)
{
	struct line l = { .out = BUF_INIT(LINE_MAX_LEN) };
	char when[CLOCK_RFC3339_SIZE];
	int saved = errno;

	if (!log_enabled(level))
		return;
	(void)clock_rfc3339(clock_wall_us(), when);
	if (state.format == LOG_JSON)
		line_json(&l, level, when, msg, fields, n);
	else
		line_text(&l, level, when, msg, fields, n);
	if (buf_failed(&l.out) || l.out.len == LINE_MAX_LEN) { /* cut, and says so */
		l.out.failed = false;
		l.out.len = l.safe;
		(void)buf_add_str(&l.out, state.format == LOG_JSON ? " (cut)\"}" : " (cut)");
	}
	(void)buf_add_char(&l.out, '\n');
	/* One write: lines of several processes on one descriptor do not mix. */
	ssize_t done = write(state.fd, l.out.data, l.out.len);
	(void)done;
	buf_free(&l.out);
	errno = saved;
}
