#include "sandbox/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define MAGIC    0x6f736231u
#define ROW_SIZE 512
_Static_assert(sizeof(struct table_row) <= ROW_SIZE, "a row fits its place");

static uint64_t checksum(const struct table_row *row)
{
	const unsigned char *p = (const unsigned char *)row;
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < offsetof(struct table_row, check); i++)
		hash = (hash ^ p[i]) * 0x100000001b3;
	return hash;
}

static void mark(struct table *t, unsigned n, bool used)
{
	uint64_t bit = 1ULL << (n % 64);

	if (used)
		t->used[n / 64] |= bit;
	else
		t->used[n / 64] &= ~bit;
}

/* Past the end of the file counts as blank. */
static bool is_blank(const struct table *t, unsigned n)
{
	static const struct table_row none;
	struct table_row row;
	ssize_t len = pread(t->fd, &row, sizeof(row), (off_t)n * ROW_SIZE);

	return len <= 0 || memcmp(&row, &none, (size_t)len) == 0;
}

void table_open(struct table *t, int fd)
{
	struct table_row row;

	memset(t->used, 0, sizeof(t->used));
	t->next = 0;
	t->fd = fd;
	for (unsigned n = 0; n < TABLE_ROWS; n++) {
		if (table_read(t, n, &row))
			mark(t, n, true);
		else if (!is_blank(t, n))
			(void)table_clear(t, n);
	}
}

int table_take(struct table *t, unsigned rows)
{
	for (unsigned i = 0; i < rows; i++) {
		unsigned n = (t->next + i) % rows;

		if ((t->used[n / 64] & 1ULL << (n % 64)) != 0)
			continue;
		mark(t, n, true);
		t->next = n + 1;
		return (int)n;
	}
	return -ENOSPC;
}

int table_write(struct table *t, unsigned n, struct table_row *row)
{
	ssize_t len;

	row->magic = MAGIC;
	row->size = sizeof(*row);
	row->check = checksum(row);
	len = pwrite(t->fd, row, sizeof(*row), (off_t)n * ROW_SIZE);
	if (len < 0)
		return -errno;
	mark(t, n, true);
	return (size_t)len == sizeof(*row) ? 0 : -EIO;
}

bool table_read(const struct table *t, unsigned n, struct table_row *row)
{
	ssize_t len = pread(t->fd, row, sizeof(*row), (off_t)n * ROW_SIZE);

	return len == (ssize_t)sizeof(*row) && row->magic == MAGIC && row->size == sizeof(*row) &&
	       row->check == checksum(row) && msg_id_ok(row->id);
}

int table_clear(struct table *t, unsigned n)
{
	static const struct table_row none;
	ssize_t len = pwrite(t->fd, &none, sizeof(none), (off_t)n * ROW_SIZE);

	if (len < 0)
		return -errno;
	mark(t, n, false);
	return 0;
}
