/* All descendants of a process, found by who is whose parent in /proc. */
#ifndef OSB_EXECD_TREE_H
#define OSB_EXECD_TREE_H

#include <sys/types.h>

#include "base/err.h"

/* Send a signal to every descendant of `root`, not to itself. How many got it, or a negative errno
 * when /proc cannot be read. */
int tree_signal(pid_t root, int signum);

/* End every descendant of `root`, those it gets meanwhile included. A process that has been sent
 * SIGKILL gets no more children: fork(2) looks for it under the lock under which it makes the child
 * visible (for any other signal it looks only when it begins, since Linux 4.20). So all are killed,
 * round by round, until a round finds nobody new. How many, or a negative errno. */
int tree_kill(pid_t root);

#endif
