#include "base/path.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int path_join(char *out, size_t size, const char *dir, const char *name)
{
	size_t len = strlen(dir);
	int n;

	if (name[0] == '/' || len == 0)
		n = snprintf(out, size, "%s", name);
	else
		n = snprintf(out, size, "%s%s%s", dir, dir[len - 1] == '/' ? "" : "/", name);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Append the components of `path` to out (which holds `len` bytes, no slash at the end). */
static int add_components(char *out, size_t size, size_t *len, const char *path)
{
	struct span rest = span_str(path);

	while (rest.len > 0) {
		struct span part = span_cut(&rest, '/');

		if (part.len == 0 || span_is(part, "."))
			continue;
		if (span_is(part, "..")) {
			while (*len > 0 && out[--*len] != '/')
				;
			continue;
		}
		if (*len + 1 + part.len >= size)
			return -ENAMETOOLONG;
		out[(*len)++] = '/';
		memcpy(out + *len, part.p, part.len);
		*len += part.len;
	}
	return 0;
}

int path_clean(char *out, size_t size, const char *cwd, const char *path)
{
	size_t len = 0;
	int r = 0;

	if (size < 2)
		return -ENAMETOOLONG;
	if (path[0] != '/')
		r = add_components(out, size, &len, cwd);
	if (r == 0)
		r = add_components(out, size, &len, path);
	if (r < 0)
		return r;
	if (len == 0)
		out[len++] = '/';
	out[len] = '\0';
	return 0;
}

bool path_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	if (strcmp(dir, "/") == 0)
		return path[0] == '/';
	return n > 0 && strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool path_is_name(struct span s)
{
	if (s.len == 0 || s.len > 255 || span_is(s, ".") || span_is(s, ".."))
		return false;
	return span_find(s, '/') < 0 && span_find(s, '\0') < 0;
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash != NULL ? slash + 1 : path;
}

int path_dir(char *out, size_t size, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct span dir = SPAN_LIT(".");

	if (slash != NULL)
		dir = slash == path ? SPAN_LIT("/") : span_of(path, (size_t)(slash - path));
	return span_copy(dir, out, size) ? 0 : -ENAMETOOLONG;
}
