/* The kernels' drivers, which the build puts into execd (kernels/bundle.py): an image needs nothing
 * but the language itself. */
#ifndef OSB_EXECD_KERNELS_H
#define OSB_EXECD_KERNELS_H

#include <stddef.h>

struct kernel_program {
	const char *name;
	const char *text; /* NUL-terminated */
	size_t len;
};

extern const struct kernel_program kernel_programs[]; /* up to a NULL name */

#endif
