/* Languages that execd has no driver for, but the image a Jupyter kernel. */
#ifndef OSB_EXECD_CODE_JUPYTER_H
#define OSB_EXECD_CODE_JUPYTER_H

#include "base/list.h"
#include "base/span.h"
#include "execd/code_language.h"

struct execd;

struct code_jupyter {
	struct list link; /* in struct code */
	struct code_language lang;
	char name[64];
};

/* A language that execd has a driver for; otherwise one by a kernelspec of the image that has this
 * name or is of this language. NULL: none. */
const struct code_language *code_jupyter_or_ours(struct execd *x, struct span name);

#endif
