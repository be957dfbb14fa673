/* Who lives: one fixed row per sandbox in STATE/table, so that a runner which was killed can be
 * followed by another that knows everything. The number of a row is also the sandbox's place among
 * the user id ranges and addresses: taken means taken, whoever asks.
 *
 * A row is written before its sandbox can do anything and cleared after the last of it is gone. It
 * need not survive a power cut, for no sandbox does. */
#ifndef OSB_SANDBOX_TABLE_H
#define OSB_SANDBOX_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/msg.h"

#define TABLE_ROWS 8192

enum table_flag {
	TABLE_NETWORK = 1u << 0,
	TABLE_DISK_IMAGE = 1u << 1, /* its writable layer is a file system of its own */
	TABLE_DISK_QUOTA = 1u << 2,
};

struct table_row {
	uint32_t magic; /* 0 = free */
	uint32_t size;
	char id[MSG_ID_SIZE];
	char boot_id[40];
	int32_t pid; /* 0 until it is known */
	uint32_t flags;
	uint32_t net_index; /* NET_NO_ADDR without network */
	uint32_t reserved;
	uint64_t start_ticks;
	uint64_t started_ms;
	struct msg_limits limits;
	uint64_t check; /* over all before it */
};

struct table {
	int fd;
	uint64_t used[TABLE_ROWS / 64];
	unsigned next;
};

/* Takes over the descriptor of STATE/table. */
void table_open(struct table *t, int fd);

/* A free row's number below `rows`, reserved in memory only; -ENOSPC. Tries after the last one
 * first, so that a range rests as long as possible before it is used again. */
int table_take(struct table *t, unsigned rows);
int table_write(struct table *t, unsigned n, struct table_row *row);
bool table_read(const struct table *t, unsigned n, struct table_row *row); /* false: free or torn */
int table_clear(struct table *t, unsigned n);

#endif
