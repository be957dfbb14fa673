#include "execd/replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "execd/copyfd.h"
#include "execd/newfile.h"

#define CHUNK KIB(256)

struct replacer {
	const char *path;
	struct span old, new;
	struct newfile out;
	bool writing;  /* an occurrence was found, and so there is a new file */
	char *buf;     /* a window on the file */
	size_t size;   /* of buf */
	size_t len;    /* bytes in it */
	uint64_t base; /* where in the file it begins */
	uint64_t count;
	int in_fd;
};

/* Bytes that stay as they are; they are only copied once there is a reason. */
static int keep(struct replacer *s, const char *p, size_t len, struct err *e)
{
	return s->writing ? copyfd_write(s->out.fd, p, len, e) : 0;
}

/* The first occurrence, `at` bytes into the window. */
static int begin_writing(struct replacer *s, size_t at, struct err *e)
{
	int r = newfile_open(&s->out, s->path, true, e);

	if (r < 0)
		return r;
	s->writing = true;
	return copyfd(s->in_fd, 0, s->base + at, s->out.fd, e);
}

/* Go through the window as far as can be said: at its end an occurrence may have begun. */
static int scan(struct replacer *s, bool at_end, struct err *e)
{
	size_t from = 0, safe;
	int r = 0;

	while (r == 0) {
		const char *hit = memmem(s->buf + from, s->len - from, s->old.p, s->old.len);
		size_t at;

		if (hit == NULL)
			break;
		at = (size_t)(hit - s->buf);
		if (!s->writing)
			r = begin_writing(s, at, e);
		else
			r = keep(s, s->buf + from, at - from, e);
		if (r == 0)
			r = copyfd_write(s->out.fd, s->new.p, s->new.len, e);
		from = at + s->old.len;
		s->count++;
	}
	if (r < 0)
		return r;
	safe = at_end || s->len - from < s->old.len ? (at_end ? s->len : from)
						    : s->len - (s->old.len - 1);
	r = keep(s, s->buf + from, safe - from, e);
	memmove(s->buf, s->buf + safe, s->len - safe);
	s->len -= safe;
	s->base += safe;
	return r;
}

static int run(struct replacer *s, struct err *e)
{
	for (;;) {
		ssize_t n = pread(s->in_fd, s->buf + s->len, s->size - s->len,
				  (off_t)(s->base + s->len));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_sys(e, "read %s", s->path);
		s->len += (size_t)n;
		r = scan(s, n == 0, e);
		if (r < 0 || n == 0)
			return r;
	}
}

int replace_in_file(const char *path, struct span old, struct span new, uint64_t *ret_count,
		    struct err *e)
{
	struct replacer s = { .path = path, .old = old, .new = new, .out = NEWFILE_INIT };
	struct perm unchanged = PERM_NONE;
	autofree char *buf = NULL;
	autofd int fd = -EBADF;
	struct stat st;
	int r;

	if (stat(path, &st) < 0)
		return err_sys(e, "%s", path);
	r = newfile_check_regular(path, st.st_mode, e);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_sys(e, "open %s", path);
	/* the name may mean something else by now, such as a device without an end */
	r = newfile_check_regular(path, st.st_mode, e);
	if (r < 0)
		return r;
	s.in_fd = fd;
	s.size = CHUNK + old.len;
	s.buf = buf = malloc(s.size);
	if (buf == NULL)
		return err_code(e, ENOMEM, "replace in %s", path);
	r = run(&s, e);
	if (r == 0 && s.writing)
		r = newfile_commit(&s.out, &unchanged, false, e);
	newfile_abort(&s.out);
	if (r == 0)
		*ret_count = s.count;
	return r;
}
