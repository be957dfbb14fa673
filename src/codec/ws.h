/* WebSocket frames (RFC 6455), both roles. Sans I/O, no allocation.
 *
 * ws_frame_parse() reads a frame's head; the payload behind it is the caller's to take, unmasked in
 * place by ws_mask(). ws_order_check() keeps the rules between frames. */
#ifndef OSB_CODEC_WS_H
#define OSB_CODEC_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

#define WS_HEAD_MAX 14

struct ws_frame {
	bool fin;
	enum ws_opcode opcode;
	bool masked;
	unsigned char mask[4];
	uint64_t len; /* of the payload */
};

/* > 0: bytes of the head. 0: more is needed. < 0: -close code (1002, 1009). `from_client`: frames
 * must be masked, and must not be otherwise. Lengths must be in their shortest form; reserved bits
 * and opcodes are refused; control frames are at most 125 bytes and final, and a close is not of
 * one byte. max_len is for data frames. */
ptrdiff_t ws_frame_parse(const char *buf, size_t len, bool from_client, uint64_t max_len,
			 struct ws_frame *ret);

/* Order of frames. 0, or -1002 for a continuation without a start or a start within a message. */
struct ws_order {
	bool in_message;
	enum ws_opcode opcode; /* of the message under way */
};
int ws_order_check(struct ws_order *o, const struct ws_frame *f);

/* XOR with the mask; `offset` is the position of data[0] within the payload. */
void ws_mask(char *data, size_t len, const unsigned char mask[4], uint64_t offset);

/* Write a frame head; returns its length. mask NULL: unmasked. */
size_t ws_frame_head(char out[WS_HEAD_MAX], bool fin, enum ws_opcode opcode, uint64_t len,
		     const unsigned char *mask);

/* UTF-8 over several pieces: feed each, then ask at the end. State starts at 0. False: what was fed
 * can never become valid, and it stays so. */
bool ws_utf8_feed(uint32_t *state, struct span piece);
static inline bool ws_utf8_done(uint32_t state)
{
	return state == 0;
}

/* May this code be sent in a close frame? */
bool ws_close_code_ok(unsigned code);

/* Sec-WebSocket-Accept for a key; out holds 28 characters and a NUL. Carries its own SHA-1, so that
 * execd needs no crypto library. False: the key is not 16 bytes in base64. */
#define WS_ACCEPT_SIZE 29
bool ws_accept_key(struct span key, char out[WS_ACCEPT_SIZE]);

/* A fresh Sec-WebSocket-Key of 24 characters and a NUL. */
#define WS_KEY_SIZE 25
void ws_make_key(const unsigned char random[16], char out[WS_KEY_SIZE]);

#endif
