#include "execd/code_events.h"

#include <string.h>

#include "base/clock.h"
#include "codec/utf8.h"

/* Bounds of what an error carries; each byte may take six when escaped. */
#define MAX_NAME      256
#define MAX_VALUE     KIB(64)
#define MAX_TRACEBACK KIB(512)
#define MAX_LINES     4000

static void send_event(struct events *ev, struct buf *line, struct jw *w)
{
	jw_field_i64(w, "timestamp", clock_wall_ms());
	jw_end(w);
	if (buf_failed(line))
		events_abort(ev); /* a stream with a hole must not look whole */
	else
		events_raw(ev, buf_span(line));
	buf_free(line);
}

static void begin(struct jw *w, const char *type)
{
	jw_object(w);
	jw_field_cstr(w, "type", type);
}

/* Not in the middle of a character. */
static struct span cut(struct span s, size_t max)
{
	if (s.len <= max)
		return s;
	s.len = max;
	s.len -= utf8_tail(s);
	return s;
}

static struct span string_of(const json_t *v)
{
	return json_is_string(v) ? span_of(json_string_value(v), json_string_length(v))
				 : span_of(NULL, 0);
}

/* --- results --- */

static bool is_plain(const char *mime)
{
	return strcmp(mime, "text/plain") == 0 || strcmp(mime, "text") == 0;
}

/* `s` as a JSON string in a buffer of its own; false if that is longer than the buffer may be. */
static bool quoted(struct buf *out, struct span s)
{
	struct jw w = JW_INIT(out);

	buf_clear(out);
	jw_str(&w, s);
	return !buf_failed(out);
}

/* Everything but plain text, as long as it fits; what does not is noted. False: out of memory. */
static bool put_rich(struct jw *w, const json_t *data, struct buf *notes)
{
	AUTO(buf_free) struct buf *one = &BUF_INIT(CODE_EVENTS_MAX_RICH);
	AUTO(buf_free) struct buf *tree = &BUF_INIT(CODE_EVENTS_MAX_RICH);
	const char *mime;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)data, mime, value) {
		struct span text = string_of(value);

		if (is_plain(mime) || strlen(mime) > MAX_NAME)
			continue;
		buf_clear(tree);
		if (!json_is_string(value) && !json_is_null(value) && json_encode(value, tree) == 0)
			text = buf_span(tree);
		if (text.p == NULL || !quoted(one, text) ||
		    w->out->len + one->len > CODE_EVENTS_MAX_RICH) {
			if (tree->starved || one->starved)
				return false;
			(void)buf_printf(notes, "\n(%.100s was left out: it is too large)", mime);
			continue;
		}
		jw_key(w, mime);
		jw_raw(w, buf_span(one));
	}
	return !notes->starved;
}

/* Plain text and the notes, as a JSON string. Text that grows when it is escaped is cut shorter.
 * False: out of memory. */
static bool put_plain(struct buf *out, struct span plain, struct span notes)
{
	AUTO(buf_free) struct buf *text = &BUF_INIT(CODE_EVENTS_MAX_PLAIN);

	for (size_t max = CODE_EVENTS_MAX_PLAIN - KIB(8);; max /= 2) {
		struct span shown = cut(plain, max);

		buf_clear(text);
		(void)buf_add_span(text, shown);
		if (shown.len < plain.len)
			(void)buf_printf(text, "\n... (cut: %zu of %zu bytes shown)", shown.len,
					 plain.len);
		(void)buf_add_span(text, notes);
		if (text->starved)
			return false;
		if (quoted(out, buf_span(text)) || out->starved || max == 0)
			return !buf_failed(out);
	}
}

void code_events_result(struct events *ev, const json_t *data)
{
	AUTO(buf_free) struct buf *plain = &BUF_INIT(CODE_EVENTS_MAX_PLAIN);
	AUTO(buf_free) struct buf *notes = &BUF_INIT(KIB(4));
	struct buf line = BUF_INIT(CODE_EVENTS_MAX_LINE);
	struct jw w = JW_INIT(&line);

	if (ev->req == NULL)
		return;
	begin(&w, "result");
	jw_key(&w, "results");
	jw_object(&w);
	if (!put_rich(&w, data, notes) ||
	    !put_plain(plain, string_of(json_object_get(data, "text/plain")), buf_span(notes))) {
		buf_free(&line);
		events_abort(ev);
		return;
	}
	jw_key(&w, "text");
	jw_raw(&w, buf_span(plain));
	jw_key(&w, "text/plain");
	jw_raw(&w, buf_span(plain));
	jw_end(&w);
	send_event(ev, &line, &w);
}

void code_events_count(struct events *ev, int64_t count)
{
	struct buf line = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&line);

	if (ev->req == NULL)
		return;
	begin(&w, "execution_count");
	jw_field_i64(&w, "execution_count", count);
	send_event(ev, &line, &w);
}

/* --- errors --- */

static void put_traceback(struct jw *w, const json_t *lines)
{
	size_t total = 0;

	jw_array(w);
	for (size_t i = 0; i < MIN(json_array_size(lines), (size_t)MAX_LINES); i++) {
		struct span line = cut(string_of(json_array_get(lines, i)), MAX_VALUE);

		total += line.len;
		if (total > MAX_TRACEBACK)
			break;
		jw_str(w, line);
	}
	jw_end(w);
}

static void status_error(struct events *ev)
{
	events_text(ev, "status", SPAN_LIT("error"));
}

void code_events_error(struct events *ev, const json_t *frame)
{
	struct buf line = BUF_INIT(CODE_EVENTS_MAX_LINE);
	struct jw w = JW_INIT(&line);
	struct span name = cut(string_of(json_object_get(frame, "ename")), MAX_NAME);

	if (ev->req == NULL)
		return;
	status_error(ev);
	begin(&w, "error");
	jw_key(&w, "error");
	jw_object(&w);
	jw_field_str(&w, "ename", name.len > 0 ? name : SPAN_LIT("Error"));
	jw_field_str(&w, "evalue", cut(string_of(json_object_get(frame, "evalue")), MAX_VALUE));
	jw_key(&w, "traceback");
	put_traceback(&w, json_object_get(frame, "traceback"));
	jw_end(&w);
	send_event(ev, &line, &w);
}

void code_events_fail(struct events *ev, const char *ename, const char *evalue)
{
	status_error(ev);
	events_error(ev, ename, evalue, &evalue, 1);
}
