/* Leaving nothing behind. */
#ifndef OSB_RUNNER_SWEEP_H
#define OSB_RUNNER_SWEEP_H

#include "runner/runner.h"

/* Remove every trace of a sandbox, made with these limits, that no process is left of. What cannot
 * go at once is tried again by sweep_step. */
void sweep_remove(struct runner *r, const char *id, const struct msg_limits *l);

/* Remove what no sandbox in r->boxes owns. */
void sweep_all(struct runner *r, uint32_t *ret_swept, uint32_t *ret_left);

void sweep_tick(struct runner *r);

/* Start what is left to do. */
void sweep_step(struct runner *r);

/* At our end: what lies in the trash goes, although we do not wait for it. */
void sweep_leave(struct runner *r);

#endif
