/* Can sandboxes live here at all? Tried at start, so that a host that cannot is told why then, and
 * not with each sandbox that is asked for. */
#ifndef OSB_SANDBOX_PROBE_H
#define OSB_SANDBOX_PROBE_H

#include <stdint.h>

#include "base/err.h"
#include "sandbox/ground.h"
#include "sandbox/state.h"

/* Makes a root file system the way a sandbox gets its own and throws it away. Working directory:
 * the kit. An error means that none can be made, not that one could not be made just now. Of the
 * user ids from `base` on none is used by anything but the trial. */
int probe_rootfs(const struct state *s, const char *host_image, const struct ground *g,
		 uint32_t base, struct err *e);

#endif
