/* The languages that have kernels, and how a kernel of each is started. */
#ifndef OSB_EXECD_CODE_LANGUAGE_H
#define OSB_EXECD_CODE_LANGUAGE_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"
#include "execd/env.h"
#include "execd/kernels.h"

struct code_language {
	const char *name;
	const char *driver; /* name of its program, see kernels.h */
	/* Programs of the image that it needs, each a list of names with '|' between those that
	 * will do; the first is the one that runs. */
	const char *needs[3];
	const char *advice; /* for those whose image lacks them */
	/* Arguments after the program's name; "%s" stands for the driver's text. Drivers that are
	 * not among them come as descriptor 4. */
	const char *argv[8];
	bool text_cells;  /* is sent plain text, see PROTOCOL.md */
	bool from_python; /* the Python template can fork it */
	bool needs_dir;   /* for files of its own: OSB_KERNEL_DIR */
};

/* NULL: no such language. */
const struct code_language *code_language_find(struct span name);
const struct kernel_program *code_language_driver(const struct code_language *lang);

/* The program that runs it, as PATH of `env` has it. *ret is malloc'd. -ENOENT: the words name what
 * is missing. */
int code_language_locate(const struct code_language *lang, const struct env *env, char **ret,
			 struct err *e);

#endif
