/* A file system of a fixed size in a sparse file: ext4 on a loop device that goes away with its
 * last mount. Formatting is done once per size; a new one is copied from that, a hundred KiB
 * whatever the size. */
#ifndef OSB_SANDBOX_IMAGE_H
#define OSB_SANDBOX_IMAGE_H

#include <stdint.h>

#include "base/err.h"
#include "sandbox/state.h"

enum image_kind {
	IMAGE_PASSING, /* does not outlive a crash of the host, so it needs no journal */
	IMAGE_LASTING,
};

/* Can this host do it at all? */
int image_probe(struct err *why);

/* An empty one under a new name. Caller owns *ret_fd. */
int image_make(const struct state *s, int dir_fd, const char *name, uint64_t bytes,
	       enum image_kind kind, int *ret_fd, struct err *e);

/* One that is passing; mounted nowhere yet. The caller owns *ret_fd, and nobody else uses the
 * file. */
int image_mount(int file_fd, int *ret_fd, struct err *e);

/* One that lasts, and that others may have mounted: all see one file system. */
int image_mount_shared(int file_fd, int *ret_fd, struct err *e);

#endif
