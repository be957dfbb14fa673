/* The state directory, opened once; everything below it is reached through these descriptors.
 *
 *	STATE/layers/NAME     image layers, unpacked by the server
 *	STATE/volumes/NAME    named volumes; those with a size have their files in
 *	STATE/volume-disks/NAME
 *	STATE/sandboxes/ID    one per sandbox: up/ and work/ (its writable layer), or disk
 *	STATE/sock/ID         where its execd listens
 *	STATE/trash/          trees on their way out
 *	STATE/disks/BYTES     empty file systems of that size, to be copied (image.h)
 *	STATE/host/           the tree of the `host` image, made anew at each start
 *	STATE/mnt/            an empty directory; what is mounted on it is seen by the runner only
 *	STATE/table           who lives (table.h); STATE/lock: one runner at a time */
#ifndef OSB_SANDBOX_STATE_H
#define OSB_SANDBOX_STATE_H

#include <stdbool.h>

#include "base/err.h"
#include "sandbox/msg.h"

#define STATE_MAX_ALLOWED 32

struct state {
	char path[MSG_PATH_SIZE];
	int dir_fd, layers_fd, volumes_fd, boxes_fd, sock_fd, trash_fd, host_fd, disks_fd,
		volume_disks_fd;
	int lock_fd;
	bool disks; /* file systems in files may be mounted: not without root */

	/* host paths that volumes and root file systems may come from */
	struct {
		char path[MSG_PATH_SIZE];
		int fd;
	} allowed[STATE_MAX_ALLOWED];
	unsigned n_allowed;
};

/* Open and make what is missing. -EBUSY if another runner holds the lock. */
int state_open(struct state *s, const char *path, struct err *e);
int state_allow(struct state *s, const char *path, struct err *e);

/* A file of the runner's own in STATE, made if missing. Caller owns *ret_fd. */
int state_open_file(const struct state *s, const char *name, int *ret_fd, struct err *e);

/* A directory of the store or of the allow-list, as an O_PATH descriptor the caller owns. No link
 * is followed on the way: a host path is allowed for what it names, not for what it points to. */
int state_open_layer(const struct state *s, const char *name, int *ret_fd, struct err *e);
int state_open_host(const struct state *s, const char *path, int *ret_fd, struct err *e);

#endif
