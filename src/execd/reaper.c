#include "execd/reaper.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "execd/proc.h"

struct reaper {
	struct execd *x;
	struct io_signal child;
	struct list procs;
	pid_t watched;
	void (*watcher)(struct execd *x, int wait_status);
};

static void collected(struct reaper *r, pid_t pid, int wait_status)
{
	if (pid == r->watched) {
		r->watched = -1;
		r->watcher(r->x, wait_status);
		return;
	}
	list_for_each_safe (it, &r->procs) {
		struct proc *p = LIST_ENTRY(it, struct proc, link);

		if (proc_reaped(p, pid, wait_status))
			return;
	}
}

/* One signal may stand for any number of children. */
static void on_child(struct io_signal *s, int signum)
{
	struct reaper *r = CONTAINER_OF(s, struct reaper, child);
	int status;
	pid_t pid;

	(void)signum;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		collected(r, pid, status);
}

int reaper_setup(struct execd *x, struct err *e)
{
	struct reaper *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return err_code(e, ENOMEM, "reaper");
	r->x = x;
	r->watched = -1;
	list_init(&r->procs);
	x->reaper = r;
	if (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL) < 0)
		return err_sys(e, "become the reaper of descendants");
	return io_signal_start(&x->loop, &r->child, SIGCHLD, on_child, e);
}

void reaper_teardown(struct execd *x)
{
	if (x->reaper == NULL)
		return;
	io_signal_close(&x->reaper->child);
	/* the handle must be closed by the loop before its memory goes: see main.c */
}

void reaper_add(struct execd *x, struct proc *p)
{
	list_push_back(&x->reaper->procs, &p->link);
}

struct list *reaper_procs(struct execd *x)
{
	return &x->reaper->procs;
}

void reaper_watch(struct execd *x, pid_t pid, void (*fn)(struct execd *x, int wait_status))
{
	x->reaper->watched = pid;
	x->reaper->watcher = fn;
}
