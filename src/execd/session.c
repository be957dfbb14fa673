#include "execd/session.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/map.h"
#include "execd/api.h"
#include "execd/env.h"
#include "execd/run.h"
#include "execd/session_driver.h"
#include "sys/fsat.h"

#define DEFAULT_TIMEOUT_MS (24ULL * 3600 * 1000)

struct sessions {
	struct map by_id;
};

struct session {
	struct execd *x;
	char id[RAND_UUID_SIZE];
	char *cwd;
	struct buf state; /* the script of the run before, empty before the first */
	struct list runs;
	bool ended; /* the memory goes with the last run */
};

struct session_run {
	struct run run;
	struct session *session;
	struct list link;
	int state_fd, cwd_fd; /* what the shell leaves */
};

static void session_free(struct session *s)
{
	buf_free(&s->state);
	free(s->cwd);
	free(s);
}

int session_new(struct execd *x, const char *cwd, char ret_id[RAND_UUID_SIZE], struct err *e)
{
	struct session *s;

	if (x->sessions->by_id.count >= SESSION_MAX_COUNT)
		return err_set(e, EMFILE, "there are %d sessions already", SESSION_MAX_COUNT);
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_code(e, ENOMEM, "session");
	s->x = x;
	s->cwd = strdup(cwd);
	s->state = BUF_INIT(SESSION_MAX_STATE);
	list_init(&s->runs);
	rand_uuid(s->id);
	if (s->cwd == NULL || map_put(&x->sessions->by_id, span_str(s->id), s, NULL) < 0) {
		session_free(s);
		return err_code(e, ENOMEM, "session");
	}
	memcpy(ret_id, s->id, sizeof(s->id));
	return 0;
}

struct session *session_find(struct execd *x, struct span id)
{
	return map_get(&x->sessions->by_id, id);
}

bool session_end(struct execd *x, struct span id)
{
	struct session *s = map_remove(&x->sessions->by_id, id);

	if (s == NULL)
		return false;
	s->ended = true;
	list_for_each_safe (it, &s->runs)
		run_kill(&LIST_ENTRY(it, struct session_run, link)->run, RUN_INTERRUPTED);
	if (list_empty(&s->runs))
		session_free(s);
	return true;
}

/* --- what a run leaves --- */

/* All of a small file from its beginning; false if it is larger than `out` may be. */
static bool read_file(int fd, struct buf *out)
{
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || buf_reserve(out, (size_t)st.st_size + 1) < 0)
		return false;
	n = pread(fd, out->data, (size_t)st.st_size, 0);
	out->len = n > 0 ? (size_t)n : 0;
	return n == st.st_size;
}

/* Take over what the shell wrote. A state that is not whole (the shell was killed, or replaced by
 * another program) or too large counts as none: then the former one stays. */
static void take_over(struct session_run *sr)
{
	AUTO(buf_free) struct buf *state = &BUF_INIT(SESSION_MAX_STATE);
	AUTO(buf_free) struct buf *cwd = &BUF_INIT(PATH_MAX + 2);
	struct session *s = sr->session;
	char *path;

	if (!read_file(sr->state_fd, state) || !span_ends(buf_span(state), SESSION_DRIVER_END))
		return;
	buf_free(&s->state);
	s->state = *state;
	*state = BUF_INIT(0);
	if (!read_file(sr->cwd_fd, cwd) || cwd->len < 2 || cwd->data[0] != '/')
		return;
	path = span_dup(span_first(buf_span(cwd), cwd->len - 1)); /* without the newline */
	if (path == NULL)
		return;
	free(s->cwd);
	s->cwd = path;
}

static void on_finished(struct run *run)
{
	struct session_run *sr = CONTAINER_OF(run, struct session_run, run);

	take_over(sr);
	fd_close(&sr->state_fd);
	fd_close(&sr->cwd_fd);
	run_tell(run);
}

static void on_gone(struct run *run)
{
	struct session_run *sr = CONTAINER_OF(run, struct session_run, run);
	struct session *s = sr->session;

	list_remove(&sr->link);
	free(sr);
	if (s->ended && list_empty(&s->runs))
		session_free(s);
}

/* --- a run --- */

/* A file without a name that holds this. */
static int file_with(struct span text)
{
	int fd = memfd_create("session", MFD_CLOEXEC);

	if (fd >= 0 && (fsat_write_all(fd, text.p, text.len) < 0 || lseek(fd, 0, SEEK_SET) != 0))
		fd_close(&fd);
	return fd;
}

/* Later runs get their variables from the state, so that one that was unset stays so. What a shell
 * cannot have as a variable is passed on beside it. */
static int make_env(const struct session *s, struct env *env, struct err *e)
{
	int r = env_for_process(s->x, env, e);

	if (r < 0 || s->state.len == 0)
		return r;
	for (size_t i = env->n; i > 0; i--) {
		struct span rest = span_str(env->vars[i - 1]), name = span_cut(&rest, '=');

		if (env_is_name(name))
			env_unset(env, name);
	}
	return 0;
}

static int start(struct session_run *sr, const char *command, const char *cwd, struct err *e)
{
	struct session *s = sr->session;
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	autofd int command_fd = file_with(span_str(command));
	autofd int state_fd = file_with(buf_span(&s->state));
	autofree char *shell = NULL;
	struct proc_spec spec = { .n_fds = 7 };
	bool bash = false;
	int r;

	sr->state_fd = file_with(span_of("", 0));
	sr->cwd_fd = file_with(span_of("", 0));
	if (command_fd < 0 || state_fd < 0 || sr->state_fd < 0 || sr->cwd_fd < 0)
		return err_sys(e, "files of a session");
	r = proc_shell(s->x, &shell, &bash, e);
	if (r < 0)
		return r;
	env_init(env);
	r = make_env(s, env, e);
	if (r < 0)
		return r;
	const char *const for_bash[] = { "bash", "--noprofile", "--norc", "-c", session_driver_bash,
					 "bash", cwd,           NULL };
	const char *const for_sh[] = { "sh", "-c", session_driver_sh, "sh", cwd, NULL };

	spec.path = shell;
	spec.argv = (char *const *)(uintptr_t)(bash ? for_bash : for_sh);
	spec.envp = env->vars != NULL ? env->vars : (char *[]){ NULL };
	spec.fds[0] = spec.fds[1] = spec.fds[2] = -EBADF;
	spec.fds[3] = command_fd;
	spec.fds[4] = state_fd;
	spec.fds[5] = sr->state_fd;
	spec.fds[6] = sr->cwd_fd;
	run_start(s->x, &sr->run, &spec);
	return 0;
}

void session_start(struct session *s, struct http_req *r, const char *command, const char *cwd,
		   uint64_t timeout_ms)
{
	struct session_run *sr = calloc(1, sizeof(*sr));
	struct err e = ERR_INIT;

	if (sr == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "error running in session. out of memory");
		return;
	}
	sr->session = s;
	sr->state_fd = sr->cwd_fd = -EBADF;
	sr->run.finished = on_finished;
	sr->run.gone = on_gone;
	sr->run.timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_TIMEOUT_MS;
	sr->run.cancel_on_leave = true;
	list_push_back(&s->runs, &sr->link);
	if (start(sr, command, cwd != NULL ? cwd : s->cwd, &e) == 0) {
		r->abort_on_eof = true;
		events_open(&sr->run.events, s->x, r, s->id);
		return;
	}
	api_errorf(r, 500, API_RUNTIME_ERROR, "error running in session. %s", e.msg);
	fd_close(&sr->state_fd);
	fd_close(&sr->cwd_fd);
	list_remove(&sr->link);
	free(sr);
}

int sessions_setup(struct execd *x, struct err *e)
{
	struct sessions *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return err_code(e, ENOMEM, "sessions");
	map_init(&all->by_id);
	x->sessions = all;
	return 0;
}
