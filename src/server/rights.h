/* Giving up root. The server reads what the Internet sends, so it runs as a user of its own with no
 * capability; what it needs of the file system is made for it first. Started as an ordinary user it
 * stays what it is. */
#ifndef OSB_SERVER_RIGHTS_H
#define OSB_SERVER_RIGHTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct rights {
	bool drop; /* there is something to give up */
	uid_t uid;
	gid_t gid;
};

/* Who to become: a name, or a number. RIGHTS_FALLBACK_ID where there is no user of the default
 * name, so that nothing needs to be set up. "root" stays root. */
#define RIGHTS_DEFAULT_USER "opensandbox"
#define RIGHTS_FALLBACK_ID  61000
int rights_find(const char *user, struct rights *ret, struct err *e);

/* The state directory, and in it what is the server's own: server/ (the store) and volumes/. The
 * rest is the runner's. */
int rights_prepare(const struct rights *r, const char *state_dir, struct err *e);

/* For good. */
int rights_drop(const struct rights *r, struct err *e);

#endif
