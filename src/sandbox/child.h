/* From clone to exec: what the first process of a sandbox does before it is execd.
 *
 * It starts in new user, mount, pid, ipc and uts namespaces (and in the network namespace the
 * runner stood in), without a single mapped id, enters its cgroups and waits for one packet: the
 * runner has then written the id maps. The packet brings the mounts. If the runner dies
 * before that, the wait ends and so does the process; from then on it needs nobody. An error is
 * sent back as a struct err; success is the end of the connection, at exec. */
#ifndef OSB_SANDBOX_CHILD_H
#define OSB_SANDBOX_CHILD_H

#include <stdint.h>

#include "base/err.h"
#include "sandbox/leaf.h"
#include "sandbox/msg.h"
#include "sandbox/pseudo.h"
#include "sandbox/seccomp.h"

struct child_plan {
	const struct msg_create *m;
	const struct seccomp_prog *filter;
	struct pseudo_cgroups cgroups;
	const struct leaf_door *door;
	uint64_t shm_bytes;
	bool groups;    /* setgroups(2) works */
	bool tty_group; /* there is a group 5 */
	uint32_t nproc; /* processes, where they are counted by user; 0: no limit */
	const char *resolv_conf;
	char hosts[512];
	int sock_fd;  /* to the runner */
	int execd_fd; /* what to run */
	int listen_fd, spec_fd, log_fd;
	unsigned n_layers;
};

/* Never returns. */
_Noreturn void child_main(const struct child_plan *plan);

#endif
