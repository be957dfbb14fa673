#include "execd/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

/* Names kept of one directory; twice as many while it is read. */
#define WINDOW 8192

int walk_stat(const char *path, struct statx *ret)
{
	int r = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		      STATX_BASIC_STATS | STATX_BTIME, ret);

	return r < 0 ? -errno : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void drop_names(struct walk_level *l, size_t keep)
{
	for (size_t i = keep; i < l->n_names; i++)
		free(l->names[i]);
	l->n_names = keep;
}

/* Sort what there is and keep the window's worth of it. */
static void cut_window(struct walk_level *l)
{
	if (l->n_names > 0)
		qsort(l->names, l->n_names, sizeof(l->names[0]), by_name);
	if (l->n_names > WINDOW) {
		drop_names(l, WINDOW);
		l->more = true;
	}
}

static int add_name(struct walk_level *l, size_t *cap, const char *name)
{
	if (l->n_names == *cap) {
		size_t want = MAX(*cap * 2, 64);
		char **names = reallocarray(l->names, want, sizeof(names[0]));

		if (names == NULL)
			return -ENOMEM;
		l->names = names;
		*cap = want;
	}
	l->names[l->n_names] = strdup(name);
	if (l->names[l->n_names] == NULL)
		return -ENOMEM;
	l->n_names++;
	return 0;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The smallest names behind `after` (NULL: from the first). */
static int read_names(struct walk_level *l, DIR *dir, const char *after)
{
	const char *bound = NULL; /* names behind it will not get into the window */
	size_t cap = 0;
	int r = 0;

	while (r == 0) {
		const struct dirent *d;

		errno = 0;
		d = readdir(dir);
		if (d == NULL) {
			r = -errno;
			break;
		}
		if (is_dots(d->d_name) || (after != NULL && strcmp(d->d_name, after) <= 0) ||
		    (bound != NULL && strcmp(d->d_name, bound) >= 0))
			continue;
		r = add_name(l, &cap, d->d_name);
		if (r == 0 && l->n_names == 2 * (size_t)WINDOW) {
			cut_window(l);
			bound = l->names[WINDOW - 1];
		}
	}
	cut_window(l);
	return r;
}

/* Fill the level from the directory w->path[0..path_len). */
static int fill(struct walk *w, struct walk_level *l)
{
	autofree char *after = NULL;
	DIR *dir;
	int fd, r;

	w->path[l->path_len] = '\0';
	/* the root may be a link, and "/" has no name of its own */
	fd = open(w->path[0] != '\0' ? w->path : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC |
							      O_NONBLOCK |
							      (w->n_levels > 1 ? O_NOFOLLOW : 0));
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (dir == NULL) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	if (l->more) {
		after = TAKE(l->names[l->n_names - 1]);
		l->n_names--;
	}
	drop_names(l, 0);
	free(TAKE(l->names));
	l->more = false;
	l->at = 0;
	r = read_names(l, dir, after);
	(void)closedir(dir);
	return r;
}

static void pop(struct walk *w)
{
	struct walk_level *l = &w->levels[--w->n_levels];

	drop_names(l, 0);
	free(l->names);
}

static int push(struct walk *w, size_t path_len)
{
	int r;

	if (w->n_levels == w->cap_levels) {
		unsigned want = MAX(w->cap_levels * 2, 8u);
		struct walk_level *levels = reallocarray(w->levels, want, sizeof(levels[0]));

		if (levels == NULL)
			return -ENOMEM;
		w->levels = levels;
		w->cap_levels = want;
	}
	w->levels[w->n_levels++] = (struct walk_level){ .path_len = path_len };
	r = fill(w, &w->levels[w->n_levels - 1]);
	if (r < 0)
		pop(w);
	return r;
}

int walk_open(struct walk *w, const char *root, unsigned max_depth, struct err *e)
{
	size_t len = strlen(root);
	int r;

	*w = (struct walk){ .max_depth = max_depth };
	if (len >= sizeof(w->path))
		return err_code(e, ENAMETOOLONG, "%s", root);
	memcpy(w->path, root, len + 1);
	while (len > 0 && w->path[len - 1] == '/')
		len--;
	w->root_len = len;
	r = push(w, len);
	if (r < 0) {
		walk_close(w);
		return err_code(e, r, "open %s", root);
	}
	return 0;
}

/* Put the name behind the level's directory; false if that makes no usable path. */
static bool set_name(struct walk *w, const struct walk_level *l, const char *name)
{
	size_t len = strlen(name);

	if (l->path_len + 1 + len >= sizeof(w->path))
		return false;
	w->path[l->path_len] = '/';
	memcpy(w->path + l->path_len + 1, name, len + 1);
	return true;
}

int walk_next(struct walk *w, struct walk_entry *ret, struct err *e)
{
	int r;

	if (w->descend) {
		w->descend = false;
		r = push(w, strlen(w->path));
		if (r == -ENOMEM)
			return err_code(e, r, "walk %s", w->path);
	}
	while (w->n_levels > 0) {
		struct walk_level *l = &w->levels[w->n_levels - 1];
		const char *name;

		if (l->at == l->n_names) {
			r = l->more ? fill(w, l) : 0;
			if (r == -ENOMEM)
				return err_code(e, r, "walk %s", w->path);
			if (r < 0 || l->n_names == 0 || l->at == l->n_names)
				pop(w);
			continue;
		}
		name = l->names[l->at++];
		if (w->n_levels > w->max_depth || !set_name(w, l, name) ||
		    walk_stat(w->path, &ret->st) < 0)
			continue;
		w->descend = S_ISDIR(ret->st.stx_mode) && w->n_levels < w->max_depth;
		ret->path = w->path;
		ret->relative = w->path + w->root_len + 1;
		ret->name = w->path + l->path_len + 1;
		return 1;
	}
	return 0;
}

void walk_close(struct walk *w)
{
	while (w->n_levels > 0)
		pop(w);
	free(TAKE(w->levels));
	w->cap_levels = 0;
}
