#include "execd/mkdirs.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mkdirs(const char *path, mode_t mode, unsigned *ret_made, struct err *e)
{
	size_t len = strlen(path);
	char part[PATH_MAX];
	unsigned made = 0;
	struct stat st;

	if (len >= sizeof(part))
		return err_code(e, ENAMETOOLONG, "%s", path);
	if (ret_made != NULL)
		*ret_made = 0;
	if (stat(path, &st) == 0)
		return S_ISDIR(st.st_mode) ? 0 : err_code(e, ENOTDIR, "%s", path);
	for (size_t at = 1; at <= len; at++) {
		if (path[at] != '/' && path[at] != '\0')
			continue;
		memcpy(part, path, at);
		part[at] = '\0';
		if (mkdir(part, mode) == 0) {
			made++;
		} else if (errno != EEXIST) {
			int r = err_sys(e, "make directory %s", part);

			*strrchr(part, '/') = '\0';
			mkdirs_undo(part, made);
			return r;
		}
	}
	if (stat(path, &st) < 0)
		return err_sys(e, "make directory %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_code(e, ENOTDIR, "%s", path);
	if (ret_made != NULL)
		*ret_made = made;
	return 0;
}

void mkdirs_undo(const char *path, unsigned made)
{
	char part[PATH_MAX];
	size_t len = strlen(path);

	if (len >= sizeof(part))
		return;
	memcpy(part, path, len + 1);
	for (char *slash; made > 0 && rmdir(part) == 0; made--) {
		slash = strrchr(part, '/');
		if (slash == NULL || slash == part)
			return;
		*slash = '\0';
	}
}
