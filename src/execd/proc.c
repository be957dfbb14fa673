#include "execd/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "execd/reaper.h"
#include "execd/tree.h"

/* When the pipe is closed, and the leader of an orphaned tree was collected. */
static void gone_if_over(struct proc *p)
{
	if (!p->closed || (p->orphaned && p->state != PROC_EXITED))
		return;
	list_remove(&p->link);
	p->gone(p);
}

static void on_closed(struct stream *s)
{
	struct proc *p = CONTAINER_OF(s, struct proc, status);

	p->closed = true;
	gone_if_over(p);
}

static void drop_note(struct proc *p)
{
	spawn_note_drop(p->note);
	p->note = NULL;
}

static void leader_runs(struct proc *p, pid_t leader, pid_t warden)
{
	drop_note(p);
	p->state = PROC_RUNNING;
	p->ran = true;
	p->leader = leader;
	p->warden = warden;
	if (p->started != NULL)
		p->started(p);
	if (p->killing)
		proc_kill(p);
	else if (p->pending_signal != 0)
		proc_signal(p, p->pending_signal, true);
}

static void leader_ended(struct proc *p, int wait_status)
{
	if (p->state == PROC_EXITED)
		return;
	p->state = PROC_EXITED;
	p->leader = -1;
	p->exited(p, wait_status);
}

static void failed(struct proc *p, const struct err *e)
{
	drop_note(p);
	p->state = PROC_EXITED;
	p->leader = -1;
	p->failed(p, e);
}

static void start_failed(struct proc *p, uint32_t stage, int error)
{
	struct err e = ERR_INIT;

	(void)spawn_failed(&e, stage, error);
	failed(p, &e);
}

/* The warden collected it in its own last moment, and how it ended is known to nobody. */
static void leader_lost(struct proc *p)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ECHILD, "it has ended, and how is not known: its warden was killed");
	failed(p, &e);
}

/* Whether there ever was a leader is known to nobody here. */
static void warden_lost(struct proc *p)
{
	struct err e = ERR_INIT;

	(void)err_set(&e, ECHILD, "its warden was killed before it could tell of it");
	failed(p, &e);
}

static void take_report(struct proc *p, const struct spawn_report *r)
{
	switch ((enum spawn_kind)r->kind) {
	case SPAWN_STARTED:
		leader_runs(p, (pid_t)r->value, (pid_t)r->warden);
		break;
	case SPAWN_FAILED:
		start_failed(p, r->stage, r->value);
		break;
	case SPAWN_EXITED:
		leader_ended(p, r->value);
		break;
	}
}

/* The pipe ended: no process is left, unless somebody killed the warden; even before it could tell
 * that the leader runs. */
static void warden_ended(struct proc *p)
{
	p->warden = -1; /* its number may be another's soon */
	if (p->state == PROC_STARTING && p->note != NULL && *p->note > 0)
		leader_runs(p, (pid_t)*p->note, -1);
	else if (p->state == PROC_STARTING)
		warden_lost(p);
	if (p->state == PROC_RUNNING) {
		p->orphaned = true;
		if (kill(p->leader, 0) < 0 && errno == ESRCH)
			leader_lost(p);
	}
	stream_close(&p->status, on_closed);
	if (p->orphaned && p->killing)
		proc_kill(p);
}

static void on_ready(struct stream *s, unsigned events)
{
	struct proc *p = CONTAINER_OF(s, struct proc, status);
	struct spawn_report reports[2]; /* written whole, and a pipe keeps such writes together */
	ssize_t n;

	(void)events;
	n = stream_read(s, reports, sizeof(reports));
	if (n == -EAGAIN)
		return;
	for (ssize_t i = 0; i < n / (ssize_t)sizeof(reports[0]); i++)
		take_report(p, &reports[i]);
	if (n <= 0)
		warden_ended(p);
}

static void reset(struct execd *x, struct proc *p)
{
	p->x = x;
	p->warden = p->leader = -1;
	p->state = PROC_STARTING;
	p->pending_signal = 0;
	p->ran = p->killing = p->orphaned = p->closed = false;
	p->note = NULL;
	list_init(&p->link);
}

/* The descriptor is taken over. */
static int listen_to(struct proc *p, int status_fd, struct err *e)
{
	int r = stream_open(&p->x->loop, &p->status, status_fd, &stream_plain_ops, on_ready, e);

	if (r < 0)
		return r;
	stream_want(&p->status, STREAM_READABLE);
	reaper_add(p->x, p);
	return 0;
}

int proc_start(struct execd *x, struct proc *p, const struct proc_spec *spec, struct err *e)
{
	int fd, r;

	reset(x, p);
	p->note = spawn_note_take();
	r = spawn_warden(spec, p->note, &p->warden, &fd, e);
	if (r < 0) {
		drop_note(p);
		return r;
	}
	r = listen_to(p, fd, e);
	if (r < 0) { /* the note stays taken: a leader may still write to it */
		(void)tree_kill(p->warden);
		(void)kill(p->warden, SIGKILL);
	}
	return r;
}

int proc_adopt(struct execd *x, struct proc *p, int status_fd, struct err *e)
{
	reset(x, p);
	return listen_to(p, status_fd, e);
}

void proc_adopt_child(struct execd *x, struct proc *p, pid_t pid)
{
	reset(x, p);
	p->leader = pid;
	p->state = PROC_RUNNING;
	p->ran = p->orphaned = p->closed = true;
	reaper_add(x, p);
}

bool proc_reaped(struct proc *p, pid_t pid, int wait_status)
{
	if (pid == p->warden) {
		p->warden = -1;
		return true;
	}
	if (p->note != NULL && *p->note == pid)
		on_ready(&p->status, STREAM_READABLE); /* what the warden has told is heard first */
	if (pid != p->leader)
		return false;
	leader_ended(p, wait_status); /* it is ours only since the warden is dead */
	gone_if_over(p);
	return true;
}

void proc_signal(struct proc *p, int signum, bool tree)
{
	if (p->state == PROC_STARTING)
		p->pending_signal = signum;
	if (tree && p->warden > 0 && tree_signal(p->warden, signum) >= 0)
		return;
	if (p->leader > 0)
		(void)kill(-p->leader, signum);
}

void proc_kill(struct proc *p)
{
	p->killing = true;
	if (p->warden > 0) {
		(void)kill(p->warden, SIGCONT); /* it has children to collect */
		if (tree_kill(p->warden) >= 0)
			return;
	}
	if (p->leader > 0)
		(void)kill(-p->leader, SIGKILL);
}

/* --- words --- */

static const char *signal_words(int signum)
{
	static const struct {
		int signum;
		const char *words;
	} list[] = {
		{ SIGHUP, "hangup" },
		{ SIGINT, "interrupt" },
		{ SIGQUIT, "quit" },
		{ SIGILL, "illegal instruction" },
		{ SIGTRAP, "trace/breakpoint trap" },
		{ SIGABRT, "aborted" },
		{ SIGBUS, "bus error" },
		{ SIGFPE, "floating point exception" },
		{ SIGKILL, "killed" },
		{ SIGUSR1, "user defined signal 1" },
		{ SIGSEGV, "segmentation fault" },
		{ SIGUSR2, "user defined signal 2" },
		{ SIGPIPE, "broken pipe" },
		{ SIGALRM, "alarm clock" },
		{ SIGTERM, "terminated" },
		{ SIGXCPU, "CPU time limit exceeded" },
		{ SIGXFSZ, "file size limit exceeded" },
		{ SIGSYS, "bad system call" },
	};

	for (size_t i = 0; i < ARRAY_LEN(list); i++)
		if (list[i].signum == signum)
			return list[i].words;
	return NULL;
}

void proc_status_text(int wait_status, char *out, size_t size)
{
	const char *words;

	if (!WIFSIGNALED(wait_status)) {
		(void)snprintf(out, size, "exit status %d", WEXITSTATUS(wait_status));
		return;
	}
	words = signal_words(WTERMSIG(wait_status));
	if (words != NULL)
		(void)snprintf(out, size, "signal: %s%s", words,
			       WCOREDUMP(wait_status) ? " (core dumped)" : "");
	else
		(void)snprintf(out, size, "signal: signal %d", WTERMSIG(wait_status));
}

int proc_exit_code(int wait_status)
{
	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
}

char *proc_which(const char *name, char *const *envp)
{
	struct span path = SPAN_LIT("/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");

	if (strchr(name, '/') != NULL)
		return strdup(name);
	for (; envp != NULL && *envp != NULL; envp++)
		if (strncmp(*envp, "PATH=", 5) == 0)
			path = span_str(*envp + 5);
	while (path.p != NULL) {
		struct span dir = span_cut(&path, ':');
		struct stat st;
		char *full;

		/* an empty part means the current directory, whose programs nobody meant */
		if (dir.len == 0 || dir.p[0] != '/')
			continue;
		if (asprintf(&full, "%.*s/%s", SPAN_FMT(dir), name) < 0)
			return NULL;
		if (stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0)
			return full;
		free(full);
	}
	return NULL;
}

int proc_shell(const struct execd *x, char **ret, bool *ret_is_bash, struct err *e)
{
	char *path = proc_which("bash", x->env);

	*ret_is_bash = path != NULL;
	if (path == NULL)
		path = proc_which("sh", x->env);
	if (path == NULL)
		return err_set(e, ENOENT, "there is neither bash nor sh on the PATH");
	*ret = path;
	return 0;
}
