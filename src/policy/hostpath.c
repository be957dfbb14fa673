#include "policy/hostpath.h"

#include <limits.h>
#include <string.h>

#include "base/path.h"

bool hostpath_is_clean(const char *path)
{
	char clean[PATH_MAX];

	return path[0] == '/' && path[1] != '\0' &&
	       path_clean(clean, sizeof(clean), "/", path) >= 0 && strcmp(clean, path) == 0;
}

bool hostpath_allowed(const char *path, const char *const *allowed, size_t n_allowed)
{
	if (!hostpath_is_clean(path))
		return false;
	for (size_t i = 0; i < n_allowed; i++)
		if (path_below(path, allowed[i]))
			return true;
	return false;
}

bool hostpath_is_sub(const char *sub)
{
	struct span rest = span_str(sub);

	if (rest.len == 0)
		return false;
	while (rest.p != NULL)
		if (!path_is_name(span_cut(&rest, '/')))
			return false;
	return true;
}
