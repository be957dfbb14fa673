/* The program that execd was given to supervise: started once, its output kept and passed on, its
 * end the end of execd. */
#ifndef OSB_EXECD_ENTRYPOINT_H
#define OSB_EXECD_ENTRYPOINT_H

#include "execd/execd.h"

int entrypoint_start(struct execd *x, char *const *envp, struct err *e);
/* Pass a signal on. False: there is nobody to pass it to. */
bool entrypoint_signal(struct execd *x, int signum);
/* SIGKILL to all of it. */
void entrypoint_kill(struct execd *x);

#endif
