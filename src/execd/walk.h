/* A directory tree, entry by entry, in lexical order: each directory is followed by what it holds.
 *
 * Blocking, for jobs; it may be left between two entries and taken up by another thread. No
 * descriptor stays open in between, and memory is bounded per level however large a directory is:
 * of a huge one only the next few thousand names are kept, and it is read again for more. Links are
 * reported, never followed. What vanishes or may not be read meanwhile is passed over, except the
 * root. */
#ifndef OSB_EXECD_WALK_H
#define OSB_EXECD_WALK_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/err.h"

#define WALK_UNLIMITED UINT_MAX

struct walk_level {
	char **names;
	size_t n_names, at;
	size_t path_len; /* of the directory itself */
	bool more;       /* the directory has names behind these */
};

struct walk {
	struct walk_level *levels;
	unsigned n_levels, cap_levels;
	unsigned max_depth;
	size_t root_len;
	bool descend; /* into the entry given out last */
	char path[PATH_MAX];
};

/* The strings live until the next call. */
struct walk_entry {
	const char *path;
	const char *relative; /* to the root */
	const char *name;
	struct statx st;
};

/* `root` must be a directory (-ENOTDIR otherwise); a link to one will do. */
int walk_open(struct walk *w, const char *root, unsigned max_depth, struct err *e);
int walk_next(struct walk *w, struct walk_entry *ret, struct err *e); /* 1, 0 at the end, < 0 */
void walk_close(struct walk *w);

/* lstat with the time of birth; 0 or a negative errno. */
int walk_stat(const char *path, struct statx *ret);

#endif
