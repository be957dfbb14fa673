/* Collects children: as PID 1 everything that loses its parent, otherwise (as a child subreaper)
 * everything that descends from here. */
#ifndef OSB_EXECD_REAPER_H
#define OSB_EXECD_REAPER_H

#include "execd/execd.h"

struct proc;

int reaper_setup(struct execd *x, struct err *e);
void reaper_teardown(struct execd *x);

/* Processes that wait for a child's end. */
void reaper_add(struct execd *x, struct proc *p);
struct list *reaper_procs(struct execd *x);

/* Be told of one child by its number, once. */
void reaper_watch(struct execd *x, pid_t pid, void (*fn)(struct execd *x, int wait_status));

#endif
