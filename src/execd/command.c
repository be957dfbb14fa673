#include "execd/command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/rand.h"
#include "execd/command_api.h"
#include "sys/fsat.h"

/* The kernel takes no longer argument; longer scripts go through a descriptor. */
#define ARG_MAX_LEN (KIB(128) - 1)

struct commands {
	struct execd *x;
	struct map by_id;
	struct list running, finished;
	struct deadline_queue ages;
	size_t n_finished, bytes_finished;
};

/* --- finished ones --- */

static void forget(struct command *c)
{
	struct commands *all = c->all;

	(void)map_remove(&all->by_id, span_str(c->id));
	list_remove(&c->link);
	deadline_clear(&c->age);
	all->n_finished--;
	all->bytes_finished -= c->bytes;
	logbuf_free(&c->log);
	free(c->text);
	free(c);
}

static void count_bytes(struct command *c)
{
	size_t bytes = strlen(c->text) + (size_t)(c->log.end - c->log.start);

	c->all->bytes_finished += bytes - c->bytes;
	c->bytes = bytes;
}

/* Something of it still runs, and its log may grow: such a one is kept. */
static bool forgettable(const struct command *c)
{
	return c->run == NULL;
}

static void make_room(struct commands *all)
{
	list_for_each_safe (it, &all->finished) {
		struct command *c = LIST_ENTRY(it, struct command, link);

		if (all->n_finished <= COMMANDS_KEEP_COUNT &&
		    all->bytes_finished <= COMMANDS_KEEP_BYTES)
			break;
		if (forgettable(c))
			forget(c);
	}
}

static void too_old(struct deadline_queue *q, struct deadline *d)
{
	struct command *c = CONTAINER_OF(d, struct command, age);

	if (forgettable(c))
		forget(c);
	else
		deadline_set(q, d);
}

static void record_end(struct command *c)
{
	struct commands *all = c->all;
	const struct run *run = c->run;

	c->running = false;
	c->finished_us = clock_wall_us();
	c->exit_code = run_exit_code(run);
	c->signal = run->end != RUN_NOT_STARTED && WIFSIGNALED(run->wait_status)
			    ? WTERMSIG(run->wait_status)
			    : 0;
	c->timed_out = run->end == RUN_TIMED_OUT;
	c->oom = run->oom;
	run_words(run, c->error, sizeof(c->error));
	list_remove(&c->link);
	list_push_back(&all->finished, &c->link);
	all->n_finished++;
	count_bytes(c);
	deadline_set(&all->ages, &c->age);
}

/* --- running ones --- */

static void on_started(struct run *run)
{
	struct command *c = run->user;

	if (!c->background)
		return;
	events_complete(&run->events, clock_mono_ms() - run->started_ms);
	events_close(&run->events);
}

static void on_finished(struct run *run)
{
	struct command *c = run->user;

	record_end(c);
	run_tell(run);
	command_api_finished(c);
}

static void on_gone(struct run *run)
{
	struct command *c = run->user;
	struct commands *all = c->all;

	c->run = NULL;
	free(run);
	logbuf_finish(&c->log);
	count_bytes(c);
	command_api_gone(c);
	make_room(all);
}

struct command *command_find(struct execd *x, struct span id)
{
	return map_get(&x->commands->by_id, id);
}

static struct command *command_new(struct commands *all, const struct command_request *q)
{
	struct command *c = calloc(1, sizeof(*c));
	struct run *run = calloc(1, sizeof(*run));
	char *text = span_dup(q->text);

	if (c != NULL)
		rand_hex(c->id, 16);
	if (c == NULL || run == NULL || text == NULL ||
	    map_put(&all->by_id, span_str(c->id), c, NULL) < 0) {
		free(c);
		free(run);
		free(text);
		return NULL;
	}
	c->all = all;
	c->text = text;
	c->background = q->background;
	c->running = true;
	c->started_us = clock_wall_us();
	c->run = run;
	logbuf_init(&c->log, COMMAND_LOG_MAX);
	list_init(&c->waiting);
	deadline_init(&c->age);
	list_push_back(&all->running, &c->link);
	run->user = c;
	run->timeout_ms = q->timeout_ms;
	run->started = on_started;
	run->finished = on_finished;
	run->gone = on_gone;
	if (q->background)
		run->log = &c->log;
	return c;
}

/* A script too long for an argument, in a file without a name. */
static int script_fd(struct span text)
{
	int fd = memfd_create("script", MFD_CLOEXEC);

	if (fd >= 0 && (fsat_write_all(fd, text.p, text.len) < 0 || lseek(fd, 0, SEEK_SET) != 0))
		fd_close(&fd);
	return fd;
}

int command_start(struct execd *x, const struct command_request *q, struct http_req *r)
{
	static const char read_bash[] = "IFS= read -r -d '' -u 3; exec 3<&-; eval \"$REPLY\"";
	static const char read_sh[] = "REPLY=$(cat <&3); exec 3<&-; eval \"$REPLY\"";
	struct command *c = command_new(x->commands, q);
	autofree char *shell = NULL;
	autofd int script = -EBADF;
	struct err e = ERR_INIT;
	bool bash = false;
	struct proc_spec spec = {
		.envp = q->envp,
		.cwd = q->cwd,
		.ids = q->ids,
		.fds = { -EBADF, -EBADF, -EBADF, -EBADF },
		.n_fds = 3,
	};
	char *argv[4];

	if (c == NULL)
		return -ENOMEM;
	events_open(&c->run->events, x, r, c->id);
	if (proc_shell(x, &shell, &bash, &e) < 0)
		shell = strdup("/bin/sh"); /* its absence is told like any other failed start */
	argv[0] = (char *)(uintptr_t)(bash ? "bash" : "sh");
	argv[1] = (char *)(uintptr_t) "-c";
	argv[2] = c->text;
	argv[3] = NULL;
	if (q->text.len > ARG_MAX_LEN) {
		script = script_fd(q->text);
		spec.fds[3] = script;
		spec.n_fds = 4;
		argv[2] = (char *)(uintptr_t)(bash ? read_bash : read_sh);
	}
	spec.path = shell;
	spec.argv = argv;
	run_start(x, c->run, &spec);
	return 0;
}

int commands_setup(struct execd *x, struct err *e)
{
	struct commands *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return err_code(e, ENOMEM, "commands");
	all->x = x;
	map_init(&all->by_id);
	list_init(&all->running);
	list_init(&all->finished);
	deadline_queue_init(&x->loop, &all->ages, COMMANDS_KEEP_MS, too_old);
	x->commands = all;
	return 0;
}
