/* A sandbox's writable layer: STATE/sandboxes/ID with up/ and work/ in it.
 *
 * Without a limit it is a plain directory. With one it must hold against root inside, without a
 * daemon: a project quota where the file system has them switched on, else a file system of its
 * own (image.h). */
#ifndef OSB_SANDBOX_DISK_H
#define OSB_SANDBOX_DISK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "sandbox/state.h"

enum disk_way { DISK_NONE, DISK_QUOTA, DISK_IMAGE };

/* What this host can do for a limit, and why not. */
enum disk_way disk_probe(const struct state *s, struct err *why);

/* Make the layer; *ret_fd is a directory the caller can clone a mount from, and owns. `project`
 * is a number no other sandbox has. */
int disk_make(const struct state *s, const char *id, uint64_t limit_bytes, enum disk_way way,
	      uint32_t project, int *ret_fd, struct err *e);

/* Bytes in use, or UINT64_MAX when nobody counts them. pid: of the sandbox's first process. */
uint64_t disk_used(const struct state *s, enum disk_way way, uint32_t project, int pid);

#endif
