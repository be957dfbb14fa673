#include "codec/ws.h"

#include <endian.h>
#include <string.h>

#include "base/util.h"
#include "codec/base64.h"
#include "codec/sha1.h"

/* Close codes a parser answers with (RFC 6455 7.4.1). */
#define PROTOCOL_ERROR (-1002)
#define TOO_BIG        (-1009)

#define BIT_FIN        0x80u
#define BITS_RESERVED  0x70u
#define BIT_MASKED     0x80u
#define LEN_16         126u /* the length is in the next two bytes */
#define LEN_64         127u /* ... eight bytes */

#define CONTROL_MAX    125u

static bool is_control(unsigned opcode)
{
	return (opcode & 8) != 0;
}

static bool is_known(unsigned opcode)
{
	return opcode <= WS_BINARY || (opcode >= WS_CLOSE && opcode <= WS_PONG);
}

ptrdiff_t ws_frame_parse(const char *buf, size_t len, bool from_client, uint64_t max_len,
			 struct ws_frame *ret)
{
	unsigned first, second, opcode, short_len;
	struct ws_frame f = { 0 };
	size_t need;

	if (len < 2)
		return 0;
	first = (unsigned char)buf[0];
	second = (unsigned char)buf[1];
	opcode = first & 15;
	short_len = second & ~BIT_MASKED;
	f.fin = (first & BIT_FIN) != 0;
	f.opcode = (enum ws_opcode)opcode;
	f.masked = (second & BIT_MASKED) != 0;

	if ((first & BITS_RESERVED) != 0 || !is_known(opcode) || f.masked != from_client)
		return PROTOCOL_ERROR;
	if (is_control(opcode) && (!f.fin || short_len > CONTROL_MAX))
		return PROTOCOL_ERROR;
	/* The reason of a close begins with two bytes of code. */
	if (opcode == WS_CLOSE && short_len == 1)
		return PROTOCOL_ERROR;

	need = 2 +
	       (short_len == LEN_64   ? 8u
		: short_len == LEN_16 ? 2u
				      : 0u) +
	       (f.masked ? 4u : 0u);
	if (len < need)
		return 0;
	f.len = short_len;
	if (short_len == LEN_16) {
		uint16_t v;

		memcpy(&v, buf + 2, sizeof(v));
		f.len = be16toh(v);
		if (f.len < LEN_16)
			return PROTOCOL_ERROR;
	} else if (short_len == LEN_64) {
		memcpy(&f.len, buf + 2, sizeof(f.len));
		f.len = be64toh(f.len);
		if (f.len <= UINT16_MAX || f.len > INT64_MAX)
			return PROTOCOL_ERROR;
	}
	if (!is_control(opcode) && f.len > max_len)
		return TOO_BIG;
	if (f.masked)
		memcpy(f.mask, buf + need - 4, sizeof(f.mask));
	*ret = f;
	return (ptrdiff_t)need;
}

int ws_order_check(struct ws_order *o, const struct ws_frame *f)
{
	if (is_control(f->opcode))
		return 0;
	if (o->in_message != (f->opcode == WS_CONTINUATION))
		return PROTOCOL_ERROR;
	if (f->opcode != WS_CONTINUATION)
		o->opcode = f->opcode;
	o->in_message = !f->fin;
	return 0;
}

void ws_mask(char *data, size_t len, const unsigned char mask[4], uint64_t offset)
{
	unsigned char turned[8];
	uint64_t word, m;
	size_t i = 0;

	for (unsigned k = 0; k < sizeof(turned); k++)
		turned[k] = mask[(offset + k) & 3];
	memcpy(&m, turned, sizeof(m));
	for (; len - i >= sizeof(word); i += sizeof(word)) {
		memcpy(&word, data + i, sizeof(word));
		word ^= m;
		memcpy(data + i, &word, sizeof(word));
	}
	for (; i < len; i++)
		data[i] = (char)((unsigned char)data[i] ^ turned[i & 7]);
}

size_t ws_frame_head(char out[WS_HEAD_MAX], bool fin, enum ws_opcode opcode, uint64_t len,
		     const unsigned char *mask)
{
	unsigned masked = mask != NULL ? BIT_MASKED : 0;
	size_t n = 2;

	out[0] = (char)((fin ? BIT_FIN : 0) | (unsigned)opcode);
	if (len < LEN_16) {
		out[1] = (char)(masked | (unsigned)len);
	} else if (len <= UINT16_MAX) {
		uint16_t v = htobe16((uint16_t)len);

		out[1] = (char)(masked | LEN_16);
		memcpy(out + n, &v, sizeof(v));
		n += sizeof(v);
	} else {
		uint64_t v = htobe64(len);

		out[1] = (char)(masked | LEN_64);
		memcpy(out + n, &v, sizeof(v));
		n += sizeof(v);
	}
	if (mask != NULL) {
		memcpy(out + n, mask, 4);
		n += 4;
	}
	return n;
}

/* Within a character the state says how many bytes are missing and between which bounds the next
 * one must lie: only the second byte has bounds of its own (RFC 3629 4), which rule out overlong
 * forms, surrogates and what is beyond U+10FFFF. */
#define UTF8_STATE(missing, low, high) ((uint32_t)(missing) | (low) << 8 | (high) << 16)
#define UTF8_BAD                       UINT32_MAX

static uint32_t utf8_first(unsigned c)
{
	if (c >= 0xc2 && c <= 0xdf)
		return UTF8_STATE(1, 0x80u, 0xbfu);
	if (c >= 0xe0 && c <= 0xef)
		return UTF8_STATE(2, c == 0xe0 ? 0xa0u : 0x80u, c == 0xed ? 0x9fu : 0xbfu);
	if (c >= 0xf0 && c <= 0xf4)
		return UTF8_STATE(3, c == 0xf0 ? 0x90u : 0x80u, c == 0xf4 ? 0x8fu : 0xbfu);
	return UTF8_BAD;
}

bool ws_utf8_feed(uint32_t *state, struct span piece)
{
	uint32_t s = *state;
	size_t i = 0;

	while (i < piece.len && s != UTF8_BAD) {
		unsigned c = (unsigned char)piece.p[i];
		uint32_t missing = s & 0xff;
		uint64_t word;

		if (missing == 0 && c < 0x80) {
			/* most text is ASCII: eight at a time */
			i++;
			while (piece.len - i >= sizeof(word)) {
				memcpy(&word, piece.p + i, sizeof(word));
				if ((word & 0x8080808080808080u) != 0)
					break;
				i += sizeof(word);
			}
			continue;
		}
		if (missing == 0)
			s = utf8_first(c);
		else if (c < (s >> 8 & 0xff) || c > (s >> 16 & 0xff))
			s = UTF8_BAD;
		else
			s = missing > 1 ? UTF8_STATE(missing - 1, 0x80u, 0xbfu) : 0;
		i++;
	}
	*state = s;
	return s != UTF8_BAD;
}

bool ws_close_code_ok(unsigned code)
{
	/* 1004 to 1006 and 1015 stand for things that are never sent. */
	return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
	       (code >= 3000 && code <= 4999);
}

bool ws_accept_key(struct span key, char out[WS_ACCEPT_SIZE])
{
	static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
	char text[WS_KEY_SIZE - 1 + sizeof(guid) - 1];
	unsigned char nonce[18], digest[SHA1_SIZE];

	if (key.len != WS_KEY_SIZE - 1 || base64_decode(key, nonce, sizeof(nonce)) != 16)
		return false;
	memcpy(text, key.p, key.len);
	memcpy(text + key.len, guid, sizeof(guid) - 1);
	sha1(span_of(text, sizeof(text)), digest);
	out[base64_encode(span_of(digest, sizeof(digest)), out)] = '\0';
	return true;
}

void ws_make_key(const unsigned char random[16], char out[WS_KEY_SIZE])
{
	out[base64_encode(span_of(random, 16), out)] = '\0';
}
