#include "io/child.h"

#include <string.h>

static void on_exit_status(uv_process_t *p, int64_t status, int signum)
{
	struct child *c = CONTAINER_OF(p, struct child, uv);

	c->running = false;
	c->exited(c, signum != 0 ? 128 + signum : (int)status);
}

static void on_closed(uv_handle_t *h)
{
	struct child *c = CONTAINER_OF((uv_process_t *)h, struct child, uv);

	if (c->closed != NULL)
		c->closed(c);
}

int child_start(struct io_loop *l, struct child *c, const struct child_options *opt,
		void (*exited)(struct child *c, int code), struct err *e)
{
	uv_stdio_container_t stdio[CHILD_MAX_FDS] = { 0 };
	uv_process_options_t o = {
		.exit_cb = on_exit_status,
		.file = opt->file,
		.stdio_count = (int)opt->n_fds,
		.stdio = stdio,
	};
	char **args;
	int r;

	if (opt->n_fds > CHILD_MAX_FDS)
		return err_set(e, EINVAL, "too many descriptors for a child");
	for (unsigned i = 0; i < opt->n_fds; i++) {
		stdio[i].flags = opt->fds[i] >= 0 ? UV_INHERIT_FD : UV_IGNORE;
		stdio[i].data.fd = opt->fds[i];
	}
	memcpy(&args, &opt->args, sizeof(args)); /* execvp does not write there */
	o.args = args;
	c->exited = exited;
	c->closed = NULL;
	r = uv_spawn(&l->uv, &c->uv, &o);
	c->running = r >= 0;
	if (r < 0)
		return err_code(e, r, "start '%s'", opt->file);
	return 0;
}

void child_kill(struct child *c, int signum)
{
	if (c->running)
		(void)uv_process_kill(&c->uv, signum);
}

void child_close(struct child *c, void (*closed)(struct child *c))
{
	c->closed = closed;
	uv_close((uv_handle_t *)&c->uv, on_closed);
}
