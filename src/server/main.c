/* opensandbox-server: the API. See docs/server.md. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/path.h"
#include "codec/url.h"
#include "driver/native/native.h"
#include "io/address.h"
#include "server/api.h"
#include "server/options.h"
#include "server/rights.h"
#include "server/server.h"

#define DRAIN_MS 10000 /* how long running exchanges may take at the end */

static struct server server;
/* What ends it, each as gently. */
static const struct {
	int signum;
	const char *name;
} enders[] = { { SIGTERM, "SIGTERM" }, { SIGINT, "SIGINT" }, { SIGHUP, "SIGHUP" } };
static struct io_signal signals[ARRAY_LEN(enders)];
static unsigned n_signals;
static struct io_timer drain_timer;
static struct keeper keeper = { -EBADF, -1 };

/* --- the end: stop listening, finish, (end the sandboxes,) close the rest in turn --- */

static void store_closed(void *ctx)
{
	(void)ctx;
	ends_close(&server.manager.ends); /* not before the last end is recorded */
	io_loop_stop(&server.loop);
}

static void manager_closed(struct manager *m)
{
	(void)m;
	store_close(server.store, store_closed, NULL);
}

static void driver_closed(void *ctx)
{
	(void)ctx;
	server.driver = NULL;
	manager_close(&server.manager, manager_closed);
}

static void close_driver(struct manager *m)
{
	(void)m;
	if (server.driver != NULL)
		server.driver->ops->close(server.driver, driver_closed, NULL);
	else
		driver_closed(NULL);
}

static void http_closed(struct http_server *s)
{
	(void)s;
	if (server.config.kill_on_exit && server.manager.was_up)
		manager_end_all(&server.manager, CAUSE_SERVER_EXIT, close_driver);
	else
		close_driver(&server.manager);
}

static void close_http(void)
{
	io_timer_close(&drain_timer, NULL);
	while (n_signals > 0)
		io_signal_close(&signals[--n_signals]);
	http_server_close(&server.http, http_closed);
}

static void http_drained(struct http_server *s)
{
	(void)s;
	close_http();
}

static void drain_expired(struct io_timer *t)
{
	(void)t;
	log_warn("requests are still running; cutting them off");
	close_http();
}

static void stop(int exit_code)
{
	if (server.stopping)
		return;
	server.stopping = true;
	server.exit_code = exit_code;
	io_timer_start(&drain_timer, DRAIN_MS, 0);
	http_server_drain(&server.http, http_drained);
}

static void on_signal(struct io_signal *s, int signum)
{
	(void)s;
	for (size_t i = 0; i < ARRAY_LEN(enders); i++)
		if (enders[i].signum == signum)
			log_info("stopping", { "signal", enders[i].name });
	stop(0);
}

static int watch_signals(struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(enders); i++) {
		struct sigaction now;
		int r;

		/* nohup(1): the terminal may go, the server is to stay */
		if (enders[i].signum == SIGHUP && sigaction(SIGHUP, NULL, &now) == 0 &&
		    now.sa_handler == SIG_IGN)
			continue;
		r = io_signal_start(&server.loop, &signals[n_signals], enders[i].signum, on_signal,
				    e);
		if (r < 0)
			return r;
		n_signals++;
	}
	return 0;
}

/* --- the start --- */

static void on_ready(struct manager *m)
{
	(void)m;
	(void)printf("listening on http://%s\n", server.address);
	(void)fflush(stdout);
	log_info("listening", { "address", server.address }, { "state", server.config.state_dir });
}

static bool is_loopback(const struct address *a)
{
	if (a->sa.sa_family == AF_INET)
		return (ntohl(a->in.sin_addr.s_addr) >> 24) == 127;
	if (a->sa.sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
	return true;
}

static int check_exposure(const char *text, struct err *e)
{
	struct address a;
	int r = address_parse(text, &a, e);

	if (r < 0)
		return r;
	server.loopback = is_loopback(&a);
	if (server.loopback || server.config.api_key[0] != '\0' || server.config.allow_insecure)
		return 0;
	return err_set(e, EPERM,
		       "%s can be reached by others: set server.api_key (or the environment "
		       "variable OPENSANDBOX_SERVER_API_KEY), or say --allow-insecure",
		       text);
}

static int bind_http(int *ret_fd, struct err *e)
{
	const struct config *c = &server.config;
	bool ip6 = strchr(c->host, ':') != NULL && c->host[0] != '[';
	char text[160];
	int r;

	(void)snprintf(text, sizeof(text), ip6 ? "[%s]:%lld" : "%s:%lld",
		       strcmp(c->host, "localhost") == 0 ? "127.0.0.1" : c->host,
		       (long long)c->port);
	r = check_exposure(text, e);
	if (r < 0)
		return r;
	r = listener_bind(text, (int)c->backlog, ret_fd, e);
	if (r < 0)
		return r;
	(void)listener_address(*ret_fd, server.address, sizeof(server.address));
	return 0;
}

static int start_http(int fd, struct err *e)
{
	const struct config *c = &server.config;
	static const char busy[] =
		"HTTP/1.1 503 Service Unavailable\r\n"
		"Content-Type: application/json\r\n"
		"Content-Length: 59\r\n"
		"Retry-After: 1\r\n"
		"Connection: close\r\n\r\n"
		"{\"code\":\"OVERLOADED\",\"message\":\"too many open connections\"}";
	struct http_options opt = {
		.limits = http_default_limits,
		.handler = api_handle,
		.refuse = api_refuse,
		.user = &server,
		.busy_reply = busy,
	};
	int r;

	opt.limits.max_connections = c->max_connections > 0 ? (unsigned)c->max_connections
							    : UINT_MAX;
	opt.limits.idle_timeout_ms = (uint64_t)c->keep_alive_s * 1000;
	opt.limits.max_arena = MIB(4);
	r = http_server_init(&server.loop, &server.http, &opt, e);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	return http_server_listen(&server.http, fd, e);
}

/* A program beside ours, or where an installation puts those that are not for people. */
static const char *beside(const char *configured, const char *name)
{
	static const char *const places[] = { ".", "../libexec/opensandbox", "../lib/opensandbox" };
	char self[4096], dir[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (configured[0] != '\0' || n <= 0)
		return configured;
	self[n] = '\0';
	if (path_dir(dir, sizeof(dir), self) < 0)
		return configured;
	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		const char *path = arena_printf(&server.config.arena, "%s/%s/%s", dir, places[i],
						name);

		if (path != NULL && access(path, X_OK) == 0)
			return path;
	}
	return configured[0] != '\0' ? configured : name;
}

static int driver_options(struct native_options *ret, struct err *e)
{
	const struct config *c = &server.config;
	unsigned n = c->allowed_host_paths.n, n_images = c->image_paths.n;
	const char **allowed = arena_alloc(&server.config.arena,
					   (n + n_images + 1) * sizeof(*allowed));
	const char *execd = beside(c->execd_path, "execd");

	*ret = (struct native_options){
		.state_dir = c->state_dir,
		.runner_path = beside(c->runner_path, "opensandbox-runner"),
		.runner_socket = c->runner_socket[0] != '\0' ? c->runner_socket : NULL,
		.log_level = c->log_level,
		.allowed_paths = allowed,
		.dns = c->dns.items,
		.n_dns = c->dns.n,
		.open_networks = c->open_networks.items,
		.n_open_networks = c->open_networks.n,
		.ipv6 = c->ipv6,
		.max_queue = (unsigned)(c->max_creates + c->max_sandboxes + 1024),
	};
	if (allowed == NULL)
		return err_code(e, ENOMEM, "configuration");
	ret->execd_fd = open(execd, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (ret->execd_fd < 0)
		return err_sys(e, "open '%s'", execd);
	for (unsigned i = 0; i < n; i++)
		allowed[ret->n_allowed_paths++] = c->allowed_host_paths.items[i];
	for (unsigned i = 0; i < n_images; i++)
		allowed[ret->n_allowed_paths++] = c->image_paths.items[i];
	return 0;
}

/* Every sandbox costs a few descriptors while it is talked to; take all we may have. */
static void raise_limits(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < lim.rlim_max) {
		lim.rlim_cur = lim.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &lim);
	}
}

/* With whatever rights we were given; the last of it gives them up. */
static int start_privileged(struct native_options *driver, int *ret_http_fd, struct err *e)
{
	const struct config *c = &server.config;
	struct rights rights;
	int r;

	r = rights_find(c->user, &rights, e);
	if (r >= 0)
		r = rights_prepare(&rights, c->state_dir, e);
	if (r >= 0)
		r = driver_options(driver, e);
	if (r >= 0)
		r = bind_http(ret_http_fd, e);
	if (r >= 0)
		r = native_keeper(driver, &keeper, e);
	if (r >= 0)
		r = rights_drop(&rights, e);
	/* sockets of sandboxes are named from here, see driver.h */
	if (r >= 0 && chdir(c->state_dir) < 0)
		r = err_sys(e, "go to '%s'", c->state_dir);
	return r;
}

static int start(struct err *e)
{
	struct native_options driver = { .execd_fd = -EBADF };
	int fd = -EBADF, r;

	r = start_privileged(&driver, &fd, e);
	if (r >= 0)
		r = io_loop_init(&server.loop, e);
	if (r >= 0)
		r = store_open(&server.loop, server.config.store_path, &server.store, e);
	if (r >= 0)
		r = manager_init(&server.loop, &server.manager, &server.config, server.store, e);
	if (r >= 0) {
		server.manager.ready = on_ready;
		r = native_new(&server.loop, &driver, &keeper, &manager_driver_events,
			       &server.manager, &server.driver, e);
		server.manager.driver = server.driver;
	}
	fd_close(&driver.execd_fd);
	if (r < 0) {
		fd_close(&fd);
		return r;
	}
	return start_http(fd, e);
}

int main(int argc, char **argv)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	enum log_level level = LOG_INFO;
	struct err e = ERR_INIT;

	log_setup("opensandbox-server", LOG_INFO, LOG_TEXT);
	switch (options_read(argc, argv, &server.config)) {
	case OPTIONS_DONE:
		return 0;
	case OPTIONS_BAD:
		return 1;
	case OPTIONS_RUN:
		break;
	}
	if (!log_parse_level(server.config.log_level, &level)) {
		(void)fprintf(stderr, "opensandbox-server: log.level '%s' is not known\n",
			      server.config.log_level);
		return 1;
	}
	log_setup("opensandbox-server", level,
		  strcmp(server.config.log_format, "json") == 0 ? LOG_JSON : LOG_TEXT);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)umask(022);
	raise_limits();
	server.started_us = clock_mono_us();
	if (start(&e) < 0) {
		(void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
		keeper_end(&keeper);
		return 1;
	}
	io_timer_init(&server.loop, &drain_timer, drain_expired);
	if (watch_signals(&e) < 0) {
		(void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
		return 1;
	}
	io_loop_run(&server.loop);
	io_loop_free(&server.loop);
	keeper_end(&keeper); /* the runner has gone when this returns */
	config_free(&server.config);
	return server.exit_code;
}
