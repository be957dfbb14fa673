/* What the runner does when asked: one row per request. */
#ifndef OSB_RUNNER_OPS_H
#define OSB_RUNNER_OPS_H

#include "runner/runner.h"

/* Carry out a request whose size and descriptor count have been checked. Descriptors it keeps are
 * replaced by -EBADF in fds. False: the peer broke the rules. */
bool ops_run(struct runner *r, const void *packet, int *fds);
/* Answer a request whose descriptors did not arrive. */
bool ops_refuse(struct runner *r, const void *packet, size_t len);

#endif
