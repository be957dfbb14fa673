/* Eight bytes at a time in one ordinary register: enough to search at memory speed on every machine
 * we build for, without a line of vector code.
 *
 * A "hit" word has the top bit of a byte set where the byte matched. Borrows may run upwards, so
 * bits above the lowest one may lie; swar_first() looks at the lowest only. */
#ifndef OSB_CODEC_SWAR_H
#define OSB_CODEC_SWAR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SWAR_EACH(byte) (0x0101010101010101u * (uint64_t)(byte))
#define SWAR_TOP        SWAR_EACH(0x80)

static inline uint64_t swar_load(const void *p)
{
	uint64_t w;

	memcpy(&w, p, sizeof(w));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	w = __builtin_bswap64(w);
#endif
	return w;
}

static inline uint64_t swar_equal(uint64_t w, unsigned char byte)
{
	uint64_t x = w ^ SWAR_EACH(byte);

	return (x - SWAR_EACH(1)) & ~x & SWAR_TOP;
}

/* Bytes below `limit`, which is at most 0x80; a byte from 0x80 up never counts. */
static inline uint64_t swar_below(uint64_t w, unsigned char limit)
{
	return (w - SWAR_EACH(limit)) & ~w & SWAR_TOP;
}

/* Which of the eight bytes is the first hit; `hits` is not 0. */
static inline size_t swar_first(uint64_t hits)
{
	return (size_t)__builtin_ctzll(hits) / 8;
}

#endif
