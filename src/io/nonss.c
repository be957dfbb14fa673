/* For programs that are linked statically: what libuv could do and nobody here asks of it would
 * still drag in the parts of the C library behind it. These definitions keep them out: the name
 * service switch, which would load shared objects from whatever image the program runs in (a user's
 * home directory, a group's members), and the scanf family (the processors' speeds), a sixteenth of
 * the whole program. Our own code uses neither, and check-banned sees to that. */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdio.h>

int getpwuid_r(uid_t uid, struct passwd *pwd, char *buf, size_t len, struct passwd **result)
{
	(void)uid;
	(void)pwd;
	(void)buf;
	(void)len;
	*result = NULL;
	return ENOSYS;
}

int getgrgid_r(gid_t gid, struct group *grp, char *buf, size_t len, struct group **result)
{
	(void)gid;
	(void)grp;
	(void)buf;
	(void)len;
	*result = NULL;
	return ENOSYS;
}

/* Under the names that object files know them by, which depend on the compiler's idea of C. */
#define NO_SCAN(id, symbol)                                                \
	int id(const void *from, const char *format, ...) __asm__(symbol); \
	int id(const void *from, const char *format, ...)                  \
	{                                                                  \
		(void)from;                                                \
		(void)format;                                              \
		return EOF;                                                \
	}

NO_SCAN(nonss_string, "sscanf")
NO_SCAN(nonss_file, "fscanf")
NO_SCAN(nonss_string_c99, "__isoc99_sscanf")
NO_SCAN(nonss_file_c99, "__isoc99_fscanf")
NO_SCAN(nonss_string_c23, "__isoc23_sscanf")
NO_SCAN(nonss_file_c23, "__isoc23_fscanf")
