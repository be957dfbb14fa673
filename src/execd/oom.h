/* Has the kernel killed somebody here for want of memory? */
#ifndef OSB_EXECD_OOM_H
#define OSB_EXECD_OOM_H

#include <stdint.h>

#include "execd/execd.h"

/* Find the counter of our cgroup (version 2 or 1). Without one the count stays 0. */
void oom_setup(struct execd *x);
void oom_teardown(struct execd *x);

/* How often, so far. */
uint64_t oom_kills(const struct execd *x);

#endif
