/* Shared by the attempts. */
#ifndef OSB_ESCAPE_PROBE_H
#define OSB_ESCAPE_PROBE_H

#include <stddef.h>

/* Tell about one attempt: r < 0 with errno is a refusal. 0 if refused, 1 if it worked. */
int refused(const char *what, long r);

/* Opening must fail. */
int cannot_open(const char *path, int flags);

/* The same for a file that its owner may open, and read only if he may trace the process. */
int cannot_read(const char *path);

struct attempt {
	const char *name;
	int (*fn)(char **argv);
};

extern const struct attempt file_attempts[], kernel_attempts[], peer_attempts[];

#endif
