#include "codec/eventstream.h"

#include <errno.h>

/* ---- writing ---- */

void eventstream_end_object(struct buf *out)
{
	(void)buf_add(out, "\n\n", 2);
}

/* "name: value" for each line of the value. */
static void add_field(struct buf *out, const char *name, struct span value)
{
	do {
		size_t n = lines_find_end(value);

		(void)buf_add_str(out, name);
		(void)buf_add_str(out, ": ");
		(void)buf_add(out, value.p, n);
		(void)buf_add_char(out, '\n');
		if (n == value.len)
			return;
		n += n + 1 < value.len && value.p[n] == '\r' && value.p[n + 1] == '\n' ? 2 : 1;
		value = span_skip(value, n);
	} while (true);
}

static bool is_one_line(struct span s)
{
	return lines_find_end(s) == s.len && span_find(s, '\0') < 0;
}

int eventstream_write(struct buf *out, const struct eventstream_event *ev)
{
	if (!is_one_line(ev->type) || !is_one_line(ev->id))
		return -EINVAL;
	if (ev->type.len > 0)
		add_field(out, "event", ev->type);
	if (ev->id.p != NULL)
		add_field(out, "id", ev->id);
	if (ev->has_retry) {
		(void)buf_add_str(out, "retry: ");
		(void)buf_add_u64(out, ev->retry_ms);
		(void)buf_add_char(out, '\n');
	}
	add_field(out, "data", ev->data);
	(void)buf_add_char(out, '\n');
	return buf_failed(out) ? -EMSGSIZE : 0;
}

void eventstream_comment(struct buf *out, struct span text)
{
	(void)buf_add_str(out, ": ");
	while (text.len > 0) {
		size_t n = lines_find_end(text);

		(void)buf_add(out, text.p, n);
		if (n < text.len) {
			(void)buf_add_char(out, ' ');
			n++;
		}
		text = span_skip(text, n);
	}
	(void)buf_add_str(out, "\n\n");
}

/* ---- reading ---- */

void eventstream_init(struct eventstream *s, size_t max_event)
{
	*s = (struct eventstream){ .data = BUF_INIT(max_event) };
	/* the field's name comes on top of the data */
	lines_init(&s->lines, max_event + sizeof("data: ") - 1);
}

void eventstream_free(struct eventstream *s)
{
	lines_free(&s->lines);
	buf_free(&s->data);
}

static int too_long(struct eventstream *s, struct err *e, const char *what)
{
	s->dead = true;
	return err_set(e, EMSGSIZE, "event stream: %s too long", what);
}

static void forget_event(struct eventstream *s)
{
	buf_clear(&s->data);
	s->has_data = s->has_retry = s->clear = false;
	s->type_len = 0;
}

static void hand_out(struct eventstream *s, struct span data, bool bare,
		     struct eventstream_event *ret)
{
	*ret = (struct eventstream_event){
		.type = span_of(s->type, bare ? 0 : s->type_len),
		.data = data,
		.id = span_of(s->id, s->id_len),
		.has_retry = s->has_retry && !bare,
		.retry_ms = s->has_retry && !bare ? s->retry_ms : 0,
		.bare = bare,
	};
}

static int add_data(struct eventstream *s, struct span value, struct err *e)
{
	int r = 0;

	if (s->has_data)
		r = buf_add_char(&s->data, '\n');
	if (r == 0)
		r = buf_add_span(&s->data, value);
	if (r == 0) {
		s->has_data = true;
		return 0;
	}
	s->dead = true;
	return r == -ENOMEM ? err_set(e, ENOMEM, "event stream: not enough memory")
			    : too_long(s, e, "an event is");
}

static int take_field(struct eventstream *s, struct span line, struct err *e)
{
	struct span value = line, name = span_cut(&value, ':');

	if (value.len > 0 && value.p[0] == ' ')
		value = span_skip(value, 1);
	if (span_is(name, "data"))
		return add_data(s, value, e);
	if (span_is(name, "event")) {
		if (value.len > sizeof(s->type))
			return too_long(s, e, "a type is");
		if (value.len > 0)
			memcpy(s->type, value.p, value.len);
		s->type_len = value.len;
	} else if (span_is(name, "id") && span_find(value, '\0') < 0) {
		if (value.len > sizeof(s->id))
			return too_long(s, e, "an id is");
		if (value.len > 0)
			memcpy(s->id, value.p, value.len);
		s->id_len = value.len;
	} else if (span_is(name, "retry")) {
		s->has_retry = span_u64(value, &s->retry_ms);
	}
	return 0;
}

/* 1: *ret is an event. */
static int take_line(struct eventstream *s, struct span line, struct eventstream_event *ret,
		     struct err *e)
{
	if (!s->started) {
		s->started = true;
		if (span_starts(line, "\xef\xbb\xbf"))
			line = span_skip(line, 3);
	}
	if (line.len == 0 || span_is(line, "\n")) {
		if (!s->has_data) {
			forget_event(s);
			return 0;
		}
		s->clear = true;
		hand_out(s, buf_span(&s->data), false, ret);
		return 1;
	}
	if (line.p[0] == '{') {
		if (line.len > s->data.max)
			return too_long(s, e, "an event is");
		hand_out(s, line, true, ret);
		return 1;
	}
	return line.p[0] == ':' ? 0 : take_field(s, line, e);
}

int eventstream_next(struct eventstream *s, struct span *in, struct eventstream_event *ret,
		     struct err *e)
{
	struct span line;
	int r;

	if (s->dead)
		return err_set(e, EMSGSIZE, "event stream: went on after an error");
	if (s->clear)
		forget_event(s);
	while ((r = lines_next(&s->lines, in, &line)) > 0) {
		if (s->lines.cut)
			return too_long(s, e, "a line is");
		r = take_line(s, line, ret, e);
		if (r != 0)
			return r;
	}
	if (r < 0) {
		s->dead = true;
		return err_set(e, ENOMEM, "event stream: not enough memory");
	}
	return 0;
}

int eventstream_finish(struct eventstream *s, struct eventstream_event *ret, struct err *e)
{
	struct span line;
	int r;

	if (s->dead)
		return 0;
	if (s->clear)
		forget_event(s);
	if (lines_finish(&s->lines, &line)) {
		r = take_line(s, line, ret, e);
		if (r != 0)
			return r;
	}
	if (!s->has_data)
		return 0;
	return take_line(s, SPAN_LIT(""), ret, e);
}
