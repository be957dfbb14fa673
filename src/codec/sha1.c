#include "codec/sha1.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 64

static uint32_t rol(uint32_t v, int by)
{
	return v << by | v >> (32 - by);
}

static void add_block(uint32_t h[5], const unsigned char *block)
{
	uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];

	memcpy(w, block, BLOCK);
	for (int i = 0; i < 16; i++)
		w[i] = be32toh(w[i]);
	for (int i = 16; i < 80; i++)
		w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
	for (int i = 0; i < 80; i++) {
		uint32_t f, k, t;

		if (i < 20) {
			f = (b & c) | (~b & d);
			k = 0x5a827999;
		} else if (i < 40) {
			f = b ^ c ^ d;
			k = 0x6ed9eba1;
		} else if (i < 60) {
			f = (b & c) | (b & d) | (c & d);
			k = 0x8f1bbcdc;
		} else {
			f = b ^ c ^ d;
			k = 0xca62c1d6;
		}
		t = rol(a, 5) + f + e + k + w[i];
		e = d;
		d = c;
		c = rol(b, 30);
		b = a;
		a = t;
	}
	h[0] += a;
	h[1] += b;
	h[2] += c;
	h[3] += d;
	h[4] += e;
}

void sha1(struct span data, unsigned char out[SHA1_SIZE])
{
	uint32_t h[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char last[2 * BLOCK] = { 0 };
	uint64_t bits = htobe64((uint64_t)data.len * 8);
	size_t padded;

	for (; data.len >= BLOCK; data = span_skip(data, BLOCK))
		add_block(h, (const unsigned char *)data.p);
	/* a one bit, zeros, and the length in the last eight bytes of a block */
	if (data.len > 0)
		memcpy(last, data.p, data.len);
	last[data.len] = 0x80;
	padded = data.len + 1 + sizeof(bits) <= BLOCK ? BLOCK : 2 * BLOCK;
	memcpy(last + padded - sizeof(bits), &bits, sizeof(bits));
	for (size_t i = 0; i < padded; i += BLOCK)
		add_block(h, last + i);
	for (int i = 0; i < 5; i++)
		h[i] = htobe32(h[i]);
	memcpy(out, h, SHA1_SIZE);
}
