/* Named volumes and host directories, made ready to be attached in a sandbox.
 *
 * A named volume is the directory STATE/volumes/NAME. One with a size has a file system of its own
 * in STATE/volume-disks/NAME, which is ours alone, and then the directory only says that there is
 * such a volume. All sandboxes that use it share it. */
#ifndef OSB_SANDBOX_VOLUME_H
#define OSB_SANDBOX_VOLUME_H

#include "base/err.h"
#include "sandbox/msg.h"
#include "sandbox/state.h"

/* A detached mount with these attributes, id-mapped by the user namespace. Caller owns *ret_fd.
 * -EEXIST if the volume is there with another size. */
int volume_open(const struct state *s, const struct msg_volume *v, uint64_t attrs, int userns_fd,
		int *ret_fd, struct err *e);

/* The server has set this volume aside as MSG_GONE_VOLUME...: its disk goes. */
void volume_forget(const struct state *s, const char *gone);

#endif
