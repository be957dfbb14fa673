/* Depth is the tree's choice: there is no recursion, and only so many descriptors are held. The way
 * back up beyond those leads through "..", which is checked to be the directory we came from, as
 * somebody may move things about meanwhile. */
#include "execd/rmtree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

#define HELD 32 /* levels whose directory stays open */

struct rm_level {
	DIR *dir;   /* NULL: closed for now */
	char *name; /* in the level above */
	dev_t dev;
	ino_t ino;
	unsigned retries;
};

struct rm {
	struct rm_level *levels;
	size_t n, cap;
	int floor_fd; /* the directory that holds the tree */
};

static int dir_open(int at_fd, const char *name, DIR **ret, struct stat *ret_st)
{
	autofd int fd = openat(at_fd, name,
			       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	DIR *dir;

	if (fd < 0 || fstat(fd, ret_st) < 0)
		return -errno;
	dir = fdopendir(fd);
	if (dir == NULL)
		return -errno;
	(void)TAKE_FD(fd);
	*ret = dir;
	return 0;
}

static void level_close(struct rm_level *l)
{
	if (l->dir != NULL)
		(void)closedir(TAKE(l->dir));
}

static int push(struct rm *rm, int at_fd, const char *name)
{
	struct rm_level l = { 0 };
	struct stat st;
	int r;

	if (rm->n == rm->cap) {
		size_t want = MAX(rm->cap * 2, 16);
		struct rm_level *levels = reallocarray(rm->levels, want, sizeof(levels[0]));

		if (levels == NULL)
			return -ENOMEM;
		rm->levels = levels;
		rm->cap = want;
	}
	r = dir_open(at_fd, name, &l.dir, &st);
	if (r < 0)
		return r;
	l.name = strdup(name);
	if (l.name == NULL) {
		level_close(&l);
		return -ENOMEM;
	}
	l.dev = st.st_dev;
	l.ino = st.st_ino;
	rm->levels[rm->n++] = l;
	if (rm->n > HELD)
		level_close(&rm->levels[rm->n - 1 - HELD]);
	return 0;
}

/* The top level is empty: open the one above again if need be, and remove it from there. */
static int pop(struct rm *rm)
{
	struct rm_level *l = &rm->levels[rm->n - 1], *up = rm->n > 1 ? l - 1 : NULL;
	struct stat st;
	int r;

	if (up != NULL && up->dir == NULL) {
		r = dir_open(dirfd(l->dir), "..", &up->dir, &st);
		if (r < 0)
			return r;
		if (st.st_dev != up->dev || st.st_ino != up->ino)
			return -ESTALE;
	}
	r = unlinkat(up != NULL ? dirfd(up->dir) : rm->floor_fd, l->name, AT_REMOVEDIR);
	if (r < 0 && errno != ENOENT) {
		/* Some file systems lose their place when entries go. */
		if ((errno == ENOTEMPTY || errno == EEXIST) && l->retries++ < 8) {
			rewinddir(l->dir);
			return 0;
		}
		return -errno;
	}
	level_close(l);
	free(l->name);
	rm->n--;
	return 0;
}

static int step(struct rm *rm)
{
	struct rm_level *l = &rm->levels[rm->n - 1];
	const struct dirent *d;

	errno = 0;
	d = readdir(l->dir);
	if (d == NULL)
		return errno != 0 ? -errno : pop(rm);
	if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0)
		return 0;
	if (d->d_type != DT_DIR && unlinkat(dirfd(l->dir), d->d_name, 0) == 0)
		return 0;
	if (d->d_type != DT_DIR && errno == ENOENT)
		return 0;
	if (d->d_type == DT_DIR || errno == EISDIR || errno == EPERM) {
		int why = d->d_type == DT_DIR ? 0 : errno;
		int r = push(rm, dirfd(l->dir), d->d_name);

		if (r == -ENOENT)
			return 0;
		return r == -ENOTDIR && why != 0 ? -why : r;
	}
	return -errno;
}

static int remove_below(int dir_fd, const char *name)
{
	struct rm rm = { .floor_fd = dir_fd };
	int r;

	r = push(&rm, dir_fd, name);
	while (r == 0 && rm.n > 0)
		r = step(&rm);
	while (rm.n > 0) {
		level_close(&rm.levels[--rm.n]);
		free(rm.levels[rm.n].name);
	}
	free(rm.levels);
	return r;
}

int rmtree(const char *path, struct err *e)
{
	autofree char *parent = NULL;
	autofd int fd = -EBADF;
	const char *slash;
	struct stat st;
	int r;

	if (unlink(path) == 0 || errno == ENOENT || errno == ENOTDIR)
		return 0;
	r = -errno;
	if (lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return err_code(e, r, "remove %s", path);
	if (rmdir(path) == 0)
		return 0;
	slash = strrchr(path, '/');
	parent = slash == NULL ? strdup(".") : strndup(path, (size_t)MAX(slash - path, 1));
	if (parent == NULL)
		return err_code(e, ENOMEM, "remove %s", path);
	fd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "open %s", parent);
	r = remove_below(fd, slash == NULL ? path : slash + 1);
	return r < 0 ? err_code(e, r, "remove %s", path) : 0;
}
