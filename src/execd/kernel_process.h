/* The process of a kernel: its program, which is the language's interpreter running our driver,
 * what it is given, and what is left of it. */
#ifndef OSB_EXECD_KERNEL_PROCESS_H
#define OSB_EXECD_KERNEL_PROCESS_H

#include "execd/code_language.h"
#include "execd/kernel_scratch.h"
#include "execd/proc.h"

/* The driver's text where an interpreter can read it: a descriptor, the caller's. */
int kernel_process_driver(const struct code_language *lang, struct err *e);

/* Start it, with its warden. `path` is the interpreter; `fds`, which stay the caller's, become its
 * control socket, standard output and standard error. `env` gets what the driver has to know.
 * *ret_scratch is set, before anything can fail, if the language needs a directory. */
int kernel_process_start(struct execd *x, struct proc *p, const struct code_language *lang,
			 struct env *env, const char *path, const char *cwd, const int fds[3],
			 struct kernel_scratch **ret_scratch, struct err *e);

#endif
