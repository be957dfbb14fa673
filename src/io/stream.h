/* A connected descriptor that can be read and written without blocking: TCP, Unix socket, pipe, or
 * TLS over one of them, all with the same face.
 *
 * The descriptor is watched with a poll handle rather than handed to libuv's streams: the caller
 * reads into whatever memory it has, writes straight from the source, and can sendfile. */
#ifndef OSB_IO_STREAM_H
#define OSB_IO_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "io/loop.h"

struct stream;

/* All return bytes moved, 0 for end of file (read only), -EAGAIN, or another negative errno. */
struct stream_ops {
	ssize_t (*read)(struct stream *s, void *buf, size_t len);
	ssize_t (*writev)(struct stream *s, const struct iovec *iov, int n_iov);
	/* -ENOSYS: this stream cannot, the caller copies */
	ssize_t (*sendfile)(struct stream *s, int fd, off_t *offset, size_t len);
	int (*shutdown)(struct stream *s); /* no more writes; 0, -EAGAIN or error */
	void (*free)(struct stream *s);    /* what `secure` points to; may be NULL */
};

extern const struct stream_ops stream_plain_ops;

enum { STREAM_READABLE = 1, STREAM_WRITABLE = 2 };

struct stream {
	uv_poll_t poll;
	const struct stream_ops *ops;
	void *secure; /* TLS state, NULL for plain descriptors */
	/* Something may be possible now: try. Spurious calls are allowed. */
	void (*ready)(struct stream *s, unsigned events);
	void (*closed)(struct stream *s);
	int fd;
	unsigned char want;  /* what the owner waits for */
	unsigned char armed; /* what the poll handle watches */
	unsigned char cross; /* TLS: the other direction's readiness unblocks reading (1) or writing
				(2) */
	bool closing;
};

/* Takes the descriptor over in any case (closed on failure); makes it non-blocking. */
int stream_open(struct io_loop *l, struct stream *s, int fd, const struct stream_ops *ops,
		void (*ready)(struct stream *s, unsigned events), struct err *e);

/* Wait for these events (none = 0). */
void stream_want(struct stream *s, unsigned events);

/* Closes the descriptor at once, calls back when the memory may go. Call it once. */
void stream_close(struct stream *s, void (*closed)(struct stream *s));

/* Give the descriptor away, stop watching it; calls back like stream_close. Plain streams only. */
int stream_detach(struct stream *s, void (*closed)(struct stream *s));

static inline struct io_loop *stream_loop(const struct stream *s)
{
	return s->poll.loop->data;
}

static inline ssize_t stream_read(struct stream *s, void *buf, size_t len)
{
	return s->ops->read(s, buf, len);
}

static inline ssize_t stream_writev(struct stream *s, const struct iovec *iov, int n_iov)
{
	return s->ops->writev(s, iov, n_iov);
}

#endif
