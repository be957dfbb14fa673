/* Packets with descriptors over a unix socket (SOCK_SEQPACKET). */
#ifndef OSB_SYS_IMSG_H
#define OSB_SYS_IMSG_H

#include <stddef.h>
#include <sys/types.h>

#define IMSG_MAX_FDS 160

/* One packet. 0 or a negative errno (-EAGAIN on a full non-blocking socket, -EPIPE, ...). The
 * descriptors stay the caller's. */
int imsg_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds);

#define IMSG_LOST_FDS ((size_t)-1)

/* One packet: its length, 0 at the end of the connection, -EMSGSIZE if it did not fit or had more
 * descriptors than there is room for. Received descriptors are close-on-exec and the caller's;
 * *n_fds is room on the way in, count on the way out (0 on any error: what came is closed). It is
 * IMSG_LOST_FDS if the kernel could not hand over all of them, as to a process that may have no
 * more: then none came, and the packet alone is there. */
ssize_t imsg_recv(int sock, void *data, size_t size, int *fds, size_t *n_fds);

#endif
