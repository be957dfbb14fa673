/* Owner, group and mode as clients write them: names or numbers, and the octal digits of a mode as
 * a decimal number (644 is rw-r--r--). */
#ifndef OSB_EXECD_PERM_H
#define OSB_EXECD_PERM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/err.h"
#include "codec/json.h"
#include "execd/users.h"

/* As sent. The strings belong to the JSON they came from. */
struct perm_want {
	const char *owner, *group; /* NULL: leave */
	int64_t mode;              /* 0: leave */
};

/* Resolved; (uid_t)-1 and (gid_t)-1 leave as it is, as chown(2) has it. */
struct perm {
	uid_t uid;
	gid_t gid;
	mode_t mode;
	bool has_mode;
};

#define PERM_NONE                                  \
	(struct perm)                              \
	{                                          \
		.uid = (uid_t)-1, .gid = (gid_t)-1 \
	}

/* Fields of `obj` (NULL: none). -EINVAL: not of their types. */
int perm_read(const json_t *obj, struct perm_want *ret, struct err *e);

/* -EINVAL: no such owner or group, or not the digits of a mode. */
int perm_resolve(const struct perm_want *want, const struct users *u, struct perm *ret,
		 struct err *e);

/* Ownership first, since changing it takes away set-user-ID bits. Links are followed. */
int perm_apply(const struct perm *p, const char *path, struct err *e);
int perm_apply_fd(const struct perm *p, int fd, struct err *e);

bool perm_mode_of_digits(int64_t digits, mode_t *ret); /* 1755 -> 01755 */
int perm_digits_of_mode(mode_t mode);                  /* 01755 -> 1755; the type is left out */

#endif
