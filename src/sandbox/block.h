/* Several instances on one host: numbers that must not be shared (user id ranges, addresses) are
 * handed out in blocks. Who has which is written in /run/opensandbox, one small file per block, so
 * that sandboxes which outlive their runner keep what they have.
 *
 * An instance counts from 0 and takes another block when it runs out; the n-th of its numbers is
 * the same on every start. */
#ifndef OSB_SANDBOX_BLOCK_H
#define OSB_SANDBOX_BLOCK_H

#include <stdint.h>

#include "base/err.h"

#define BLOCK_SIZE 256u   /* numbers in a block */
#define BLOCK_ALL  128u   /* blocks on a host */
#define BLOCK_MINE 32u    /* blocks an instance may have */
#define BLOCK_UIDS 65536u /* user ids per number */

struct blocks {
	const char *owner; /* the instance's state directory; the caller keeps it. NULL: alone */
	uint8_t map[BLOCK_MINE];
	unsigned n;
};

/* All of them, for an instance that shares with nobody: no register is kept, there is nothing to
 * grow or release. */
void block_alone(struct blocks *b);

/* Those it had before, and one at least. */
int block_open(struct blocks *b, const char *owner, struct err *e);
int block_grow(struct blocks *b, struct err *e); /* -ENOSPC when there is none left */
void block_release(struct blocks *b);

/* How many numbers there are now, and the n-th of them: below BLOCK_ALL * BLOCK_SIZE. */
unsigned block_count(const struct blocks *b);
uint32_t block_number(const struct blocks *b, unsigned n);

/* First host user id of the sandbox with the n-th number. The ranges lie where systemd's list of
 * well known user ids has nobody. */
uint32_t block_uid_base(const struct blocks *b, unsigned n);

#endif
