/* The runner's own mount namespace, and the parts every sandbox is assembled from.
 *
 * Nothing a sandbox mounts is ever visible on the host: the runner leaves the host's mount
 * namespace at start, throws out what it has no use for (each clone copies what is left), and puts
 * one small tmpfs on STATE/mnt, which becomes its working directory:
 *
 *	l/0 l/1 ...   where a child attaches the layers
 *	u             where it attaches the writable layer
 *	r             where it mounts the overlay: the root to be
 *	dev           a complete /dev, device nodes included; sandboxes get read-only clones, so
 *	              that there is nothing in it to replace by a link
 *	sys           the few parts of /sys that programs read, by way of overlays
 *	v             where the runner attaches a volume for a moment
 *	none          an empty directory, to cover others with
 *	execd         a copy, where one is needed (program.h)
 *
 * A cloned child starts with a private copy of all this and the same working directory. */
#ifndef OSB_SANDBOX_KIT_H
#define OSB_SANDBOX_KIT_H

#include <stdbool.h>

#include "base/err.h"
#include "sandbox/msg.h"
#include "sandbox/pseudo.h"
#include "sandbox/state.h"

#define KIT_VOLUME "v"

/* A mount namespace of our own, in which user namespaces can be made. To be entered before any
 * descriptor is opened that mounts will be cloned from: the kernel clones only what is in the
 * caller's namespace. */
int kit_enter(struct err *e);

/* nodes: device nodes can be made; otherwise those of the host are bound in their places. */
int kit_setup(const struct state *s, const struct pseudo_cgroups *cg, bool nodes, struct err *e);

/* The host's other mounts go; programs of the host that are still to be run need them. */
int kit_strip(const struct state *s, struct err *e);

#endif
