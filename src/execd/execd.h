/* The daemon inside a sandbox: what its parts share.
 *
 * One loop, one HTTP server, one struct: a handler reaches it through its request (execd_of). Parts
 * that keep things of their own between requests have a member here, made in main.c. */
#ifndef OSB_EXECD_EXECD_H
#define OSB_EXECD_EXECD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "execd/quiet.h"
#include "http/server.h"
#include "io/deadline.h"
#include "io/loop.h"

struct code;
struct commands;
struct entrypoint;
struct isolated;
struct metrics;
struct port_proxy;
struct ptys;
struct reaper;
struct sessions;

/* What the command line and the environment said; see main.c. */
struct execd_options {
	const char *listen; /* "0.0.0.0:44772" */
	char listen_buf[32];
	int listen_fd;         /* inherited listening socket, or -EBADF */
	int spec_fd;           /* see spec.h, or -EBADF */
	char *access_token;    /* NULL: no authentication */
	const char *envs_file; /* or NULL */
	const char *jupyter_host;
	char *jupyter_token;
	char *const *entrypoint; /* NULL: none */
	uint64_t stop_grace_ms;
	uint64_t interrupt_grace_ms; /* of cells */
	const char *warm;            /* languages to have kernels ready for */
};

struct execd {
	struct execd_options opt;
	struct io_loop loop;
	struct http_server server;
	/* Environment of everything that is started here: ours, without what is secret. */
	char **env;
	int oom_fd;    /* see oom.h */
	uint16_t port; /* we listen on, 0 if that is no TCP port */

	/* One duration each, so that any number of them costs one timer. */
	struct deadline_queue pings; /* of event streams, see events.h */
	struct buf events_out;       /* events on their way from a source to its stream */
	struct quiet quiet;

	struct reaper *reaper;
	struct entrypoint *entrypoint;
	struct commands *commands;
	struct sessions *sessions;
	struct code *code;
	struct metrics *metrics;
	struct ptys *ptys;
	struct port_proxy *proxy;
	struct isolated *isolated;
};

static inline struct execd *execd_of(const struct http_req *r)
{
	return r->server->user;
}

#endif
