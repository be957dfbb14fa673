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
#include "execd/env.h"
#include "execd/simple.h"
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

static void on_ended(struct run *run)
{
	struct command *c = run->user;
	struct commands *all = c->all;

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
	run_tell(run);
}

static void on_dead(struct run *run)
{
	command_api_dead(run->user);
}

static void on_gone(struct run *run)
{
	struct command *c = run->user;
	struct commands *all = c->all;

	c->run = NULL;
	free(run);
	logbuf_finish(&c->log);
	count_bytes(c);
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
	run->ended = on_ended;
	run->finished = on_finished;
	run->dead = on_dead;
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

/* argv, path and descriptors of the shell that runs the command's text. */
struct shell {
	char *path;
	char *argv[4];
	int script_fd;
};

static void shell_prepare(struct execd *x, struct command *c, struct shell *sh)
{
	static char read_bash[] = "IFS= read -r -d '' -u 3; exec 3<&-; eval \"$REPLY\"";
	static char read_sh[] = "REPLY=$(cat <&3); exec 3<&-; eval \"$REPLY\"";
	static char bash[] = "bash", posix[] = "sh", option[] = "-c";
	bool is_bash = false;

	if (proc_shell(x, &sh->path, &is_bash, NULL) < 0)
		sh->path = strdup("/bin/sh"); /* that it is missing is told like any failed start */
	sh->argv[0] = is_bash ? bash : posix;
	sh->argv[1] = option;
	sh->argv[2] = c->text;
	sh->argv[3] = NULL;
	sh->script_fd = -EBADF;
	if (strlen(c->text) > ARG_MAX_LEN) {
		sh->script_fd = script_fd(span_str(c->text));
		sh->argv[2] = is_bash ? read_bash : read_sh;
	}
}

int command_start(struct execd *x, const struct command_request *q, struct http_req *r)
{
	struct command *c = command_new(x->commands, q);
	/* not of the request's memory: the first event may find its connection broken */
	autofree struct simple *simple = malloc(sizeof(*simple));
	struct shell sh = { .script_fd = -EBADF };
	struct proc_spec spec = {
		.cwd = q->cwd,
		.ids = q->ids,
		.fds = { -EBADF, -EBADF, -EBADF, -EBADF },
		.n_fds = 3,
	};

	if (c == NULL)
		return -ENOMEM;
	events_open(&c->run->events, x, r, c->id);
	/* another user may not be allowed what we are: the shell will say what happened */
	if (q->ids == NULL && simple != NULL && simple_prepare(c->text, q->cwd, q->env, simple)) {
		spec.path = sh.path = simple->path;
		spec.argv = simple->argv;
	} else {
		shell_prepare(x, c, &sh);
		spec.path = sh.path;
		spec.argv = sh.argv;
		spec.fds[3] = sh.script_fd;
		spec.n_fds = sh.script_fd >= 0 ? 4 : 3;
	}
	spec.envp = q->env->vars;
	run_start(x, c->run, &spec);
	fd_close(&sh.script_fd);
	free(sh.path);
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
