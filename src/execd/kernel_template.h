/* A Python process that has imported what is slow and forks kernels: a new context costs a fork
 * instead of a start, and shares the template's memory.
 *
 * The template is a child of execd. A kernel is forked from it like this:
 *
 *	template -> helper -> warden -> kernel
 *
 * The helper leaves at once, so that the warden becomes execd's own; the warden executes execd with
 * SPAWN_WARDEN_OPTION. From then on a forked kernel is as any other process that execd started: its
 * tree is known and can be ended, its end is reported, by the pipe that went to the template with
 * the kernel's descriptors. Should the template fail, that pipe closes, which counts as a failed
 * start.
 *
 * A template belongs to one interpreter and one environment. When either has changed since, it is
 * replaced. */
#ifndef OSB_EXECD_KERNEL_TEMPLATE_H
#define OSB_EXECD_KERNEL_TEMPLATE_H

#include "execd/code_language.h"
#include "execd/proc.h"

/* Modules to import in the template, with commas between them. */
#define KERNEL_TEMPLATE_PRELOAD "EXECD_PYTHON_PRELOAD"

struct kernel_template;

/* Have one started in the background, if there is a Python. */
void kernel_template_warm(struct execd *x, const struct env *env);

/* Fork a kernel with control socket and output descriptors `fds`, which stay the caller's. `path`
 * is the interpreter. The callbacks of `p` are set. -EAGAIN: there is no template that could (yet);
 * then one is started for the next time, and nothing was done for this. */
int kernel_template_spawn(struct execd *x, struct proc *p, const struct code_language *lang,
			  const struct env *env, const char *path, const char *cwd,
			  const int fds[3], struct err *e);

/* It has not done so: no more kernels from this one. */
void kernel_template_give_up(struct execd *x);

#endif
