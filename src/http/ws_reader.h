/* What the frames of one direction add up to (RFC 6455 section 5): whole messages, pings, pongs and
 * the close. Sans I/O: bytes in, events out.
 *
 * A message that came in one frame and lies in the caller's buffer as a whole is handed out from
 * there, unmasked in place. Others are put together in a buffer that grows as their bytes arrive,
 * never ahead of them: a length field costs its sender nothing. */
#ifndef OSB_HTTP_WS_READER_H
#define OSB_HTTP_WS_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"
#include "codec/ws.h"

enum ws_event_kind {
	WS_EVENT_NONE, /* more bytes are needed */
	WS_EVENT_MESSAGE,
	WS_EVENT_PING,
	WS_EVENT_PONG,
	WS_EVENT_CLOSE, /* the last one */
	WS_EVENT_ERROR, /* the last one: the peer broke the rules */
};

struct ws_event {
	enum ws_event_kind kind;
	enum ws_opcode opcode; /* of a message: WS_TEXT (valid UTF-8) or WS_BINARY */
	unsigned code;         /* of a close: 1005 if it had none; of an error: close with this */
	struct span data;      /* payload, or the close's reason; until the next call */
};

struct ws_reader {
	bool from_client;
	unsigned char state;
	bool delivered; /* `message` was handed out */
	struct ws_order order;
	struct ws_frame frame; /* whose payload is coming in */
	uint64_t left;         /* of it */
	uint32_t utf8;         /* of a text under way; 0 between messages */
	struct buf message;
};

/* `from_client`: frames must be masked, otherwise they must not be. */
void ws_reader_init(struct ws_reader *r, bool from_client, size_t max_message);
void ws_reader_free(struct ws_reader *r);

/* Take bytes from the front of data[0..len), which may be changed, up to the next event. Returns
 * how many were taken; those left behind after WS_EVENT_NONE (fewer than a frame's head, or than a
 * control frame) are to be offered again, with more behind them. After an event call again with the
 * rest, even if it is empty: that is when the memory of a message goes. */
size_t ws_reader_next(struct ws_reader *r, char *data, size_t len, struct ws_event *ret);

#endif
