/* execd: the daemon inside a sandbox. Setting up, signals, and the end. */
#include "execd/main.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "execd/api.h"
#include "execd/code_context.h"
#include "execd/code_port.h"
#include "execd/command.h"
#include "execd/entrypoint.h"
#include "execd/events.h"
#include "execd/isolate.h"
#include "execd/kernel_scratch.h"
#include "execd/kernel_spare.h"
#include "execd/oom.h"
#include "execd/options.h"
#include "execd/proc.h"
#include "execd/quiet.h"
#include "execd/reaper.h"
#include "execd/session.h"
#include "execd/spawn.h"
#include "execd/spec.h"

extern char **environ;

/* How long answers under way may take when everything behind them has been ended. */
#define DRAIN_MS 2000

static struct daemon {
	struct execd x;
	struct io_signal signals[6];
	struct io_timer timer;
	int exit_code;
	bool stopping;
} daemon_;

static struct daemon *daemon_of(struct execd *x)
{
	return CONTAINER_OF(x, struct daemon, x);
}

/* --- the end --- */

static void stop_loop(struct http_server *s)
{
	io_loop_stop(s->loop);
}

static void on_timer(struct io_timer *t)
{
	struct daemon *d = CONTAINER_OF(t, struct daemon, timer);

	if (d->stopping)
		io_loop_stop(&d->x.loop);
	else
		entrypoint_kill(&d->x); /* it had its time; its end is ours */
}

void main_stop(struct execd *x, int exit_code)
{
	struct daemon *d = daemon_of(x);

	if (d->stopping)
		return;
	d->stopping = true;
	d->exit_code = exit_code;
	list_for_each_safe (it, reaper_procs(x))
		proc_kill(LIST_ENTRY(it, struct proc, link));
	io_timer_start(&d->timer, DRAIN_MS, 0);
	http_server_drain(&x->server, stop_loop);
}

static void on_signal(struct io_signal *s, int signum)
{
	struct daemon *d = s->uv.data;

	if (entrypoint_signal(&d->x, signum)) {
		if (signum == SIGTERM)
			io_timer_start(&d->timer, d->x.opt.stop_grace_ms, 0);
	} else if (signum == SIGTERM || signum == SIGINT) {
		main_stop(&d->x, 0);
	}
}

/* --- the beginning --- */

static int catch_signals(struct daemon *d, struct err *e)
{
	static const int caught[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	int r = 0;

	(void)sigaction(SIGPIPE, &ignore, NULL);
	for (size_t i = 0; i < ARRAY_LEN(caught) && r == 0; i++) {
		r = io_signal_start(&d->x.loop, &d->signals[i], caught[i], on_signal, e);
		d->signals[i].uv.data = d;
	}
	return r;
}

/* What is started here gets our environment without what is ours alone. The supervised program may
 * be the very server whose token this is. */
static char **make_env(char *const *env, bool for_entrypoint)
{
	size_t n = 0, kept = 0;
	char **list;

	while (env[n] != NULL)
		n++;
	list = calloc(n + 1, sizeof(*list));
	for (size_t i = 0; i < n && list != NULL; i++) {
		if (strncmp(env[i], "EXECD_ACCESS_TOKEN=", 19) == 0 ||
		    (!for_entrypoint && strncmp(env[i], "JUPYTER_TOKEN=", 14) == 0))
			continue;
		list[kept++] = env[i];
	}
	return list;
}

static int start_listening(struct execd *x, struct err *e)
{
	char address[128] = "";
	const char *colon;
	uint64_t port;
	int fd = x->opt.listen_fd, r;

	if (fd < 0) {
		r = listener_bind(x->opt.listen, 1024, &fd, e);
		if (r < 0)
			return r;
	}
	(void)listener_address(fd, address, sizeof(address));
	colon = strrchr(address, ':');
	if (strncmp(address, "unix:", 5) != 0 && colon != NULL &&
	    span_u64(span_str(colon + 1), &port))
		x->port = (uint16_t)port;
	r = http_server_listen(&x->server, fd, e);
	if (r == 0 && x->opt.listen_fd < 0) {
		(void)printf("listening on %s%s\n", x->port != 0 ? "http://" : "", address);
		(void)fflush(stdout);
	}
	return r;
}

static int set_up(struct execd *x, struct err *e)
{
	struct http_options http = {
		.limits = http_default_limits,
		.handler = api_handle,
		.refuse = api_refuse,
		.user = x,
	};
	int r;

	http.limits.idle_timeout_ms = 600000;
	http.limits.write_timeout_ms = 600000; /* a debugger at the other end is no failure */
	http.limits.soft_out = KIB(128);
	http.limits.hard_out = MIB(16); /* one event may be as large as a line */
	x->env = make_env(environ, false);
	if (x->env == NULL)
		return err_code(e, ENOMEM, "environment");
	r = io_loop_init(&x->loop, e);
	if (r == 0)
		r = http_server_init(&x->loop, &x->server, &http, e);
	if (r == 0)
		r = reaper_setup(x, e);
	if (r == 0)
		r = commands_setup(x, e);
	if (r == 0)
		r = sessions_setup(x, e);
	if (r == 0)
		r = code_contexts_setup(x, e);
	if (r < 0)
		return r;
	events_setup(x);
	oom_setup(x);
	return 0;
}

/* Descriptors 0 to 2 are there, if only as /dev/null: or else the next ones to be opened would take
 * their places. Whatever else was inherited is ours, and not for those we start. */
static void settle_descriptors(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_NOCTTY);
	while (fd >= 0 && fd < 3);
	if (fd >= 3)
		(void)close(fd);
	(void)syscall(SYS_close_range, 3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
}

int main(int argc, char **argv)
{
	struct daemon *d = &daemon_;
	struct execd *x = &d->x;
	enum log_level level = LOG_INFO;
	struct err e = ERR_INIT;
	int r;

	spawn_warden_program(argc, argv);
	isolate_program(argc, argv);
	settle_descriptors();
	switch (options_parse(argc, argv, environ, &x->opt, &level)) {
	case OPTIONS_RUN:
		break;
	case OPTIONS_EXIT_OK:
		return 0;
	case OPTIONS_EXIT_USAGE:
		return 2;
	}
	log_setup("execd", level, LOG_JSON);
	if (x->opt.spec_fd >= 0 && spec_load(x->opt.spec_fd, &x->opt, &e) < 0) {
		log_error("cannot start", { "error", e.msg });
		return 1;
	}
	if (x->opt.access_token !=
	    NULL) /* no peeking into our memory for those without privileges */
		(void)prctl(PR_SET_DUMPABLE, 0UL, 0UL, 0UL, 0UL);
	spawn_raise_limits();
	r = set_up(x, &e);
	if (r == 0)
		r = catch_signals(d, &e);
	if (r == 0)
		r = start_listening(x, &e);
	if (r == 0 && x->opt.entrypoint != NULL) {
		autofree char **env = make_env(environ, true);

		r = entrypoint_start(x, env, &e);
	}
	if (r < 0) {
		log_error("cannot start", { "error", e.msg });
		return x->opt.entrypoint != NULL && r == -ENOENT ? 127 : 1;
	}
	io_timer_init(&x->loop, &d->timer, on_timer);
	code_port_open(x);
	kernel_spare_setup(x);
	quiet_setup(x);
	io_loop_run(&x->loop);
	kernel_scratch_teardown(x);
	return d->exit_code;
}
