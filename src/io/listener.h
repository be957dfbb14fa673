/* Listening sockets: TCP, Unix, or one that was inherited. Hands out accepted descriptors. */
#ifndef OSB_IO_LISTENER_H
#define OSB_IO_LISTENER_H

#include "base/err.h"
#include "io/loop.h"

struct listener {
	uv_poll_t poll;
	struct io_loop *loop;
	int fd;
	int spare_fd; /* given up for a moment when descriptors run out, see listener.c */
	/* The descriptor is the callee's; `overloaded`: only to be refused politely and closed. */
	void (*accepted)(struct listener *l, int fd, bool overloaded);
	void (*closed)(struct listener *l);
};

/* Make the socket. "127.0.0.1:8080", "[::1]:0", "unix:/path". Numeric addresses only: no NSS.
 * A stale Unix socket nobody listens on is replaced. */
int listener_bind(const char *address, int backlog, int *ret_fd, struct err *e);

/* Takes the descriptor over in any case. It may be inherited, of any family. */
int listener_start(struct io_loop *loop, struct listener *l, int fd,
		   void (*accepted)(struct listener *l, int fd, bool overloaded), struct err *e);
void listener_close(struct listener *l, void (*closed)(struct listener *l));

/* "127.0.0.1:43211" or "unix:/path" of a bound socket. */
int listener_address(int fd, char *out, size_t size);

#endif
