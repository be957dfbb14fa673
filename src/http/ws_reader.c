#include "http/ws_reader.h"

#include "base/util.h"

enum { READER_HEAD, READER_PAYLOAD, READER_ENDED };

enum { CODE_PROTOCOL = 1002, CODE_NONE = 1005, CODE_DATA = 1007, CODE_INTERNAL = 1011 };

void ws_reader_init(struct ws_reader *r, bool from_client, size_t max_message)
{
	*r = (struct ws_reader){ .from_client = from_client,
				 .state = READER_HEAD,
				 .message = BUF_INIT(max_message) };
}

void ws_reader_free(struct ws_reader *r)
{
	buf_free(&r->message);
}

static void refuse(struct ws_reader *r, unsigned code, const char *why, struct ws_event *ret)
{
	r->state = READER_ENDED;
	*ret = (struct ws_event){ .kind = WS_EVENT_ERROR, .code = code, .data = span_str(why) };
}

static void take_close(struct ws_reader *r, struct span payload, struct ws_event *ret)
{
	uint32_t utf8 = 0;
	unsigned code;

	r->state = READER_ENDED;
	*ret = (struct ws_event){ .kind = WS_EVENT_CLOSE, .code = CODE_NONE };
	if (payload.len == 0)
		return;
	/* the codec lets no payload of one byte through */
	code = (unsigned)(unsigned char)payload.p[0] << 8 | (unsigned char)payload.p[1];
	payload = span_skip(payload, 2);
	if (!ws_close_code_ok(code)) {
		refuse(r, CODE_PROTOCOL, "close code out of range", ret);
	} else if (!ws_utf8_feed(&utf8, payload) || !ws_utf8_done(utf8)) {
		refuse(r, CODE_DATA, "close reason is not UTF-8", ret);
	} else {
		ret->code = code;
		ret->data = payload;
	}
}

/* A control frame, once it is there as a whole: they may come between the fragments of a message,
 * and are short. */
static void take_control(struct ws_reader *r, const struct ws_frame *f, char *payload,
			 struct ws_event *ret)
{
	struct span data = span_of(payload, (size_t)f->len);

	if (f->masked)
		ws_mask(payload, data.len, f->mask, 0);
	if (f->opcode == WS_CLOSE)
		take_close(r, data, ret);
	else
		*ret = (struct ws_event){ .kind = f->opcode == WS_PING ? WS_EVENT_PING
								       : WS_EVENT_PONG,
					  .data = data };
}

/* A frame's head, with the payload of a control frame. 0: more is needed. */
static size_t take_head(struct ws_reader *r, char *data, size_t len, struct ws_event *ret)
{
	struct ws_frame f;
	ptrdiff_t n = ws_frame_parse(data, len, r->from_client, r->message.max - r->message.len,
				     &f);

	if (n == 0)
		return 0;
	if (n < 0) {
		refuse(r, (unsigned)-n, n == -CODE_PROTOCOL ? "bad frame" : "message too big", ret);
		return len;
	}
	if (f.opcode >= WS_CLOSE) {
		if (f.len > len - (size_t)n)
			return 0;
		take_control(r, &f, data + n, ret);
		return (size_t)n + (size_t)f.len;
	}
	if (ws_order_check(&r->order, &f) < 0) {
		refuse(r, CODE_PROTOCOL, "fragments out of order", ret);
		return len;
	}
	r->frame = f;
	r->left = f.len;
	r->state = READER_PAYLOAD;
	return (size_t)n;
}

static size_t take_payload(struct ws_reader *r, char *data, size_t len, struct ws_event *ret)
{
	const struct ws_frame *f = &r->frame;
	struct span piece = span_of(data, (size_t)MIN(r->left, len));
	bool text = r->order.opcode == WS_TEXT;
	bool whole = f->fin && piece.len == f->len && r->message.len == 0;

	if (f->masked)
		ws_mask(data, piece.len, f->mask, f->len - r->left);
	r->left -= piece.len;
	if (text && !ws_utf8_feed(&r->utf8, piece)) {
		refuse(r, CODE_DATA, "text is not UTF-8", ret);
		return len;
	}
	if (!whole && buf_add_span(&r->message, piece) < 0) {
		refuse(r, CODE_INTERNAL, "out of memory", ret);
		return len;
	}
	if (r->left > 0)
		return piece.len;
	r->state = READER_HEAD;
	if (!f->fin)
		return piece.len;
	if (text && !ws_utf8_done(r->utf8)) {
		refuse(r, CODE_DATA, "text is not UTF-8", ret);
		return len;
	}
	r->delivered = !whole;
	*ret = (struct ws_event){ .kind = WS_EVENT_MESSAGE,
				  .opcode = r->order.opcode,
				  .data = whole ? piece : buf_span(&r->message) };
	return piece.len;
}

size_t ws_reader_next(struct ws_reader *r, char *data, size_t len, struct ws_event *ret)
{
	size_t at = 0;

	*ret = (struct ws_event){ .kind = WS_EVENT_NONE };
	if (r->delivered) {
		buf_free(&r->message);
		r->delivered = false;
	}
	while (ret->kind == WS_EVENT_NONE) {
		size_t n;

		if (r->state == READER_ENDED)
			return len;
		if (r->state == READER_HEAD) {
			n = take_head(r, data + at, len - at, ret);
			if (n == 0)
				break;
		} else if (r->left > 0 && at == len) {
			break;
		} else {
			n = take_payload(r, data + at, len - at, ret);
		}
		at += n;
	}
	return at;
}
