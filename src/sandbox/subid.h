/* User ids that the host's root has set aside for an ordinary user: /etc/subuid and /etc/subgid,
 * and the two set-user-id programs that write them into the maps of a user namespace. */
#ifndef OSB_SANDBOX_SUBID_H
#define OSB_SANDBOX_SUBID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/span.h"

struct subid_range {
	uint32_t first, count;
};

/* The largest range in this text ("NAME:FIRST:COUNT" lines) of the user with this name (or NULL)
 * or number. */
bool subid_find(struct span text, const char *name, uint32_t uid, struct subid_range *ret);

/* A process that stays outside of the namespace its parent is about to make, and then maps the
 * ranges into it behind the user's own id. */
struct subid_helper {
	pid_t pid; /* 0: there is nothing that it could do */
	int fd;
};

/* What it has managed. */
enum { SUBID_UIDS = 1, SUBID_GIDS = 2 };

int subid_helper_start(struct subid_helper *h, struct err *e);

/* In the new namespace: have it done and let the helper go. 0 or more of the above. */
unsigned subid_helper_map(struct subid_helper *h);

#endif
