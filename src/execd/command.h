/* Shell commands: run in the foreground with their output as events, or in the background with
 * their output in a log; known by their id while they run and for a while after. */
#ifndef OSB_EXECD_COMMAND_H
#define OSB_EXECD_COMMAND_H

#include "codec/json.h"
#include "execd/run.h"

/* What is kept of finished commands: the newest, so many of them, for so long, with so many bytes
 * of output and text in all. */
#define COMMANDS_KEEP_COUNT 1024
#define COMMANDS_KEEP_MS    3600000
#define COMMANDS_KEEP_BYTES MIB(64)
/* Output of one background command; the newest are kept. */
#define COMMAND_LOG_MAX MIB(16)

struct env;

#define COMMAND_ID_SIZE 33

struct command {
	struct commands *all;
	char id[COMMAND_ID_SIZE];
	struct list link; /* running, or finished in that order */
	char *text;
	bool background;
	bool running; /* the leader is */
	int64_t started_us, finished_us;
	int exit_code, signal;
	bool timed_out, oom;
	char error[320];
	struct run *run;     /* NULL when nothing of it is left */
	struct logbuf log;   /* of a background command */
	struct deadline age; /* of a finished one */
	struct list waiting; /* requests that wait for its end, see command_api.c */
	size_t bytes;        /* counted against COMMANDS_KEEP_BYTES */
};

struct command_request {
	struct span text;
	const char *cwd; /* clean and absolute; NULL: execd's */
	struct env *env; /* may get additions */
	const struct user_ids *ids;
	uint64_t timeout_ms;
	bool background;
};

int commands_setup(struct execd *x, struct err *e);

/* Register, open the event stream, start. Everything that goes wrong from here on is told in the
 * stream. -ENOMEM: nothing was done. */
int command_start(struct execd *x, const struct command_request *q, struct http_req *r);
struct command *command_find(struct execd *x, struct span id);

#endif
