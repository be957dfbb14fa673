/* What an image name stands for on this machine.
 *
 *	host          the machine's own /usr, read-only, with a private everything else
 *	dir:/path     a root file system directory below images.allowed_paths
 *	NAME          what `opensandbox-server image import NAME TARBALL` unpacked
 *
 * Names that are none of these go through images.aliases and then to images.default. */
#ifndef OSB_SERVER_IMAGES_H
#define OSB_SERVER_IMAGES_H

#include "driver/driver.h"
#include "server/config.h"

/* Fills rootfs, dir and layers of the spec, from the arena. -ENOENT: there is no such image;
 * -EPERM: the path is not allowed. */
int images_resolve(const struct config *config, const char *uri, struct arena *arena,
		   struct driver_spec *spec, struct err *e);

/* Does a pattern of the aliases ("python:*", "python:3.12") match the name? */
bool images_matches(const char *pattern, const char *name);

/* Unpack a tarball as an image; blocking, for the command line. Replaces one of the same name. */
int images_import(const struct config *config, const char *name, const char *tarball,
		  struct err *e);

#endif
