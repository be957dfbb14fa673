/* fork, exec and what happens between: the code that runs in children of execd. See proc.h for what
 * a warden is. */
#ifndef OSB_EXECD_SPAWN_H
#define OSB_EXECD_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "execd/users.h"

#define PROC_MAX_FDS 8

/* What to run, as whom, with what. */
struct proc_spec {
	const char *path; /* absolute, of the program */
	char *const *argv;
	char *const *envp;
	const char *cwd;            /* NULL: execd's own */
	const struct user_ids *ids; /* NULL: as execd */
	/* What becomes descriptor 0, 1, 2 ... of the leader; -EBADF: /dev/null for the first three,
	 * nothing beyond. They stay the caller's. */
	int fds[PROC_MAX_FDS];
	unsigned n_fds; /* at least 3 */
	bool tty;       /* descriptor 0 is a terminal: make it the controlling one */
};

/* What a warden tells through its pipe, in this order: STARTED or FAILED, then EXITED; the end of
 * the pipe means that no process is left. */
enum spawn_kind { SPAWN_STARTED = 1, SPAWN_FAILED, SPAWN_EXITED };
enum spawn_stage { SPAWN_FORK, SPAWN_FILES, SPAWN_USER, SPAWN_DIRECTORY, SPAWN_EXEC };

struct spawn_report {
	uint32_t kind;
	uint32_t stage; /* of a failure */
	int32_t value;  /* pid, errno, wait status */
	int32_t warden; /* SPAWN_STARTED: who tells, if execd did not make it */
};

/* Words for a failure. Returns -error. */
int spawn_failed(struct err *e, uint32_t stage, int error);

/* As many descriptors for execd as it may have; what it starts gets the limit it was given. */
void spawn_raise_limits(void);

/* A child of execd itself, in a session of its own. Returns when the program runs, or not. */
int spawn_direct(const struct proc_spec *s, pid_t *ret, struct err *e);

/* Where a leader leaves its number before it runs its program, in memory that it shares with execd:
 * a program may kill its warden before that can tell of it. NULL when too many are starting. */
volatile int32_t *spawn_note_take(void);
void spawn_note_drop(volatile int32_t *note);

/* A warden, and below it the leader. Returns at once; *ret_status_fd has the reports. */
int spawn_warden(const struct proc_spec *s, volatile int32_t *note, pid_t *ret_warden,
		 int *ret_status_fd, struct err *e);

/* The warden of a process that somebody else forked: a program of its own, "execd --warden-of PID
 * FD", which that process's parent becomes by exec (see kernel_template.h). Does not return if it
 * is asked for. */
#define SPAWN_WARDEN_OPTION "--warden-of"
void spawn_warden_program(int argc, char **argv);

#endif
