#include "sandbox/hostimg.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

const char *hostimg_binds[HOSTIMG_MAX_BINDS];

/* Top directories that are part of the system's programs. */
static const char *const tops[] = { "usr", "bin", "sbin", "lib", "lib64", "lib32", "libx32" };

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
	{ "etc", 0755 },       { "root", 0700 },      { "home", 0755 },      { "tmp", 01777 },
	{ "var", 0755 },       { "var/tmp", 01777 },  { "var/log", 0755 },   { "var/lib", 0755 },
	{ "var/cache", 0755 }, { "run", 0755 },       { "run/lock", 01777 }, { "opt", 0755 },
	{ "mnt", 0755 },       { "srv", 0755 },       { "proc", 0555 },      { "sys", 0555 },
	{ "dev", 0755 },       { "workspace", 0755 },
};

static const struct {
	const char *path, *text;
} files[] = {
	{ "etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
			"daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
			"bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
			"www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
			"sandbox:x:1000:1000:sandbox:/home/sandbox:/bin/bash\n"
			"nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n" },
	{ "etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\ntty:x:5:\nwww-data:x:33:\nusers:x:100:\n"
		       "sandbox:x:1000:\nnogroup:x:65534:\n" },
	{ "etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			       "networks: files\nprotocols: files\nservices: files\n" },
	{ "etc/host.conf", "multi on\n" },
	{ "etc/shells", "/bin/sh\n/bin/bash\n" },
};

/* Of the host's /etc: what a dynamic linker, an interpreter, TLS or a time zone needs. */
static const char *const wanted[] = {
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"alternatives",
	"ssl/certs",
	"ssl/openssl.cnf",
	"ca-certificates.conf",
	"pki/tls/certs",
	"pki/ca-trust/extracted",
	"localtime",
	"timezone",
	"os-release",
	"debian_version",
	"lsb-release",
	"protocols",
	"services",
	"mime.types",
	"terminfo",
	"inputrc",
	"profile",
	"bash.bashrc",
	"login.defs",
	"locale.alias",
	"perl",
	"python3",
	"python3.9",
	"python3.10",
	"python3.11",
	"python3.12",
	"python3.13",
	"java-11-openjdk",
	"java-17-openjdk",
	"java-21-openjdk",
	"java-25-openjdk",
	"magic",
	"fonts",
	"skel",
	"gai.conf",
};

#define COPY_MAX_BYTES MIB(16)
#define COPY_MAX_DEPTH 6

static int copy_file(int from_dir, const char *name, int to_dir, const struct stat *st)
{
	autofd int in = -EBADF, out = -EBADF;
	char buf[16384];

	in = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	out = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		     st->st_mode & 0755);
	if (in < 0 || out < 0)
		return -errno;
	for (;;) {
		ssize_t n = read(in, buf, sizeof(buf));
		int r;

		if (n <= 0)
			return n < 0 ? -errno : 0;
		r = fsat_write_all(out, buf, (size_t)n);
		if (r < 0)
			return r;
	}
}

static int copy_link(int from_dir, const char *name, int to_dir)
{
	char to[4096];
	ssize_t n = readlinkat(from_dir, name, to, sizeof(to) - 1);

	if (n < 0)
		return -errno;
	to[n] = '\0';
	return symlinkat(to, to_dir, name) < 0 ? -errno : 0;
}

static int copy_tree(int from_dir, const char *name, int to_dir, unsigned depth);

static int copy_dir(int from_dir, const char *name, int to_dir, unsigned depth)
{
	autofd int to = -EBADF;
	struct dirent *d;
	DIR *dir;
	int fd, r = 0;

	fd = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (dir == NULL) {
		r = -errno;
		(void)close(fd);
		return r;
	}
	to = fsat_mkdir_open(to_dir, name, 0755);
	if (to < 0)
		r = to;
	while (r == 0 && (d = readdir(dir)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = copy_tree(dirfd(dir), d->d_name, to, depth + 1);
	(void)closedir(dir);
	return r;
}

/* What anyone on the host may read is copied; the rest is passed over in silence. */
static int copy_tree(int from_dir, const char *name, int to_dir, unsigned depth)
{
	struct stat st;

	if (depth > COPY_MAX_DEPTH || fstatat(from_dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	if (S_ISLNK(st.st_mode))
		return copy_link(from_dir, name, to_dir);
	if (S_ISREG(st.st_mode) && (st.st_mode & S_IROTH) != 0 &&
	    st.st_size <= (off_t)COPY_MAX_BYTES)
		return copy_file(from_dir, name, to_dir, &st);
	if (S_ISDIR(st.st_mode) && (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH))
		return copy_dir(from_dir, name, to_dir, depth);
	return 0;
}

/* One entry of the list; the directories above it are made as they are on the host. */
static int copy_path(int from_dir, const char *path, int to_dir)
{
	const char *slash = strchr(path, '/');
	autofd int from = -EBADF, to = -EBADF;
	char top[64];

	if (slash == NULL)
		return copy_tree(from_dir, path, to_dir, 0);
	if (!span_copy(span_of(path, (size_t)(slash - path)), top, sizeof(top)))
		return -ENAMETOOLONG;
	from = openat(from_dir, top, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (from < 0)
		return 0;
	to = fsat_mkdir_open(to_dir, top, 0755);
	if (to < 0)
		return to;
	return copy_path(from, slash + 1, to);
}

static int copy_etc(int root_fd, struct err *e)
{
	autofd int from = -EBADF, to = -EBADF;

	from = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	to = openat(root_fd, "etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (from < 0 || to < 0)
		return err_sys(e, "open /etc");
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		int r = copy_path(from, wanted[i], to);

		if (r < 0)
			return err_code(e, r, "copy /etc/%s", wanted[i]);
	}
	return 0;
}

static int make_tops(int root_fd, struct err *e)
{
	size_t n = 0;

	memset(hostimg_binds, 0, sizeof(hostimg_binds));
	for (size_t i = 0; i < ARRAY_LEN(tops); i++) {
		char path[16], to[64];
		struct stat st;
		ssize_t len;

		(void)snprintf(path, sizeof(path), "/%s", tops[i]);
		if (lstat(path, &st) < 0)
			continue;
		len = S_ISLNK(st.st_mode) ? readlink(path, to, sizeof(to) - 1) : -1;
		if (len > 0) {
			to[len] = '\0';
			if (symlinkat(to, root_fd, tops[i]) < 0 && errno != EEXIST)
				return err_sys(e, "link %s", tops[i]);
		} else if (S_ISDIR(st.st_mode) && n + 1 < HOSTIMG_MAX_BINDS) {
			if (mkdirat(root_fd, tops[i], 0755) < 0 && errno != EEXIST)
				return err_sys(e, "make %s", tops[i]);
			hostimg_binds[n++] = tops[i];
		}
	}
	return 0;
}

/* EINVAL: where that user cannot be, nobody needs a home of his. */
static int give_home(int root_fd, struct err *e)
{
	if (fchownat(root_fd, "home/sandbox", 1000, 1000, 0) < 0 && errno != EINVAL)
		return err_sys(e, "give away home/sandbox");
	return 0;
}

static int build(int root_fd, struct err *e)
{
	int r;

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++)
		if (mkdirat(root_fd, dirs[i].path, dirs[i].mode) < 0)
			return err_sys(e, "make %s", dirs[i].path);
	if (mkdirat(root_fd, "home/sandbox", 0755) < 0)
		return err_sys(e, "make home/sandbox");
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		autofd int fd = openat(root_fd, files[i].path,
				       O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

		r = fd < 0 ? -errno : fsat_write_all(fd, files[i].text, strlen(files[i].text));
		if (r < 0)
			return err_code(e, r, "write %s", files[i].path);
	}
	return copy_etc(root_fd, e);
}

/* A name that changes when anything we copy does: package managers replace what they change. */
static void generation(char name[HOSTIMG_NAME_SIZE])
{
	uint64_t hash = 0xcbf29ce484222325;

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		char path[80];
		struct stat st;
		uint64_t facts[4];

		(void)snprintf(path, sizeof(path), "/etc/%s", wanted[i]);
		if (lstat(path, &st) < 0)
			continue;
		facts[0] = i;
		facts[1] = (uint64_t)st.st_ino;
		facts[2] = (uint64_t)st.st_mtim.tv_sec;
		facts[3] = (uint64_t)st.st_mtim.tv_nsec;
		for (size_t k = 0; k < ARRAY_LEN(facts); k++)
			hash = (hash ^ facts[k]) * 0x100000001b3;
	}
	(void)snprintf(name, HOSTIMG_NAME_SIZE, "%s-%016llx", OSB_VERSION,
		       (unsigned long long)hash);
}

int hostimg_build(int dir_fd, char ret_name[HOSTIMG_NAME_SIZE], struct err *e)
{
	char name[HOSTIMG_NAME_SIZE], temp[HOSTIMG_NAME_SIZE + 8];
	autofd int root = -EBADF;
	int r;

	generation(name);
	root = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root >= 0) {
		r = make_tops(root, e);
		/* without root, users may have come into being since */
		if (r == 0)
			r = give_home(root, e);
	} else {
		(void)snprintf(temp, sizeof(temp), "%s.new", name);
		r = fsat_remove_tree(dir_fd, temp, NULL);
		if (r < 0)
			return err_code(e, r, "remove '%s'", temp);
		root = fsat_mkdir_open(dir_fd, temp, 0755);
		r = root < 0 ? err_code(e, root, "make the host image") : build(root, e);
		if (r == 0)
			r = make_tops(root, e);
		if (r == 0)
			r = give_home(root, e);
		if (r == 0 && renameat(dir_fd, temp, dir_fd, name) < 0)
			r = err_sys(e, "name the host image");
	}
	if (r == 0)
		memcpy(ret_name, name, sizeof(name));
	return r;
}
