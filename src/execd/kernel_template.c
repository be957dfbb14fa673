#include "execd/kernel_template.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "codec/json.h"
#include "execd/code_context.h"
#include "execd/kernel_control.h"
#include "execd/kernel_process.h"

#define SPAWN_FDS 5 /* control, 1, 2, the warden's report, execd's own program */

struct kernel_template {
	struct execd *x;
	struct proc proc;
	struct kernel_control control;
	struct env env; /* it was started with */
	char *path;
	bool ready;
	unsigned holds;
};

static void release(struct kernel_template *t)
{
	if (--t->holds > 0)
		return;
	kernel_control_free(&t->control);
	env_free(&t->env);
	free(t->path);
	free(t);
}

/* No more kernels from this one. It leaves when its socket closes; kernels live on. */
static void retire(struct kernel_template *t)
{
	if (t->x->code->template == t)
		t->x->code->template = NULL;
	if (!t->control.open)
		return;
	kernel_control_close(&t->control);
	proc_kill(&t->proc);
}

static void on_closed(struct kernel_control *c)
{
	release(CONTAINER_OF(c, struct kernel_template, control));
}

static void on_exited(struct proc *p, int wait_status)
{
	(void)wait_status;
	retire(CONTAINER_OF(p, struct kernel_template, proc));
}

static void on_gone(struct proc *p)
{
	release(CONTAINER_OF(p, struct kernel_template, proc));
}

/* The only frame it sends: it is ready, and perhaps what it could not import. */
static bool take_frame(struct kernel_template *t, struct span body)
{
	AUTO(json_decref) json_t *frame = NULL;
	const char *op = NULL, *failed = NULL;

	if (json_parse(body, &json_default_limits, &frame, NULL) < 0 ||
	    json_get_str(frame, "op", JSON_MUST, &op, NULL) < 0 || strcmp(op, "ready") != 0)
		return false;
	if (json_get_str(frame, "failed", JSON_MAY, &failed, NULL) > 0)
		log_warn("modules to preload are not there", { "modules", failed });
	t->ready = true;
	return true;
}

static void on_ready(struct kernel_control *c)
{
	struct kernel_template *t = CONTAINER_OF(c, struct kernel_template, control);
	struct span body;
	int r = kernel_control_read(c);

	if (r > 0)
		r = kernel_frames_first(&c->in, &body);
	if (r > 0 && take_frame(t, body))
		kernel_frames_drop(&c->in);
	else if (r != 0)
		retire(t);
}

/* --- starting one --- */

static int exec_template(struct kernel_template *t, const struct code_language *python, int control,
			 pid_t *ret, struct err *e)
{
	const char *argv[] = { "python3", python->argv[0], python->argv[1], NULL };
	autofd int text = kernel_process_driver(python, e);
	struct proc_spec spec = {
		.path = t->path,
		.argv = (char *const *)(uintptr_t)argv,
		.fds = { -EBADF, -EBADF, -EBADF, control, text },
		.n_fds = 5,
	};
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	const char *preload = env_get(&t->env, SPAN_LIT(KERNEL_TEMPLATE_PRELOAD));

	if (text < 0)
		return text;
	env_init(env);
	if (env_add(env, t->env.vars) < 0 ||
	    env_set(env, SPAN_LIT("OSB_KERNEL_TEMPLATE"), span_str(preload)) < 0)
		return err_code(e, ENOMEM, "environment");
	spec.envp = env->vars;
	return spawn_direct(&spec, ret, e);
}

static int open_and_exec(struct kernel_template *t, const struct env *env, const char *path,
			 struct err *e)
{
	autofd int theirs = -EBADF;
	pid_t pid;
	int r;

	t->path = strdup(path);
	if (t->path == NULL || env_add(&t->env, env->vars) < 0)
		return err_code(e, ENOMEM, "template");
	t->control.ready = on_ready;
	t->control.closed = on_closed;
	r = kernel_control_open(t->x, &t->control, &theirs, e);
	if (r < 0)
		return r;
	t->holds++; /* the control socket's */
	r = exec_template(t, code_language_find(SPAN_LIT("python")), theirs, &pid, e);
	if (r < 0)
		return r;
	t->holds++; /* the process's */
	t->proc.exited = on_exited;
	t->proc.gone = on_gone;
	proc_adopt_child(t->x, &t->proc, pid);
	return 0;
}

static int start(struct execd *x, const struct env *env, const char *path, struct err *e)
{
	struct kernel_template *t = calloc(1, sizeof(*t));
	int r;

	if (t == NULL)
		return err_code(e, ENOMEM, "template");
	t->x = x;
	t->holds = 1; /* ours, until it is under way */
	env_init(&t->env);
	r = open_and_exec(t, env, path, e);
	if (r == 0) {
		kernel_control_want(&t->control, true);
		x->code->template = t;
	} else {
		kernel_control_close(&t->control);
	}
	release(t);
	return r;
}

static struct kernel_template *usable(struct execd *x, const struct env *env, const char *path)
{
	struct kernel_template *t = x->code->template;
	struct err e = ERR_INIT;

	if (t != NULL && (strcmp(t->path, path) != 0 || !env_same(&t->env, env))) {
		retire(t);
		t = NULL;
	}
	if (t == NULL && start(x, env, path, &e) < 0)
		log_debug("no template", { "error", e.msg });
	return t != NULL && t->ready ? t : NULL;
}

void kernel_template_warm(struct execd *x, const struct env *env)
{
	autofree char *path = NULL;

	if (code_language_locate(code_language_find(SPAN_LIT("python")), env, &path, NULL) == 0)
		(void)usable(x, env, path);
}

void kernel_template_give_up(struct execd *x)
{
	if (x->code->template != NULL)
		retire(x->code->template);
}

/* --- forking a kernel --- */

static int send_spawn(struct kernel_template *t, const char *language, const char *cwd,
		      const int *fds)
{
	AUTO(buf_free) struct buf *body = &BUF_INIT(KIB(64));
	AUTO(buf_free) struct buf *frame = &BUF_INIT(KIB(64) + KERNEL_FRAME_HEAD);
	struct jw w = JW_INIT(body);
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(SPAWN_FDS * sizeof(int))];
	} control = { 0 };
	struct iovec iov;
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	ssize_t n;

	jw_object(&w);
	jw_field_cstr(&w, "op", "spawn");
	jw_field_cstr(&w, "language", language);
	jw_field_cstr(&w, "cwd", cwd);
	jw_end(&w);
	if (buf_failed(body) || kernel_frames_put(frame, buf_span(body)) < 0)
		return -EMSGSIZE;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(SPAWN_FDS * sizeof(int));
	memcpy(CMSG_DATA(c), fds, SPAWN_FDS * sizeof(int));
	iov = (struct iovec){ frame->data, frame->len };
	n = sendmsg(t->control.stream.fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n == (ssize_t)frame->len)
		return 0;
	if (n >= 0) /* half a frame is none, and cannot be taken back */
		retire(t);
	return n < 0 ? -errno : -EAGAIN;
}

int kernel_template_spawn(struct execd *x, struct proc *p, const struct code_language *lang,
			  const struct env *env, const char *path, const char *cwd,
			  const int fds[3], struct err *e)
{
	struct kernel_template *t = usable(x, env, path);
	autofd int self = -EBADF, ours = -EBADF, theirs = -EBADF;
	int pipe_fds[2], r;

	if (t == NULL)
		return -EAGAIN;
	self = open("/proc/self/exe", O_PATH | O_CLOEXEC); /* inside a sandbox it cannot be read */
	if (self < 0 || pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -EAGAIN;
	ours = pipe_fds[0];
	theirs = pipe_fds[1];
	if (send_spawn(t, lang->name, cwd, (int[]){ fds[0], fds[1], fds[2], theirs, self }) < 0)
		return -EAGAIN;
	r = proc_adopt(x, p, TAKE_FD(ours), e);
	return r == -EAGAIN ? -ENOMEM : r; /* it has the descriptors: there is no second try */
}
