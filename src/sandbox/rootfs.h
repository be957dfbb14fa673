/* A sandbox's root file system, from the two sides of a clone.
 *
 * The runner, with rights over the host, opens the layers and makes detached, id-mapped clones of
 * their mounts: on disk files keep the image's own ids (0, 33, ...), in the sandbox they belong to
 * its root and users, whose real ids are of a range no other sandbox has. The child, with rights
 * over its own namespaces only, attaches them and mounts the overlay: an overlay made by the child
 * belongs to its user namespace, and trusts the tenant's extended attributes as little. */
#ifndef OSB_SANDBOX_ROOTFS_H
#define OSB_SANDBOX_ROOTFS_H

#include "base/err.h"
#include "sandbox/msg.h"
#include "sandbox/state.h"

/* Mounts to hand to the child, in this order: layers (topmost first), the writable one, volumes. */
#define ROOTFS_MAX_MOUNTS (MSG_MAX_LAYERS + 1 + MSG_MAX_VOLUMES)

struct rootfs {
	int fds[ROOTFS_MAX_MOUNTS];
	unsigned n_layers, n_volumes;
};

static inline unsigned rootfs_count(const struct rootfs *r)
{
	return r->n_layers + 1 + r->n_volumes;
}

/* Runner: open everything and id-map it, unless userns_fd is negative. upper_fd: the directory with
 * up/ and work/ in it. */
int rootfs_open(struct rootfs *r, const struct state *s, const struct msg_create *m,
		const char *host_image, int upper_fd, int userns_fd, struct err *e);
void rootfs_close(struct rootfs *r);

/* Child, working directory the kit: attach, and mount the overlay at "r". */
int rootfs_mount(const struct rootfs *r, const struct msg_create *m, struct err *e);

/* Child: volumes and the host's /usr, below the new root. */
int rootfs_mount_rest(const struct rootfs *r, const struct msg_create *m, int root_fd,
		      struct err *e);

/* Child: make the new root "/" and drop everything else. */
int rootfs_enter(int root_fd, struct err *e);

#endif
