/* Directories for files of drivers that compile, or write files otherwise. execd makes and removes
 * them: a kernel may be killed at any time, and what is killed cannot tidy up. */
#ifndef OSB_EXECD_KERNEL_SCRATCH_H
#define OSB_EXECD_KERNEL_SCRATCH_H

#include "execd/env.h"
#include "execd/execd.h"

struct kernel_scratch;

/* In TMPDIR of `env`, or /tmp; OSB_KERNEL_DIR of `env` names it then. */
int kernel_scratch_make(struct execd *x, const char *language, struct env *env,
			struct kernel_scratch **ret, struct err *e);
/* In the background. NULL is fine. */
void kernel_scratch_remove(struct kernel_scratch *s);
/* At execd's end: all that are left, now. */
void kernel_scratch_teardown(struct execd *x);

#endif
