/* Starting the inside of an isolated session (isolate.h), from the outside. */
#ifndef OSB_EXECD_LAUNCH_H
#define OSB_EXECD_LAUNCH_H

#include "base/buf.h"
#include "execd/execd.h"
#include "execd/proc.h"

struct launch {
	struct proc proc;
	struct stream status;
	bool status_open;
	bool told;   /* `ready` was called */
	bool exited; /* with this: */
	int wait_status;
	char words[300];
	size_t len;
	unsigned holds;
	/* Exactly once: kind 0 when it runs, otherwise one of isolate.h. */
	void (*ready)(struct launch *l, char kind, const char *words);
	void (*ended)(struct launch *l, int wait_status); /* after ready; may be NULL */
	void (*gone)(struct launch *l);                   /* last; the memory is the owner's */
	void *user;
};

/* `plan` and `spec` are JSON texts; listen_fd (-EBADF for a probe) stays the caller's. The
 * callbacks are set, the rest is zero. Fails now, or calls back (perhaps at once). */
int launch_start(struct execd *x, struct launch *l, struct span plan, struct span spec,
		 int listen_fd, struct err *e);
/* End it and everything below; `gone` follows. */
void launch_kill(struct launch *l);

#endif
