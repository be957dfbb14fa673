/* Processes by descriptor: a number alone may mean somebody else by the time it is used. */
#ifndef OSB_SYS_PROCESS_H
#define OSB_SYS_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* When the process started, in clock ticks since boot (field 22 of /proc/PID/stat). */
int process_start_time(pid_t pid, uint64_t *ret_ticks);

/* The process that had this number and started at that time: a descriptor, or -ESRCH. */
int process_open(pid_t pid, uint64_t start_ticks);

int process_kill(int fd, int signal); /* 0 or a negative errno; -ESRCH when it is gone */

/* Has it ended? A zombie has. */
bool process_ended(int fd);

/* Collect the exit status as from waitpid(2). For a process that is not our child the kernel is
 * asked for what it kept (Linux 6.15 and later); -1 when nobody knows. */
int process_collect(int fd);

#endif
