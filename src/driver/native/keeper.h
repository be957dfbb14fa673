/* Who starts runners: a small process that is forked off while the server still has its rights, so
 * that the server itself can give them up. It does nothing but start the one program it was born
 * with, each time on a socket that it is handed; it ends when the server does. */
#ifndef OSB_DRIVER_NATIVE_KEEPER_H
#define OSB_DRIVER_NATIVE_KEEPER_H

#include <sys/types.h>

#include "base/err.h"

struct keeper {
	int fd;
	pid_t pid;
};

/* Forks; to be called while there is one thread. `args` is the runner's command line, in which its
 * end of the socket is descriptor KEEPER_RUNNER_FD. */
#define KEEPER_RUNNER_FD 3
int keeper_start(const char *const *args, struct keeper *ret, struct err *e);

/* A new runner on the other end of *ret_fd. One that is still there from before ends first. */
int keeper_runner(int keeper_fd, int *ret_fd, struct err *e);

/* Waits until it and the runner are gone (which takes no more than a few seconds). */
void keeper_end(struct keeper *k);

#endif
