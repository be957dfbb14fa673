#include "io/listener.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include "io/address.h"

#define ACCEPT_BATCH 64 /* per wake-up, so that a burst of strangers does not starve the known */

/* A socket file without a listener is left from a killed process; anything else stays. */
static void remove_stale(const struct address *a)
{
	autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0 || lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	if (connect(fd, &a->sa, a->len) < 0 && errno == ECONNREFUSED)
		(void)unlink(a->un.sun_path);
}

int listener_bind(const char *address, int backlog, int *ret_fd, struct err *e)
{
	autofd int fd = -EBADF;
	struct address a;
	const int one = 1;
	int r;

	r = address_parse(address, &a, e);
	if (r < 0)
		return r;
	fd = socket(a.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "socket for %s", address);
	if (a.sa.sa_family == AF_UNIX) {
		remove_stale(&a);
	} else {
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		/* accepted sockets inherit it */
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	}
	if (a.sa.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, &a.sa, a.len) < 0)
		return err_sys(e, "bind %s", address);
	if (listen(fd, backlog) < 0)
		return err_sys(e, "listen on %s", address);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int listener_address(int fd, char *out, size_t size)
{
	struct address a = { .len = sizeof(a.storage) };

	if (getsockname(fd, &a.sa, &a.len) < 0)
		return -errno;
	return address_format(&a, out, size);
}

static int open_spare(void)
{
	return open("/", O_PATH | O_CLOEXEC);
}

/* Out of descriptors, a pending connection would keep the loop awake for ever. Give up the spare
 * one, take the connection with it, refuse it, and get the spare back. */
static bool accept_overloaded(struct listener *l)
{
	int fd;

	if (l->spare_fd < 0)
		return false;
	fd_close(&l->spare_fd);
	fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		l->accepted(l, fd, true);
	l->spare_fd = open_spare();
	return fd >= 0;
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct listener *l = CONTAINER_OF(h, struct listener, poll);

	(void)status;
	(void)events;
	for (int i = 0; i < ACCEPT_BATCH && l->fd >= 0; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			l->accepted(l, fd, false);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE) {
			if (accept_overloaded(l))
				continue;
			return;
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

int listener_start(struct io_loop *loop, struct listener *l, int fd,
		   void (*accepted)(struct listener *l, int fd, bool overloaded), struct err *e)
{
	int r;

	*l = (struct listener){
		.loop = loop, .fd = fd, .spare_fd = open_spare(), .accepted = accepted
	};
	r = uv_poll_init(&loop->uv, &l->poll, fd);
	if (r < 0) {
		fd_close(&l->fd);
		fd_close(&l->spare_fd);
		return err_code(e, r, "watch listening socket");
	}
	(void)uv_poll_start(&l->poll, UV_READABLE, on_poll);
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	struct listener *l = CONTAINER_OF((uv_poll_t *)h, struct listener, poll);

	if (l->closed != NULL)
		l->closed(l);
}

void listener_close(struct listener *l, void (*closed)(struct listener *l))
{
	l->closed = closed;
	uv_close((uv_handle_t *)&l->poll, on_closed);
	fd_close(&l->fd);
	fd_close(&l->spare_fd);
}
