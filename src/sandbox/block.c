#include "sandbox/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"
#include "sandbox/table.h"
#include "sys/fsat.h"
#include "sys/process.h"

#define FIRST_UID 0x70000000u
_Static_assert(BLOCK_MINE *BLOCK_SIZE == TABLE_ROWS, "a number for each row");
_Static_assert(FIRST_UID + (uint64_t)BLOCK_ALL * BLOCK_SIZE * BLOCK_UIDS <= 0xf0000000, "ids end");

unsigned block_count(const struct blocks *b)
{
	return b->n * BLOCK_SIZE;
}

uint32_t block_number(const struct blocks *b, unsigned n)
{
	return b->map[n / BLOCK_SIZE] * BLOCK_SIZE + n % BLOCK_SIZE;
}

uint32_t block_uid_base(const struct blocks *b, unsigned n)
{
	return FIRST_UID + block_number(b, n) * BLOCK_UIDS;
}

/* ---- the directory ---- */

/* Open and lock it; closing *ret_lock unlocks. */
static int open_dir(int *ret_dir, int *ret_lock, struct err *e)
{
	autofd int run = -EBADF, dir = -EBADF, lock = -EBADF;

	run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run < 0)
		return err_sys(e, "open /run");
	dir = fsat_mkdir_open(run, "opensandbox", 0755);
	if (dir < 0)
		return err_code(e, dir, "open /run/opensandbox");
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, "lock /run/opensandbox");
	*ret_dir = TAKE_FD(dir);
	*ret_lock = TAKE_FD(lock);
	return 0;
}

static void file_name(unsigned i, char *out, size_t size)
{
	(void)snprintf(out, size, "ids.%u", i);
}

/* "2 /var/lib/opensandbox": that instance's third. False if the block is free. */
static bool read_block(int dir, unsigned i, uint64_t *ret_k, char *ret_owner, size_t size)
{
	char name[24], text[4200];
	struct span rest;
	ssize_t n;

	file_name(i, name, sizeof(name));
	n = fsat_read(dir, name, text, sizeof(text));
	if (n <= 0)
		return false;
	rest = span_of(text, (size_t)n);
	return span_u64(span_cut(&rest, ' '), ret_k) && *ret_k < BLOCK_MINE &&
	       span_copy(rest, ret_owner, size);
}

/* Does the instance with this state directory have a runner, or a sandbox that lives without? */
static bool in_use(const char *state_path)
{
	struct flock held = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	autofd int dir = -EBADF, lock = -EBADF;
	struct table t;
	bool alive = false;

	dir = open(state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return false;
	lock = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (lock >= 0 && (fcntl(lock, F_GETLK, &held) < 0 || held.l_type != F_UNLCK))
		return true;
	t.fd = openat(dir, "table", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	for (unsigned n = 0; !alive && t.fd >= 0 && n < TABLE_ROWS; n++) {
		struct table_row row;
		int fd = -ESRCH;

		if (table_read(&t, n, &row))
			fd = process_open(row.pid, row.start_ticks);
		alive = fd != -ESRCH; /* in doubt it is */
		fd_close(&fd);
	}
	fd_close(&t.fd);
	return alive;
}

/* Write our name on a block nobody uses, as our k-th. */
static int claim(const struct blocks *b, int dir, unsigned k, uint8_t *ret, struct err *e)
{
	char owner[4096], name[24], text[4200];
	uint64_t other_k;
	int r;

	for (unsigned i = 0; i < BLOCK_ALL; i++) {
		if (read_block(dir, i, &other_k, owner, sizeof(owner)) &&
		    (strcmp(owner, b->owner) == 0 || in_use(owner)))
			continue;
		file_name(i, name, sizeof(name));
		r = snprintf(text, sizeof(text), "%u %s", k, b->owner);
		r = fsat_replace(dir, name, text, (size_t)r, 0644);
		if (r < 0)
			return err_code(e, r, "claim a block of user ids");
		*ret = (uint8_t)i;
		return 0;
	}
	return err_set(e, ENOSPC, "no user ids left on this host, see /run/opensandbox");
}

/* ---- an instance's own ---- */

void block_alone(struct blocks *b)
{
	*b = (struct blocks){ .n = BLOCK_MINE };
	for (unsigned i = 0; i < BLOCK_MINE; i++)
		b->map[i] = (uint8_t)i;
}

int block_open(struct blocks *b, const char *owner, struct err *e)
{
	autofd int dir = -EBADF, lock = -EBADF;
	bool had[BLOCK_MINE] = { false };
	char other[4096];
	uint64_t k;
	int r;

	b->owner = owner;
	b->n = 1;
	r = open_dir(&dir, &lock, e);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < BLOCK_ALL; i++) {
		if (!read_block(dir, i, &k, other, sizeof(other)) || strcmp(other, owner) != 0)
			continue;
		b->map[k] = (uint8_t)i;
		had[k] = true;
		b->n = MAX(b->n, (unsigned)k + 1);
	}
	for (unsigned i = 0; r == 0 && i < b->n; i++)
		if (!had[i])
			r = claim(b, dir, i, &b->map[i], e);
	return r;
}

int block_grow(struct blocks *b, struct err *e)
{
	autofd int dir = -EBADF, lock = -EBADF;
	int r;

	if (b->n == BLOCK_MINE)
		return err_set(e, ENOSPC, "no user id range left for another sandbox");
	r = open_dir(&dir, &lock, e);
	if (r == 0)
		r = claim(b, dir, b->n, &b->map[b->n], e);
	if (r == 0)
		b->n++;
	return r;
}

void block_release(struct blocks *b)
{
	autofd int dir = -EBADF, lock = -EBADF;
	char name[24];

	if (b->owner == NULL || open_dir(&dir, &lock, NULL) < 0)
		return;
	while (b->n > 0) {
		file_name(b->map[--b->n], name, sizeof(name));
		(void)unlinkat(dir, name, 0);
	}
}
