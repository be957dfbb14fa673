/* Making a sandbox, up to the moment its first process works by itself. */
#ifndef OSB_RUNNER_MAKE_H
#define OSB_RUNNER_MAKE_H

#include "runner/runner.h"

struct made {
	unsigned row;
	struct table_row rec;
	struct net_slot slot;
	int pid_fd;   /* of its first process */
	int child_fd; /* where that process reports */
};

#define MADE_INIT                                               \
	(struct made)                                           \
	{                                                       \
		.pid_fd = -EBADF, .child_fd = -EBADF, .slot = { \
			.ns_fd = -EBADF,                        \
			.index = NET_NO_ADDR                    \
		}                                               \
	}

/* On error everything is undone. */
int make_box(struct runner *r, const struct msg_create *m, const int *fds, struct made *ret,
	     struct err *e);

/* Take back what make_box made. */
void make_undo(struct runner *r, struct made *made);

#endif
