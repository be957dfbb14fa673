/* Processes that execd starts: a leader in a session of its own, and all that descends from it.
 *
 * Between execd and the leader stands a warden, a fork of execd that does nothing but wait. It is a
 * child subreaper, so whatever the leader's descendants do (fork twice, setsid, ignore signals),
 * they stay descendants of the warden; ending the tree means ending all of those, and the tree is
 * gone when the warden is, because it leaves last. No rights, no cgroup and no marker that a
 * process could shed are needed for that. The warden also does the fork and exec, so that neither
 * blocks the loop.
 *
 *	proc_start() -> [failed | exited] -> gone
 *
 * A start fails now or calls back later: `failed` (nothing was run, or nobody knows how it ended)
 * or `exited` (the leader ended), then `gone` when no process of the tree is left. That may be long
 * after `exited`: the leader's children may live on. */
#ifndef OSB_EXECD_PROC_H
#define OSB_EXECD_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/list.h"
#include "execd/execd.h"
#include "execd/spawn.h"
#include "io/stream.h"

struct proc {
	struct execd *x;
	struct stream status; /* from the warden */
	struct list link;     /* in the reaper's list */
	pid_t warden;         /* -1 once it was reaped */
	pid_t leader;         /* -1 until it runs and after it ended; also its session and group */
	enum proc_state { PROC_STARTING, PROC_RUNNING, PROC_EXITED } state;
	int pending_signal; /* asked for before the leader ran */
	bool ran;           /* the leader was started */
	bool killing;
	bool orphaned;          /* the warden was killed: its children are execd's own now */
	bool closed;            /* nothing comes through `status` any more */
	volatile int32_t *note; /* while it starts: see spawn.h; may be NULL */
	void *user;
	void (*started)(struct proc *p); /* `leader` is set; may be NULL */
	void (*failed)(struct proc *p, const struct err *e);
	void (*exited)(struct proc *p, int wait_status); /* as from waitpid(2) */
	void (*gone)(struct proc *p); /* exactly once, last; the memory is the owner's again */
};

/* The callbacks and `user` are set by the caller. */
int proc_start(struct execd *x, struct proc *p, const struct proc_spec *spec, struct err *e);
/* A process whose warden is on its way and will report through this descriptor, which is taken over
 * in any case. From here on it is as if proc_start() had started it. */
int proc_adopt(struct execd *x, struct proc *p, int status_fd, struct err *e);
/* A child of execd that has no warden, and no tree to be ended with it. */
void proc_adopt_child(struct execd *x, struct proc *p, pid_t pid);
/* To the leader's process group, or (tree) to each process of the tree. */
void proc_signal(struct proc *p, int signum, bool tree);
/* End all of it, for certain: descendants that left the session included. `gone` tells. */
void proc_kill(struct proc *p);

/* A child of execd was collected: was it one of this process's? For the reaper. */
bool proc_reaped(struct proc *p, pid_t pid, int wait_status);

/* Words for an end: "exit status 3", "signal: killed". Shorter than 64 bytes. */
void proc_status_text(int wait_status, char *out, size_t size);
/* N for exit N; -1 for an end by a signal. */
int proc_exit_code(int wait_status);
/* bash, or sh where there is none, as execd's PATH has it now. *ret is malloc'd. */
int proc_shell(const struct execd *x, char **ret, bool *ret_is_bash, struct err *e);
/* The path of a program, looked up along PATH of `envp`. Malloc'd, or NULL. */
char *proc_which(const char *name, char *const *envp);

#endif
