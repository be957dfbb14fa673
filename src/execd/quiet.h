/* Memory of a daemon that has nothing to do. Most of the program was needed for starting or for the
 * last request, not for waiting: pages mapped from the file come back when they are used, and until
 * then count for nobody; freed heap goes back. Done after the start and whenever no request came
 * for a while; a daemon at rest has no timer. */
#ifndef OSB_EXECD_QUIET_H
#define OSB_EXECD_QUIET_H

#include <stdbool.h>

#include "io/loop.h"

struct execd;

struct quiet {
	struct io_timer timer;
	bool armed, touched;
};

/* Call once everything is set up. */
void quiet_setup(struct execd *x);

/* A request came. */
void quiet_touch(struct execd *x);

#endif
