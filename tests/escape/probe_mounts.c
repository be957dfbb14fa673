/* Mounts, roots, overlays, terminals' places. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

/* CVE-2025-52565: the places of terminals, made to lead elsewhere. argv[0]: the canary */
static int e05(char **argv)
{
	static const char *const names[] = { "/dev/ptmx",    "/dev/pts",      "/dev/tty",
					     "/dev/console", "/dev/pts/ptmx", "/dev/shm" };
	char what[200];
	int bad = 0;

	for (size_t i = 0; i < COUNT(names); i++) {
		snprintf(what, sizeof(what), "unlink %s", names[i]);
		bad |= refused(what, unlink(names[i]));
		snprintf(what, sizeof(what), "rename %s", names[i]);
		bad |= refused(what, rename(names[i], "/dev/shm/x"));
		snprintf(what, sizeof(what), "link %s to the canary", names[i]);
		bad |= refused(what, symlink(argv[0], names[i]));
		snprintf(what, sizeof(what), "bind the canary to %s", names[i]);
		bad |= refused(what, mount(argv[0], names[i], NULL, MS_BIND, NULL));
	}
	bad |= refused("link in /dev/pts", symlink(argv[0], "/dev/pts/0"));
	bad |= refused("mkdir in /dev/pts", mkdir("/dev/pts/d", 0755));
	bad |= refused("a console", mknod("/dev/console", S_IFCHR | 0666, makedev(5, 1)));
	bad |= cannot_open("/dev/console", O_RDWR);
	bad |= cannot_open("/dev/tty0", O_RDWR);
	bad |= cannot_open("/dev/ttyS0", O_RDWR);
	return bad;
}

/* argv: directories that are not to be written to */
static int e14(char **argv)
{
	static const struct {
		const char *name;
		unsigned long flags;
	} ways[] = {
		{ "remount", MS_REMOUNT },       { "remount the bind", MS_REMOUNT | MS_BIND },
		{ "bind on itself", MS_BIND },   { "bind all of it", MS_BIND | MS_REC },
		{ "share", MS_SHARED | MS_REC },
	};
	char what[400], path[300];
	int bad = 0;

	for (; argv[0] != NULL; argv++) {
		struct mount_attr attr = { .attr_clr = MOUNT_ATTR_RDONLY };

		for (size_t i = 0; i < COUNT(ways); i++) {
			snprintf(what, sizeof(what), "%s %s", ways[i].name, argv[0]);
			bad |= refused(what, mount(argv[0], argv[0], NULL, ways[i].flags, NULL));
		}
		snprintf(what, sizeof(what), "mount_setattr %s", argv[0]);
		bad |= refused(what, syscall(SYS_mount_setattr, AT_FDCWD, argv[0], 0x8000, &attr,
					     sizeof(attr)));
		snprintf(path, sizeof(path), "%s/osb-probe", argv[0]);
		bad |= cannot_open(path, O_WRONLY | O_CREAT);
		snprintf(what, sizeof(what), "mkdir %s", path);
		bad |= refused(what, mkdir(path, 0755));
		snprintf(what, sizeof(what), "chmod %s", argv[0]);
		bad |= refused(what, chmod(argv[0], 0777));
		snprintf(what, sizeof(what), "xattr on %s", argv[0]);
		bad |= refused(what, setxattr(argv[0], "user.osb", "x", 1, 0));
	}
	return bad;
}

/* Out of a root by way of a directory left open. argv[0]: the canary */
static int e15(char **argv)
{
	struct stat first, now;
	int bad = 0, top = open("/", O_RDONLY | O_DIRECTORY);

	if (top < 0 || fstat(top, &first) < 0)
		return refused("open /", 0);
	mkdir("/tmp/jail", 0755);
	/* root of a sandbox may do this, within its own */
	if (chroot("/tmp/jail") < 0)
		refused("chroot", -1);
	if (fchdir(top) < 0)
		return refused("go back to /", 0);
	for (int i = 0; i < 200; i++)
		if (chdir("..") < 0)
			break;
	if (chroot(".") < 0)
		refused("chroot again", -1);
	if (stat(".", &now) < 0 || now.st_dev != first.st_dev || now.st_ino != first.st_ino)
		bad |= refused("leave the root", 0);
	else
		printf("refused: .. of the root is the root\n");
	bad |= cannot_open(argv[0], O_RDONLY);
	bad |= cannot_open(argv[0] + 1, O_RDONLY);
	bad |= refused("pivot_root", syscall(SYS_pivot_root, ".", "."));
	return bad;
}

/* Marks by which an overlay is led elsewhere, written by the sandbox itself. argv[0]: the canary's
 * directory */
static int e17(char **argv)
{
	static const char *const marks[] = {
		"user.overlay.redirect",    "user.overlay.opaque",    "user.overlay.metacopy",
		"user.overlay.origin",      "trusted.overlay.opaque", "trusted.overlay.redirect",
		"trusted.overlay.metacopy", "user.overlay.whiteout",
	};
	const char *at = geteuid() == 0 ? "/opt/overlay" : "/tmp/overlay";
	char path[200], secret[500];
	int bad = 0, fd;

	bad |= refused("a whiteout", mknod("/tmp/whiteout", S_IFCHR | 0666, makedev(0, 0)));
	mkdir(at, 0755);
	snprintf(path, sizeof(path), "%s/dir", at);
	mkdir(path, 0755);
	for (size_t i = 0; i < COUNT(marks); i++)
		/* written or not: it must be a name of ours, and mean nothing */
		(void)setxattr(path, marks[i], argv[0], strlen(argv[0]), 0);
	snprintf(secret, sizeof(secret), "%s/canary", path);
	bad |= cannot_open(secret, O_RDONLY);
	snprintf(path, sizeof(path), "%s/file", at);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		return refused("make a file", 0);
	snprintf(secret, sizeof(secret), "%s/canary", argv[0]);
	for (size_t i = 0; i < COUNT(marks); i++)
		(void)fsetxattr(fd, marks[i], secret, strlen(secret), 0);
	close(fd);
	fd = open(path, O_RDONLY);
	if (fd < 0 || read(fd, secret, sizeof(secret)) != 0)
		bad |= refused("a file of another's contents", 0);
	bad |= refused("mount an overlay", mount("o", at, "overlay", 0, "lowerdir=/:/usr"));
	return bad;
}

static int e36(char **argv)
{
	int bad = 0;

	bad |= refused("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	bad |= refused("fsconfig", syscall(SYS_fsconfig, 0, 6, NULL, NULL, 0));
	bad |= refused("fsmount", syscall(SYS_fsmount, 0, 0, 0));
	bad |= refused("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
	bad |= refused("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	bad |= refused("open_tree of /usr", syscall(SYS_open_tree, AT_FDCWD, "/usr", 1));
	bad |= refused("move_mount",
		       syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0));
	bad |= refused("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, argv, 32));
	bad |= refused("mount proc", mount("proc", "/tmp", "proc", 0, NULL));
	bad |= refused("remount /usr", mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL));
	bad |= refused("remount /", mount(NULL, "/", NULL, MS_REMOUNT, NULL));
	bad |= refused("mount overlay", mount("o", "/tmp", "overlay", 0, "lowerdir=/:/usr"));
	bad |= refused("umount /proc/sys", umount2("/proc/sys", MNT_DETACH));
	bad |= refused("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp"));
	return bad;
}

const struct attempt mount_attempts[] = {
	{ "E05", e05 }, { "E14", e14 }, { "E15", e15 },
	{ "E17", e17 }, { "E36", e36 }, { NULL, NULL },
};
