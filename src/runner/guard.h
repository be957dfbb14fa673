/* Firewall services reload their rules by flushing everybody's. A sandbox would then reach what it
 * must not, so the kernel's notices of changes are read and our table is put back at once. */
#ifndef OSB_RUNNER_GUARD_H
#define OSB_RUNNER_GUARD_H

#include "runner/runner.h"

int guard_start(struct runner *r, struct err *e);

#endif
