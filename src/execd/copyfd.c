#include "execd/copyfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/util.h"

#define CHUNK KIB(256)

int copyfd_write(int fd, const void *p, size_t len, struct err *e)
{
	const char *at = p;

	while (len > 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_sys(e, "write") : err_code(e, ENOSPC, "write");
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Through memory; what is left when the kernel does not copy by itself. */
static int copy_by_hand(int in_fd, off_t offset, uint64_t len, int out_fd, struct err *e)
{
	autofree char *chunk = malloc(CHUNK);
	int r;

	if (chunk == NULL)
		return err_code(e, ENOMEM, "copy");
	while (len > 0) {
		ssize_t n = pread(in_fd, chunk, (size_t)MIN(len, CHUNK), offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_sys(e, "read")
				     : err_code(e, EPIPE, "the file became shorter");
		r = copyfd_write(out_fd, chunk, (size_t)n, e);
		if (r < 0)
			return r;
		offset += n;
		len -= (uint64_t)n;
	}
	return 0;
}

static int copy_range(int in_fd, off_t offset, uint64_t len, int out_fd, struct err *e)
{
	while (len > 0) {
		ssize_t n = copy_file_range(in_fd, &offset, out_fd, NULL, (size_t)MIN(len, GIB(1)),
					    0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
			return err_sys(e, "write");
		if (n <= 0)
			return copy_by_hand(in_fd, offset, len, out_fd, e);
		len -= (uint64_t)n;
	}
	return 0;
}

/* The whole file, piece of data by piece of data. */
static int copy_sparse(int in_fd, off_t offset, int out_fd, struct err *e)
{
	off_t out_start = lseek(out_fd, 0, SEEK_CUR), shift = out_start - offset;
	struct stat st;
	int r;

	if (fstat(in_fd, &st) < 0 || out_start < 0)
		return err_sys(e, "copy");
	while (offset < st.st_size) {
		off_t data = lseek(in_fd, offset, SEEK_DATA), end;

		if (data < 0 && errno == ENXIO) /* but a hole is left */
			break;
		if (data < 0)
			data = offset; /* this file system knows no holes */
		end = lseek(in_fd, data, SEEK_HOLE);
		if (end < 0)
			end = st.st_size;
		if (lseek(out_fd, data + shift, SEEK_SET) < 0)
			return err_sys(e, "seek");
		r = copy_range(in_fd, data, (uint64_t)(end - data), out_fd, e);
		if (r < 0)
			return r;
		offset = end;
	}
	if (ftruncate(out_fd, st.st_size + shift) < 0)
		return err_sys(e, "write");
	return 0;
}

int copyfd(int in_fd, off_t offset, uint64_t len, int out_fd, struct err *e)
{
	return len == COPYFD_ALL ? copy_sparse(in_fd, offset, out_fd, e)
				 : copy_range(in_fd, offset, len, out_fd, e);
}

void copyfd_attributes(const char *from, int out_fd, bool acl)
{
	char names[KIB(4)], value[KIB(4)];
	ssize_t len = llistxattr(from, names, sizeof(names));

	for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
		ssize_t n;

		/* others say something about the contents, or are the kernel's business */
		if (strncmp(name, "user.", 5) != 0 &&
		    !(acl && strcmp(name, "system.posix_acl_access") == 0))
			continue;
		n = lgetxattr(from, name, value, sizeof(value));
		if (n >= 0)
			(void)fsetxattr(out_fd, name, value, (size_t)n, 0);
	}
}

int copyfd_spool(struct err *e)
{
	const char *dir = getenv("TMPDIR");
	char name[512], id[17];
	int fd;

	if (dir == NULL || dir[0] != '/')
		dir = "/tmp";
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0)
		return fd;
	rand_hex(id, 8);
	(void)snprintf(name, sizeof(name), "%s/.osb-%s", dir, id);
	fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)unlink(name);
	else
		fd = memfd_create("spool", MFD_CLOEXEC);
	return fd >= 0 ? fd : err_sys(e, "make a temporary file");
}
