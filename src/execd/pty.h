/* Terminals: shells that outlive their clients.
 *
 * A session is made by POST /pty and keeps the last megabyte of output. The shell starts with the
 * first client; clients come and go, one at a time, by WebSocket, and see what they missed. Output
 * is read all the time: a client that does not keep up misses some and is told where it is, the
 * shell never waits.
 *
 * When the shell has ended, whoever is attached is told, after all its output; if nobody was, the
 * next to come is. After that the next client starts a new shell in the same session; its
 * `connected` message then says "restarted".
 *
 * pty.c has the sessions and their routes, pty_run.c the shell, pty_ws.c the client. */
#ifndef OSB_EXECD_PTY_H
#define OSB_EXECD_PTY_H

#include "base/rand.h"
#include "execd/execd.h"
#include "execd/proc.h"
#include "execd/ring.h"

#define PTY_STDOUT 1
#define PTY_STDERR 2

struct pty;
struct pty_client;

/* One shell: its processes and its ends of the terminal or of the pipes. */
struct pty_run {
	struct pty *pty;
	struct list link; /* among the session's; descendants may outlive the shell */
	struct proc proc;
	enum pty_run_state { PTY_RUN_STARTING, PTY_RUN_RUNNING, PTY_RUN_ENDED } state;
	bool pipe;      /* three pipes instead of a terminal */
	bool restarted; /* not the session's first */
	int exit_code;
	struct pty_end {
		struct stream stream;
		struct pty_run *run;
		bool open;
		unsigned char channel;
	} in, out, err;   /* of a terminal `in` and `out` are the same, `err` is not used */
	struct buf input; /* that the shell has not taken yet */
	unsigned holds;   /* process and ends that still have to call back */
};

struct pty {
	struct ptys *all;
	char id[RAND_UUID_SIZE];
	char *cwd, *command; /* NULL: none given */
	struct ring ring;
	struct list runs;    /* of struct pty_run, newest first */
	struct pty_run *run; /* the newest, or NULL */
	struct pty_client *client;
	struct deadline expiry; /* while neither shell nor client is there */
	bool exit_told;         /* a client has seen the end of `run` */
	bool deleted;
};

/* --- pty_run.c --- */

/* Start a shell; pty_run_started() or pty_run_failed() follows. */
int pty_run_start(struct execd *x, struct pty *p, bool pipe, struct err *e);
/* 0, 1: enough for now, pty_input_drained() follows; -EPIPE: it takes no more. */
int pty_run_input(struct pty_run *run, struct span data);
void pty_run_signal(struct pty_run *run, int signum); /* to the job in the foreground */
void pty_run_resize(struct pty_run *run, unsigned cols, unsigned rows);

/* --- pty_ws.c: what happened, for the client if there is one --- */

void pty_client_step(struct pty *p); /* started, output or the end: send what there is to send */
void pty_client_failed(struct pty *p, const struct err *e);
void pty_client_input_drained(struct pty *p);
void pty_client_close(struct pty *p, unsigned code, const char *reason);

/* --- pty.c --- */

struct pty *pty_find(struct http_req *r); /* by the path's id; NULL: answered */
/* Something ended: is the session over, or waiting? */
void pty_settle(struct pty *p);

#endif
