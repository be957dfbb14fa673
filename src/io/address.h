/* Where to listen or connect: "127.0.0.1:8080", "[::1]:80", "unix:/path". Numeric addresses only:
 * no NSS, nothing that blocks. */
#ifndef OSB_IO_ADDRESS_H
#define OSB_IO_ADDRESS_H

#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

struct address {
	union {
		struct sockaddr sa;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		struct sockaddr_un un;
		struct sockaddr_storage storage;
	};
	socklen_t len;
};

int address_parse(const char *text, struct address *ret, struct err *e);

/* As address_parse() reads it. -ENAMETOOLONG if it does not fit. */
int address_format(const struct address *a, char *out, size_t size);

/* Start connecting, without waiting: the socket becomes writable once connected. A Unix socket
 * whose queue is full refuses at once with -EAGAIN, there is nothing to wait for. */
int address_connect(const struct address *a, int *ret_fd, struct err *e);

#endif
