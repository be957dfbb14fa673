/* Kernels made before anybody asks for them: for each language that EXECD_WARM (or --warm) names,
 * one stands by with execd's own directory, and the next one is started when it has been taken. For
 * Python it is the template, which serves any number (kernel_template.h). */
#ifndef OSB_EXECD_KERNEL_SPARE_H
#define OSB_EXECD_KERNEL_SPARE_H

#include "execd/kernel.h"

/* In the background; what cannot be is logged. */
void kernel_spare_setup(struct execd *x);

/* One for a context of this language, directory and environment. It has no owner: kernel_adopt().
 * It may still be starting. NULL: there is none. */
struct kernel *kernel_spare_take(struct execd *x, const struct code_language *lang,
				 const struct env *env, const char *cwd);

#endif
