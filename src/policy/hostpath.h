/* Which host paths a sandbox may be given, and how paths in requests must look. Text only: the one
 * who opens the path follows no links (the runner), so that what was judged is what is opened. */
#ifndef OSB_POLICY_HOSTPATH_H
#define OSB_POLICY_HOSTPATH_H

#include <stdbool.h>
#include <stddef.h>

/* Absolute and clean: no "." or "..", no double or trailing slash, no NUL; "/" itself is not. */
bool hostpath_is_clean(const char *path);

/* Equal to or below one of the allowed prefixes? An empty list allows nothing. */
bool hostpath_allowed(const char *path, const char *const *allowed, size_t n_allowed);

/* A relative path without "..", "." and empty segments. */
bool hostpath_is_sub(const char *sub);

#endif
