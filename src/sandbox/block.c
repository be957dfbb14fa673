#include "sandbox/block.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/util.h"
#include "sandbox/table.h"
#include "sys/fsat.h"
#include "sys/process.h"

_Static_assert(0x10000000u / BLOCK_UIDS == TABLE_ROWS, "a block has a range for each row");

uint32_t block_uid_base(unsigned block, unsigned n)
{
	return 0x70000000u + block * 0x10000000u + n * BLOCK_UIDS;
}

/* Does the instance with this state directory have a runner, or a sandbox that lives without one? */
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
		int fd = -EBADF;

		if (table_read(&t, n, &row))
			fd = process_open(row.pid, row.start_ticks);
		alive = fd >= 0;
		fd_close(&fd);
	}
	fd_close(&t.fd);
	return alive;
}

int block_claim(const char *state_path, unsigned *ret_block, struct err *e)
{
	autofd int run = -EBADF, dir = -EBADF, lock = -EBADF;
	char owner[4096], name[24];
	int spare = -1, r;

	run = open("/run", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (run < 0)
		return err_sys(e, "open /run");
	dir = fsat_mkdir_open(run, "opensandbox", 0755);
	if (dir < 0)
		return err_code(e, dir, "open /run/opensandbox");
	lock = openat(dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX) < 0)
		return err_sys(e, "lock /run/opensandbox");

	for (unsigned i = 0; i < BLOCK_MAX; i++) {
		ssize_t n;

		(void)snprintf(name, sizeof(name), "block.%u", i);
		n = fsat_read(dir, name, owner, sizeof(owner));
		if (n > 0 && strcmp(owner, state_path) == 0) {
			*ret_block = i;
			return 0;
		}
		if (spare < 0 && (n <= 0 || !in_use(owner)))
			spare = (int)i;
	}
	if (spare < 0)
		return err_set(e, ENOSPC,
			       "all %d blocks of user ids are taken, see /run/opensandbox",
			       BLOCK_MAX);
	(void)snprintf(name, sizeof(name), "block.%d", spare);
	r = fsat_replace(dir, name, state_path, strlen(state_path), 0644);
	if (r < 0)
		return err_code(e, r, "claim a block of user ids");
	*ret_block = (unsigned)spare;
	return 0;
}

void block_release(unsigned block)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/run/opensandbox/block.%u", block);
	(void)unlink(path);
}
