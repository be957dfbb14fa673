/* Start and end of the daemon. */
#ifndef OSB_EXECD_MAIN_H
#define OSB_EXECD_MAIN_H

#include "execd/execd.h"

/* End everything that runs here, let answers under way go out, exit with this code. */
void main_stop(struct execd *x, int exit_code);

#endif
