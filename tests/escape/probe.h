/* Shared by the attempts. */
#ifndef OSB_ESCAPE_PROBE_H
#define OSB_ESCAPE_PROBE_H

#include <stddef.h>

/* Tell about one attempt: r < 0 with errno is a refusal. 0 if refused, 1 if it worked. */
int refused(const char *what, long r);

/* A system call with arguments of zeros must fail. */
struct probe_call {
	const char *name;
	long nr;
};
int calls_refused(const struct probe_call *calls, size_t n);

/* Opening must fail. */
int cannot_open(const char *path, int flags);

/* The same for a file that its owner may open, and read only if he may trace the process. */
int cannot_read(const char *path);

/* For a directory; opening alone may be allowed to the owner of a process, if that is one in
 * here. */
int cannot_list(const char *path);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct attempt {
	const char *name;
	int (*fn)(char **argv);
};

extern const struct attempt call_attempts[], file_attempts[], hoard_attempts[], kernel_attempts[],
	mount_attempts[], net_attempts[], peer_attempts[], rights_attempts[];

#endif
