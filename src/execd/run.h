/* A process whose output goes somewhere: to an event stream line by line, or to a log as it is.
 * What commands and the runs of a session have in common.
 *
 *	STARTING -> RUNNING -> DRAINING -> FINISHED
 *
 * Output is read from pipes as it comes. When the leader has ended, what lies in the pipes at that
 * moment is still its output (DRAINING); then the run is finished and the stream closed. Processes
 * it left behind live on: their output goes on into a log, and nowhere in the case of a stream, but
 * the pipes stay open and are emptied, so that they neither block nor get a SIGPIPE. `gone` comes
 * when none of them is left. */
#ifndef OSB_EXECD_RUN_H
#define OSB_EXECD_RUN_H

#include "codec/lines.h"
#include "execd/events.h"
#include "execd/logbuf.h"
#include "execd/proc.h"

struct run;

struct run_outlet {
	struct run *run;
	struct stream stream;
	struct lines lines;
	struct buf carry; /* read, but not taken by the client yet */
	const char *type; /* of its events */
	size_t left;      /* while draining: bytes still to be read */
	bool open;
};

struct run {
	struct execd *x;
	struct proc proc;
	struct events events;
	struct logbuf *log; /* NULL: to the event stream */
	struct run_outlet outlets[2];
	struct io_timer timer;
	struct io_defer give_up;
	enum run_state { RUN_STARTING, RUN_RUNNING, RUN_DRAINING, RUN_FINISHED } state;
	enum run_end {
		RUN_BY_ITSELF,
		RUN_TIMED_OUT,
		RUN_INTERRUPTED, /* DELETE, end of a session */
		RUN_CANCELLED,   /* its client left */
		RUN_NOT_STARTED,
	} end;
	int wait_status;
	bool oom;
	struct err error;    /* of RUN_NOT_STARTED */
	uint64_t timeout_ms; /* 0: none */
	uint64_t oom_kills;  /* of our cgroup before the start */
	uint64_t started_ms; /* monotonic */
	uint64_t finished_ms;
	unsigned holds; /* handles that are not closed yet */
	bool timer_open;
	bool proc_gone;
	bool cancel_on_leave;
	void *user;
	/* The leader runs; may be NULL. */
	void (*started)(struct run *run);
	/* The leader has ended, or never ran: the outcome is known; may be NULL. */
	void (*ended)(struct run *run);
	/* All its output has been passed on; the client has not been told of the end yet. */
	void (*finished)(struct run *run);
	/* No process is left (before or after `finished`: the client may be slow); may be NULL. */
	void (*dead)(struct run *run);
	void (*gone)(struct run *run); /* last; the memory is the owner's again */
};

/* `spec` as for proc_start(); its descriptors 1 and 2 are made here. An event stream, if any, has
 * been opened, callbacks and options are set, the rest is zero. Whatever happens is told later: a
 * process that could not be started has finished (RUN_NOT_STARTED) and is gone. */
void run_start(struct execd *x, struct run *run, struct proc_spec *spec);

/* SIGTERM to the whole tree, SIGKILL to what is left of it after a while. */
void run_interrupt(struct run *run);
/* SIGKILL to the whole tree. */
void run_kill(struct run *run, enum run_end why);

/* How it ended, as the last event of the stream, and close that. */
void run_tell(struct run *run);
/* The same in words for a status ("" for a success). */
void run_words(const struct run *run, char *out, size_t size);
int run_exit_code(const struct run *run);

#endif
