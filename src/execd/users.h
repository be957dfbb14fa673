/* Users and groups from /etc/passwd and /etc/group, read by ourselves: a static program has no NSS.
 *
 * The files are read when asked, so that accounts a workload adds are known at once. Load once per
 * request, look up as often as needed. */
#ifndef OSB_EXECD_USERS_H
#define OSB_EXECD_USERS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/span.h"
#include "base/util.h"

#define USERS_MAX_GROUPS 64

struct users; /* both files, parsed */

/* Never fails for want of the files: there is then nobody. NULL: out of memory. */
struct users *users_load(void);
/* The same from text, for tests. */
struct users *users_parse(struct span passwd, struct span group);
void users_free(struct users *u);
AUTO_DEFINE(users_free, struct users)

/* NULL: no entry. Valid as long as `u`. */
const char *users_name(const struct users *u, uid_t uid);
const char *users_group_name(const struct users *u, gid_t gid);
/* By name, or by number as a decimal string. False: no such entry. */
bool users_find(const struct users *u, const char *name, uid_t *ret);
bool users_find_group(const struct users *u, const char *name, gid_t *ret);

/* Whom a process is to be. */
struct user_ids {
	uid_t uid;
	gid_t gid;
	unsigned n_groups;
	gid_t groups[USERS_MAX_GROUPS];
};

/* gid NULL: the user's own group and supplementary groups; a uid without an entry gets a gid of the
 * same number and no groups (never 0, which would be root's). With a gid: that one and no
 * others. */
void users_ids(const struct users *u, uid_t uid, const gid_t *gid, struct user_ids *ret);

#endif
