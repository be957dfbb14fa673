/* The `host` image: the machine's own programs, and nothing else of the machine.
 *
 * STATE/host becomes a root file system skeleton: mount points for the host's /usr (and /bin, /lib
 * ... where they are not links into it), empty private directories, and an /etc made of words of
 * our own plus those files of the host's that programs need to run and that every user of the host
 * may read. It serves as the lower layer; /usr is bound over it read-only, unmapped, so that a file
 * there which only the host's root may read stays unreadable. */
#ifndef OSB_SANDBOX_HOSTIMG_H
#define OSB_SANDBOX_HOSTIMG_H

#include "base/err.h"

#define HOSTIMG_MAX_BINDS 8

#define HOSTIMG_NAME_SIZE 40

/* Build the tree below dir_fd (STATE/host) under a name that says what it was made from; one that
 * is there already is used again, and those of other names are left for sandboxes that run on
 * them. */
int hostimg_build(int dir_fd, char ret_name[HOSTIMG_NAME_SIZE], struct err *e);

/* Top directories to be bound from the host ("usr" first), NULL at the end. */
extern const char *hostimg_binds[HOSTIMG_MAX_BINDS];

#endif
