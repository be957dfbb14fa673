/* After a start: find the sandboxes of the runner before, and sweep what it left half done. */
#ifndef OSB_RUNNER_ADOPT_H
#define OSB_RUNNER_ADOPT_H

#include "runner/runner.h"

int adopt_all(struct runner *r, struct err *e);

#endif
