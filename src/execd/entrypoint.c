#include "execd/entrypoint.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "execd/api.h"
#include "execd/logbuf.h"
#include "execd/main.h"
#include "execd/proc.h"
#include "execd/reaper.h"
#include "execd/tree.h"

#define LOG_MAX MIB(16)

/* Output of one descriptor: from its pipe to the log, and on to execd's own descriptor of that
 * number, where whoever runs execd looks for it. */
struct tee {
	struct entrypoint *owner;
	struct stream from;
	struct stream to; /* to wait until it can be written */
	int fd;           /* 1 or 2 */
	bool open;
	bool can_wait; /* `to` is in use: not for files, which are always ready */
	struct buf held;
};

struct entrypoint {
	struct execd *x;
	pid_t pid;
	struct logbuf log;
	struct tee tees[2];
};

/* Less than a pipe promises to take when it says that it is writable. The descriptor is shared with
 * others and must stay as it is, so it cannot be made non-blocking. */
#define PIECE ((size_t)4096)

static bool writable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0;
}

/* Write what is held; true if nothing is left. */
static bool tee_pass_on(struct tee *t)
{
	while (t->held.len > 0) {
		ssize_t n;

		if (t->can_wait && !writable(t->fd))
			return false;
		n = write(t->fd, t->held.data, MIN(t->held.len, PIECE));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) /* somebody made it so */
			return false;
		if (n <= 0)
			buf_clear(&t->held); /* nobody reads it: the log has it */
		else
			buf_consume(&t->held, (size_t)n);
	}
	return true;
}

static void tee_go_on(struct tee *t)
{
	bool all = tee_pass_on(t);

	if (all)
		buf_free(&t->held);
	if (t->can_wait)
		stream_want(&t->to, all ? 0 : STREAM_WRITABLE);
	if (t->open)
		stream_want(&t->from, all ? STREAM_READABLE : 0);
}

static void to_ready(struct stream *s, unsigned events)
{
	(void)events;
	tee_go_on(CONTAINER_OF(s, struct tee, to));
}

/* False: nothing is there for now. */
static bool tee_read(struct tee *t)
{
	struct io_loop *l = &t->owner->x->loop;
	ssize_t n = stream_read(&t->from, l->read_buf, IO_READ_SIZE);
	struct span data;

	if (n == -EAGAIN)
		return false;
	if (n <= 0) {
		t->open = false;
		stream_close(&t->from, NULL);
		return false;
	}
	data = span_of(l->read_buf, (size_t)n);
	logbuf_add(&t->owner->log, data);
	(void)buf_add_span(&t->held, data);
	return true;
}

static void from_ready(struct stream *s, unsigned events)
{
	struct tee *t = CONTAINER_OF(s, struct tee, from);

	(void)events;
	if (tee_read(t))
		tee_go_on(t);
}

static int tee_open(struct entrypoint *ep, struct tee *t, int fd, int *ret_write_fd, struct err *e)
{
	autofd int copy = -EBADF;
	int fds[2], r;

	t->owner = ep;
	t->fd = fd;
	t->held = BUF_INIT(IO_READ_SIZE * 2);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	*ret_write_fd = fds[1];
	r = stream_open(&ep->x->loop, &t->from, fds[0], &stream_plain_ops, from_ready, e);
	if (r < 0)
		return r;
	t->open = true;
	stream_want(&t->from, STREAM_READABLE);
	copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (copy >= 0) {
		int flags = fcntl(copy, F_GETFL);

		t->can_wait = stream_open(&ep->x->loop, &t->to, TAKE_FD(copy), &stream_plain_ops,
					  to_ready, NULL) == 0;
		if (t->can_wait) /* it was made non-blocking, for everybody who shares it */
			(void)fcntl(fd, F_SETFL, flags);
	}
	return 0;
}

/* What lies in the pipes when the program ends is its last output. */
static void take_rest(struct entrypoint *ep)
{
	for (unsigned i = 0; i < ARRAY_LEN(ep->tees); i++) {
		struct tee *t = &ep->tees[i];
		int pending = 0;

		if (t->open)
			(void)ioctl(t->from.fd, FIONREAD, &pending);
		while (t->open && pending > 0 && tee_pass_on(t)) {
			if (!tee_read(t))
				break;
			pending -= (int)MIN(t->held.len, (size_t)INT32_MAX);
		}
		(void)tee_pass_on(t);
	}
}

static void ended(struct execd *x, int wait_status)
{
	struct entrypoint *ep = x->entrypoint;

	ep->pid = -1;
	take_rest(ep);
	main_stop(x,
		  WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status));
	/* in this order: an answer that ends while the server is stopping is sent to its end */
	logbuf_finish(&ep->log);
}

int entrypoint_start(struct execd *x, char *const *envp, struct err *e)
{
	struct entrypoint *ep = calloc(1, sizeof(*ep));
	autofd int out = -EBADF, err = -EBADF;
	autofree char *path = NULL;
	struct proc_spec spec = { .argv = x->opt.entrypoint, .envp = envp, .n_fds = 3 };
	int r = 0;

	if (ep == NULL)
		return err_code(e, ENOMEM, "entrypoint");
	ep->x = x;
	ep->pid = -1;
	logbuf_init(&ep->log, LOG_MAX);
	x->entrypoint = ep;
	path = proc_which(x->opt.entrypoint[0], envp);
	if (path == NULL)
		return err_set(e, ENOENT, "%s is not on the PATH", x->opt.entrypoint[0]);
	spec.path = path;
	spec.fds[0] = STDIN_FILENO;
	spec.fds[1] = STDOUT_FILENO;
	spec.fds[2] = STDERR_FILENO;
	/* somebody who sits at a terminal wants the terminal, not a log */
	if (isatty(STDOUT_FILENO) == 0) {
		r = tee_open(ep, &ep->tees[0], STDOUT_FILENO, &out, e);
		if (r == 0)
			r = tee_open(ep, &ep->tees[1], STDERR_FILENO, &err, e);
		spec.fds[1] = out;
		spec.fds[2] = err;
	}
	if (r == 0)
		r = spawn_direct(&spec, &ep->pid, e);
	if (r < 0)
		return err_wrap(e, "start %s", path);
	reaper_watch(x, ep->pid, ended);
	return 0;
}

bool entrypoint_signal(struct execd *x, int signum)
{
	struct entrypoint *ep = x->entrypoint;

	return ep != NULL && ep->pid > 0 && kill(ep->pid, signum) == 0;
}

void entrypoint_kill(struct execd *x)
{
	struct entrypoint *ep = x->entrypoint;

	if (ep == NULL || ep->pid <= 0)
		return;
	(void)tree_kill(ep->pid);
	(void)kill(-ep->pid, SIGKILL);
	(void)kill(ep->pid, SIGKILL);
}

/* --- GET /logs?cursor=N&follow=true --- */

void logs_get(struct http_req *r)
{
	struct entrypoint *ep = execd_of(r)->entrypoint;
	struct span cursor = http_query(r, "cursor", 0), follow = http_query(r, "follow", 0);
	uint64_t at = 0;

	if (ep == NULL) {
		api_error(r, 404, API_CONTEXT_NOT_FOUND,
			  "entrypoint not found: execd runs without one");
		return;
	}
	if (cursor.len > 0 && !span_u64(cursor, &at)) {
		api_error(r, 400, API_INVALID_BODY, "cursor is not a position");
		return;
	}
	logbuf_reply(&ep->log, r, at,
		     (span_is(follow, "true") || span_is(follow, "1")) && ep->pid > 0);
}
