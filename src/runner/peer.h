/* The connection to the server. */
#ifndef OSB_RUNNER_PEER_H
#define OSB_RUNNER_PEER_H

#include "runner/runner.h"

/* Serve this connected socket (then leave when it closes), or whoever connects at this path. */
int peer_serve_fd(struct runner *r, int fd, struct err *e);
int peer_listen(struct runner *r, const char *path, struct err *e);

/* Send a packet, now or when the peer has room. `fd` (or -EBADF) goes with it and is ours to close
 * in any case. Without a peer nothing happens. */
void peer_send(struct runner *r, const void *data, size_t len, int fd);

/* End the connection. */
void peer_close(struct runner *r, const char *why);

#endif
