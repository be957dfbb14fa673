/* Lexical path work: no file system is touched. */
#ifndef OSB_BASE_PATH_H
#define OSB_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/span.h"

/* "a/b" + "c" -> "a/b/c"; an absolute second part wins. -ENAMETOOLONG if it does not fit. */
int path_join(char *out, size_t size, const char *dir, const char *name);

/* Absolute, "." and ".." and double slashes resolved as text, no slash at the end (but "/"). `path`
 * is taken relative to `cwd` (absolute) when it is relative. ".." above the root stays at the root.
 */
int path_clean(char *out, size_t size, const char *cwd, const char *path);

/* Does `path` equal `dir` or lie below it? Both clean and absolute. "/ab" is not below "/a". */
bool path_below(const char *path, const char *dir);

/* A single component: not empty, not "." or "..", no slash, no NUL, at most 255 bytes. */
bool path_is_name(struct span s);

/* What follows the last slash. */
const char *path_base(const char *path);

/* The part before the last component: "/a/b" -> "/a", "/a" -> "/", "a" -> ".". */
int path_dir(char *out, size_t size, const char *path);

#endif
