#include "io/stream.h"

#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

static ssize_t plain_read(struct stream *s, void *buf, size_t len)
{
	ssize_t n;

	do
		n = read(s->fd, buf, len);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t plain_writev(struct stream *s, const struct iovec *iov, int n_iov)
{
	ssize_t n;

	/* SIGPIPE is ignored process-wide (see the programs' main): pipes have no MSG_NOSIGNAL */
	do
		n = n_iov == 1 ? write(s->fd, iov->iov_base, iov->iov_len)
			       : writev(s->fd, iov, n_iov);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t plain_sendfile(struct stream *s, int fd, off_t *offset, size_t len)
{
	ssize_t n;

	do
		n = sendfile(s->fd, fd, offset, len);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EINVAL) /* not mappable: /proc, some FUSE */
		return -ENOSYS;
	return n < 0 ? -errno : n;
}

static int plain_shutdown(struct stream *s)
{
	return shutdown(s->fd, SHUT_WR) < 0 ? -errno : 0;
}

const struct stream_ops stream_plain_ops = {
	.read = plain_read,
	.writev = plain_writev,
	.sendfile = plain_sendfile,
	.shutdown = plain_shutdown,
};

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct stream *s = CONTAINER_OF(h, struct stream, poll);
	unsigned ready = 0;

	if (status < 0) {
		/* libuv stops the handle on POLLERR; the next read or write says what it was */
		s->armed = 0;
		ready = STREAM_READABLE | STREAM_WRITABLE;
	}
	if ((events & UV_READABLE) != 0)
		ready |= s->cross & STREAM_WRITABLE ? STREAM_READABLE | STREAM_WRITABLE
						    : STREAM_READABLE;
	if ((events & UV_WRITABLE) != 0)
		ready |= s->cross & STREAM_READABLE ? STREAM_READABLE | STREAM_WRITABLE
						    : STREAM_WRITABLE;
	s->ready(s, ready);
}

int stream_open(struct io_loop *l, struct stream *s, int fd, const struct stream_ops *ops,
		void (*ready)(struct stream *s, unsigned events), struct err *e)
{
	int r;

	r = uv_poll_init(&l->uv, &s->poll, fd); /* also makes it non-blocking */
	if (r < 0) {
		(void)close(fd);
		return err_code(e, r, "watch descriptor");
	}
	s->ops = ops;
	s->secure = NULL;
	s->ready = ready;
	s->closed = NULL;
	s->fd = fd;
	s->want = s->armed = s->cross = 0;
	s->closing = false;
	return 0;
}

void stream_want(struct stream *s, unsigned events)
{
	unsigned arm = events;

	s->want = (unsigned char)events;
	if (s->cross != 0 && events != 0) {
		if ((events & STREAM_READABLE & s->cross) != 0)
			arm = (arm & ~(unsigned)STREAM_READABLE) | STREAM_WRITABLE;
		if ((events & STREAM_WRITABLE & s->cross) != 0)
			arm = (arm & ~(unsigned)STREAM_WRITABLE) | STREAM_READABLE;
	}
	if (arm == s->armed || s->closing)
		return;
	if (arm == 0)
		(void)uv_poll_stop(&s->poll);
	else
		(void)uv_poll_start(&s->poll,
				    (arm & STREAM_READABLE ? UV_READABLE : 0) |
					    (arm & STREAM_WRITABLE ? UV_WRITABLE : 0),
				    on_poll);
	s->armed = (unsigned char)arm;
}

static void on_closed(uv_handle_t *h)
{
	struct stream *s = CONTAINER_OF((uv_poll_t *)h, struct stream, poll);

	if (s->closed != NULL)
		s->closed(s);
}

void stream_close(struct stream *s, void (*closed)(struct stream *s))
{
	s->closed = closed;
	s->closing = true;
	if (s->ops->free != NULL)
		s->ops->free(s);
	uv_close((uv_handle_t *)&s->poll, on_closed); /* out of epoll before the number is reused */
	fd_close(&s->fd);
}

int stream_detach(struct stream *s, void (*closed)(struct stream *s))
{
	int fd = TAKE_FD(s->fd);

	s->closed = closed;
	s->closing = true;
	uv_close((uv_handle_t *)&s->poll, on_closed);
	return fd;
}
