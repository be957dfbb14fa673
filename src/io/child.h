/* A child process, by libuv: it is reaped on the loop, and told of by a callback. */
#ifndef OSB_IO_CHILD_H
#define OSB_IO_CHILD_H

#include "io/loop.h"

struct child {
	uv_process_t uv;
	/* code: its exit code, or 128 + the signal that ended it */
	void (*exited)(struct child *c, int code);
	void (*closed)(struct child *c);
	bool running;
};

struct child_options {
	const char *file;        /* as execvp(3) takes it */
	const char *const *args; /* NULL-terminated, the name first */
	const int *fds;          /* become 0, 1, 2, ... there; a negative one is /dev/null */
	unsigned n_fds;          /* at most CHILD_MAX_FDS */
};

#define CHILD_MAX_FDS 8

/* The descriptors stay the caller's. Fails now, or `exited` comes once, later. child_close() must
 * follow in either case. */
int child_start(struct io_loop *l, struct child *c, const struct child_options *opt,
		void (*exited)(struct child *c, int code), struct err *e);
void child_kill(struct child *c, int signum); /* nothing happens if it has ended */
/* Forgets the child; it is not ended. `closed` (may be NULL) tells when the memory may go. */
void child_close(struct child *c, void (*closed)(struct child *c));

#endif
