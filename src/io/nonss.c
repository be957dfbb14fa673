/* For programs that are linked statically: libuv can look up a user's home directory and thereby
 * drags the whole name service switch of the C library into the program, which would load shared
 * objects from whatever image it runs in. Nobody here asks libuv for that; this definition keeps
 * it out. */
#include <errno.h>
#include <pwd.h>
#include <stddef.h>

int getpwuid_r(uid_t uid, struct passwd *pwd, char *buf, size_t len, struct passwd **result)
{
	(void)uid;
	(void)pwd;
	(void)buf;
	(void)len;
	*result = NULL;
	return ENOSYS;
}
