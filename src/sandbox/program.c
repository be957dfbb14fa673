#include "sandbox/program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/util.h"
#include "sys/mnt.h"

static const char name[] = "execd";

/* It is sealed, so its bytes cannot have changed since the last write. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int copy(int from, const struct stat *st, struct err *e)
{
	autofd int to = -EBADF;
	off_t at = 0;

	/* whoever runs the old one keeps it */
	if (unlink(name) < 0 && errno != ENOENT)
		return err_sys(e, "remove the copy of execd");
	to = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (to < 0)
		return err_sys(e, "make a copy of execd");
	while (at < st->st_size) {
		ssize_t n = sendfile(to, from, &at, (size_t)(st->st_size - at));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_sys(e, "copy execd");
	}
	/* not readable, as the original: see make.c */
	if (fchmod(to, 0111) < 0)
		return err_sys(e, "protect the copy of execd");
	return 0;
}

int program_open(struct program *p, int memory_fd, int *ret_fd, struct err *e)
{
	struct stat st;
	int r;

	if (fstat(memory_fd, &st) < 0)
		return err_sys(e, "look at execd");
	if (!is_same(&p->from, &st)) {
		p->from = (struct stat){ 0 };
		r = copy(memory_fd, &st, e);
		if (r < 0)
			return r;
		p->from = st;
	}
	return mnt_clone(AT_FDCWD, name, 0,
			 MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, -1, ret_fd, e);
}
