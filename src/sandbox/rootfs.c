#include "sandbox/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/util.h"
#include "sandbox/hostimg.h"
#include "sandbox/volume.h"
#include "sys/call.h"
#include "sys/fsat.h"
#include "sys/mnt.h"

/* ---- in the runner ---- */

void rootfs_close(struct rootfs *r)
{
	for (unsigned i = 0; i < ROOTFS_MAX_MOUNTS; i++)
		fd_close(&r->fds[i]);
}

static int open_layer(const struct state *s, const struct msg_create *m, const char *host_image,
		      uint32_t i, int *ret_fd, struct err *e)
{
	int fd;

	switch ((enum msg_rootfs)m->rootfs) {
	case MSG_ROOTFS_HOST:
		fd = fsat_open_beneath(s->host_fd, host_image, O_PATH | O_DIRECTORY, 0);
		if (fd < 0)
			return err_code(e, fd, "open the host image");
		*ret_fd = fd;
		return 0;
	case MSG_ROOTFS_LAYERS:
		return state_open_layer(s, m->layers[i], ret_fd, e);
	case MSG_ROOTFS_DIR:
		return state_open_host(s, m->dir, ret_fd, e);
	}
	return err_set(e, EINVAL, "unknown kind of root file system");
}

int rootfs_open(struct rootfs *r, const struct state *s, const struct msg_create *m,
		const char *host_image, int upper_fd, int userns_fd, struct err *e)
{
	unsigned n = 0;
	int q = 0;

	for (unsigned i = 0; i < ROOTFS_MAX_MOUNTS; i++)
		r->fds[i] = -EBADF;
	r->n_layers = m->rootfs == MSG_ROOTFS_LAYERS ? m->n_layers : 1;
	r->n_volumes = m->n_volumes;

	for (uint32_t i = 0; q == 0 && i < r->n_layers; i++) {
		autofd int fd = -EBADF;

		q = open_layer(s, m, host_image, i, &fd, e);
		if (q == 0)
			q = mnt_clone(fd, "", 0, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, userns_fd,
				      &r->fds[n++], e);
	}
	if (q == 0)
		q = mnt_clone(upper_fd, "", 0, MOUNT_ATTR_NODEV, userns_fd, &r->fds[n++], e);
	for (uint32_t i = 0; q == 0 && i < m->n_volumes; i++) {
		const struct msg_volume *v = &m->volumes[i];
		uint64_t attrs = MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;

		if (v->read_only)
			attrs |= MOUNT_ATTR_RDONLY;
		q = volume_open(s, v, attrs, userns_fd, &r->fds[n++], e);
	}
	if (q < 0)
		rootfs_close(r);
	return q;
}

/* ---- in the child ---- */

int rootfs_mount(const struct rootfs *r, const struct msg_create *m, struct err *e)
{
	unsigned long flags = MS_NODEV | MS_NOSUID;
	char options[1024], place[16];
	size_t len;
	int q, n;

	/* volatile: no sync to disk on the overlay's own account; a sandbox does not outlive a
	 * crash of the host, so there is nothing to be saved for */
	n = snprintf(options, sizeof(options),
		     "userxattr,volatile,upperdir=u/up,workdir=u/work,lowerdir=");
	len = (size_t)n;
	for (unsigned i = 0; i < r->n_layers; i++) {
		(void)snprintf(place, sizeof(place), "l/%u", i);
		q = mnt_attach_at(r->fds[i], AT_FDCWD, place, e);
		if (q < 0)
			return q;
		n = snprintf(options + len, sizeof(options) - len, "%s%s", i > 0 ? ":" : "", place);
		len += (size_t)n;
		if (len >= sizeof(options))
			return err_set(e, E2BIG, "too many layers");
	}
	q = mnt_attach_at(r->fds[r->n_layers], AT_FDCWD, "u", e);
	if (q < 0)
		return q;
	if ((m->flags & MSG_ROOTFS_READONLY) != 0)
		flags |= MS_RDONLY;
	/* mount(2), not fsconfig(2): the latter takes 256 bytes per value */
	if (mount("overlay", "r", "overlay", flags, options) < 0)
		return err_sys(e, "mount the overlay");
	return 0;
}

/* A directory of the host, by way of an overlay: its inodes are the sandbox's own. Those of the
 * host would tell who else opens them (inotify), and could be locked for others (flock). */
static int show_host(int root_fd, const char *name, struct err *e)
{
	static const struct mnt_opt opts[] = { { "lowerdir", "h:none" },
					       { "userxattr", NULL },
					       { 0 } };
	const unsigned attrs = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID;
	autofd int fd = -EBADF, at = -EBADF, view = -EBADF;
	char from[16];
	int r;

	(void)snprintf(from, sizeof(from), "/%s", name);
	at = fsat_open_beneath(root_fd, name, O_PATH | O_DIRECTORY, 0);
	if (at < 0)
		return err_code(e, at, "open /%s of the host image", name);
	r = mnt_clone(AT_FDCWD, from, 0, attrs, -1, &fd, e);
	/* There are mounts below, which the kernel lets nobody but the host's root take apart, nor
	 * put under an overlay: then it is shown as it is. */
	if (r == -EINVAL) {
		r = mnt_clone(AT_FDCWD, from, AT_RECURSIVE, attrs, -1, &fd, e);
		return r < 0 ? r : mnt_attach(fd, at, e);
	}
	/* it goes with the old root; the overlay has its own hold on it */
	if (r == 0)
		r = mnt_attach_at(fd, AT_FDCWD, "h", e);
	if (r == 0)
		r = mnt_new("overlay", "overlay", opts, attrs, &view, e);
	return r < 0 ? r : mnt_attach(view, at, e);
}

int rootfs_mount_rest(const struct rootfs *r, const struct msg_create *m, int root_fd,
		      struct err *e)
{
	int q;

	if (m->rootfs == MSG_ROOTFS_HOST) {
		for (unsigned i = 0; hostimg_binds[i] != NULL; i++) {
			q = show_host(root_fd, hostimg_binds[i], e);
			if (q < 0)
				return q;
		}
	}
	for (unsigned i = 0; i < r->n_volumes; i++) {
		const char *target = m->volumes[i].target;
		autofd int at = fsat_mkdirs_in_root(root_fd, target);

		if (at < 0)
			return err_code(e, at, "make volume target '%s'", target);
		q = mnt_attach(r->fds[r->n_layers + 1 + i], at, e);
		if (q < 0)
			return err_wrap(e, "volume '%s'", target);
	}
	return 0;
}

int rootfs_enter(int root_fd, struct err *e)
{
	if (fchdir(root_fd) < 0)
		return err_sys(e, "enter the new root");
	/* the old root goes on top of the new one, and is taken off at once */
	if (call_pivot_root(".", ".") < 0)
		return err_sys(e, "change root");
	if (umount2(".", MNT_DETACH) < 0)
		return err_sys(e, "drop the old root");
	if (chdir("/") < 0)
		return err_sys(e, "enter the new root");
	return 0;
}
