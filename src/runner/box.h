/* One sandbox, from the request to its last trace.
 *
 *	MAKING --exec--> RUNNING <--> PAUSING/PAUSED
 *	   |                |            |
 *	   +--- failed -----+-- PID 1 ends, whatever the reason --> DEAD
 *	                                                              |
 *	DELETE from any state: kill, wait for the end, remove -------+--> (gone)
 *
 * All waiting is done by the loop: on the socket of the child (making), on its pidfd (ending), on
 * its cgroup (pausing). */
#ifndef OSB_RUNNER_BOX_H
#define OSB_RUNNER_BOX_H

#include "runner/runner.h"

enum box_state {
	BOX_MAKING,
	BOX_RUNNING,
	BOX_PAUSING,
	BOX_PAUSED,
	BOX_DEAD,
};

struct box {
	struct runner *r;
	enum box_state state;
	unsigned row;
	struct table_row rec;
	struct watch pid, child, oom, freeze;
	struct net_slot slot;
	int32_t status; /* when dead */
	uint64_t oom_kills;
	struct err why; /* making failed */

	/* requests waiting for an answer */
	bool creating, pausing, deleting;
	uint64_t create_cookie, pause_cookie, delete_cookie;

	struct list waiting;
	uint64_t deadline_ms, look_ms;
	struct list short_of_memory;
	uint64_t oom_until_ms;
};

struct box *box_find(struct runner *r, const char *id);

/* Begin; the answer comes later. On error nothing is left and nothing was answered. fds: execd,
 * spec, log or -EBADF; all stay the caller's. */
int box_create(struct runner *r, const struct msg_create *m, const int *fds, struct err *e);

/* Begin to pause, resume, delete; the answer comes when it is done. */
int box_pause(struct box *b, uint64_t cookie, struct err *e);
/* Who asked is gone: those that are not paused yet go on. */
void box_forget_pauses(struct runner *r);
int box_resume(struct box *b, struct err *e);
int box_delete(struct box *b, uint64_t cookie, struct err *e);

int box_dial(struct box *b, const struct msg_dial *m, int *ret_fd, struct err *e);
void box_describe(const struct box *b, struct msg_item *out);
void box_stat(const struct box *b, struct msg_stat_reply *out);

/* A sandbox found in the table: alive, it is taken over; else it is listed as dead. */
int box_adopt(struct runner *r, unsigned row, const struct table_row *rec, struct err *e);

/* Boxes whose time has come. */
void box_tick(struct runner *r);

#endif
