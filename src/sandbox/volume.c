#include "sandbox/volume.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/image.h"
#include "sandbox/kit.h"
#include "sys/fsat.h"
#include "sys/mnt.h"

/* NAME and what follows it in NAME/SUB, or "." */
struct parts {
	char name[MSG_NAME_SIZE];
	const char *sub;
};

static struct parts split(const char *from)
{
	size_t len = strcspn(from, "/");
	struct parts p = { .sub = from[len] != '\0' ? from + len + 1 : "." };

	memcpy(p.name, from, MIN(len, sizeof(p.name) - 1));
	return p;
}

static bool is_empty(int dir_fd)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	unsigned n = 0;

	if (dir == NULL) {
		fd_close(&fd);
		return false;
	}
	while (n <= 2 && readdir(dir) != NULL)
		n++;
	(void)closedir(dir);
	return n <= 2;
}

/* ---- those with a size ---- */

/* *ret_mount is the caller's. */
static int make_disk(const struct state *s, const char *name, uint64_t bytes, int *ret_mount,
		     struct err *e)
{
	autofd int file = -EBADF, mount = -EBADF;
	int r;

	if (!s->disks)
		return err_set(e, ENOTSUP, "volumes with a size: they need root");
	if (image_probe(e) < 0) {
		e->code = ENOTSUP;
		return err_wrap(e, "volumes with a size");
	}
	/* under a name of its own until it is whole */
	(void)unlinkat(s->volume_disks_fd, ".new", 0);
	r = image_make(s, s->volume_disks_fd, ".new", bytes, IMAGE_LASTING, &file, e);
	if (r == 0)
		r = image_mount_shared(file, &mount, e);
	if (r < 0)
		return r;
	(void)unlinkat(mount, "lost+found", AT_REMOVEDIR);
	if (renameat(s->volume_disks_fd, ".new", s->volume_disks_fd, name) < 0)
		return err_sys(e, "name the disk of volume '%s'", name);
	*ret_mount = TAKE_FD(mount);
	return 0;
}

/* The file system of a volume with a size; *ret_mount stays as it is for one without. */
static int mount_disk(const struct state *s, const struct msg_volume *v, const char *name,
		      int dir_fd, int *ret_mount, struct err *e)
{
	autofd int fd = openat(s->volume_disks_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0 && errno != ENOENT)
		return err_sys(e, "open the disk of volume '%s'", name);
	if (fd < 0 && v->size_bytes != 0 && is_empty(dir_fd))
		return make_disk(s, name, v->size_bytes, ret_mount, e);
	if (fd < 0 && v->size_exact)
		return err_set(e, EEXIST, "volume '%s' is there already, without a size", name);
	if (fd < 0)
		return 0;
	if (!s->disks)
		return err_set(e, ENOTSUP, "volumes with a size: they need root");
	if (fstat(fd, &st) < 0)
		return err_sys(e, "open the disk of volume '%s'", name);
	if (v->size_exact && (uint64_t)st.st_size != v->size_bytes)
		return err_set(e, EEXIST, "volume '%s' is there already, with a size of %lld bytes",
			       name, (long long)st.st_size);
	return image_mount_shared(fd, ret_mount, e);
}

/* Attached for a moment, where only we see it: older kernels copy no part of a detached mount. */
static int clone_part(int mount_fd, const char *sub, uint64_t attrs, int userns_fd, int *ret_fd,
		      struct err *e)
{
	autofd int at = -EBADF;
	int r;

	r = mnt_attach_at(mount_fd, AT_FDCWD, KIT_VOLUME, e);
	if (r < 0)
		return r;
	at = fsat_open_beneath(mount_fd, sub, O_PATH | O_DIRECTORY, 0);
	if (at < 0)
		r = err_code(e, at, "open '%s' of the volume", sub);
	if (r == 0)
		r = mnt_clone(at, "", 0, attrs, userns_fd, ret_fd, e);
	(void)umount2(KIT_VOLUME, MNT_DETACH);
	return r;
}

/* ---- all ---- */

static int open_named(const struct state *s, const struct msg_volume *v, uint64_t attrs,
		      int userns_fd, int *ret_fd, struct err *e)
{
	autofd int dir = -EBADF, mount = -EBADF, at = -EBADF;
	struct parts p = split(v->from);
	int r;

	dir = fsat_open_beneath(s->volumes_fd, p.name, O_PATH | O_DIRECTORY, 0);
	if (dir < 0)
		return err_code(e, dir, "open volume '%s'", p.name);
	r = mount_disk(s, v, p.name, dir, &mount, e);
	if (r < 0)
		return r;
	if (mount >= 0)
		return clone_part(mount, p.sub, attrs, userns_fd, ret_fd, e);
	at = fsat_open_beneath(dir, p.sub, O_PATH | O_DIRECTORY, 0);
	if (at < 0)
		return err_code(e, at, "open '%s' of volume '%s'", p.sub, p.name);
	return mnt_clone(at, "", 0, attrs, userns_fd, ret_fd, e);
}

int volume_open(const struct state *s, const struct msg_volume *v, uint64_t attrs, int userns_fd,
		int *ret_fd, struct err *e)
{
	autofd int at = -EBADF;
	int r;

	if (v->source == MSG_FROM_STORE)
		return open_named(s, v, attrs, userns_fd, ret_fd, e);
	r = state_open_host(s, v->from, &at, e);
	return r < 0 ? r : mnt_clone(at, "", 0, attrs, userns_fd, ret_fd, e);
}

void volume_forget(const struct state *s, const char *gone)
{
	const char *name = gone + strlen(MSG_GONE_VOLUME);
	char padded[MSG_NAME_SIZE] = { 0 };

	/* MSG_GONE_VOLUME, something without a dash, a dash, the name it had */
	name += strcspn(name, "-");
	if (*name != '-' || strlen(name + 1) >= sizeof(padded))
		return;
	memcpy(padded, name + 1, strlen(name + 1));
	if (msg_name_ok(padded, sizeof(padded)))
		(void)unlinkat(s->volume_disks_fd, padded, 0);
}
