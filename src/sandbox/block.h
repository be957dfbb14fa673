/* Several instances on one host: each has a block of the numbers that must not be shared (user id
 * ranges, addresses). Who has which is written in /run/opensandbox, one small file per block, so
 * that sandboxes which outlive their runner keep what they have. */
#ifndef OSB_SANDBOX_BLOCK_H
#define OSB_SANDBOX_BLOCK_H

#include <stdint.h>

#include "base/err.h"

#define BLOCK_MAX 8

/* The block of the instance with this state directory: the one it had, or a free one. */
int block_claim(const char *state_path, unsigned *ret_block, struct err *e);

void block_release(unsigned block);

/* First host user id of the n-th sandbox of a block. The ranges lie where systemd's list of well
 * known user ids has nobody. */
uint32_t block_uid_base(unsigned block, unsigned n);

#define BLOCK_UIDS 65536u

#endif
