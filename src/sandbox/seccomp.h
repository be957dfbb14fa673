/* The system calls a sandbox may make, as one BPF program made at the runner's start.
 *
 * Three verdicts. Listed calls work (some only with certain arguments). Calls known to reach the
 * kernel's inner parts answer EPERM. Everything else, including what kernels of the future bring,
 * answers ENOSYS, so that programs fall back to older calls. Calls of another architecture
 * (i386, x32) kill the process: there is no honest use for them here. */
#ifndef OSB_SANDBOX_SECCOMP_H
#define OSB_SANDBOX_SECCOMP_H

#include <linux/filter.h>
#include <stddef.h>

#include "base/err.h"

#define SECCOMP_MAX_INSNS 2048

struct seccomp_prog {
	struct sock_filter insns[SECCOMP_MAX_INSNS];
	unsigned short len;
};

int seccomp_build(struct seccomp_prog *p, struct err *e);

/* For the calling process and all that come after it; needs no_new_privs. */
int seccomp_install(const struct seccomp_prog *p, struct err *e);

#endif
