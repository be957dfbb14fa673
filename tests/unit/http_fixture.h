/* What the loop-level tests share: a loop with a guard, raw peers within it, and upstreams whose
 * connections end in such a peer or in a server of the same loop. */
#ifndef OSB_TESTS_UNIT_HTTP_FIXTURE_H
#define OSB_TESTS_UNIT_HTTP_FIXTURE_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "http/client.h"
#include "http/server.h"

#define GUARD_MS 20000

/* One end of a socketpair in the test's own hands. */
struct peer {
	struct stream stream;
	struct buf in;
	bool open, ended; /* the other side has closed, or reset */
};

/* How the next connection is made. */
enum dial_mode { DIAL_PEER, DIAL_SERVER, DIAL_LATER, DIAL_REFUSE, DIAL_ADDRESS };

static struct {
	struct io_loop loop;
	struct io_timer guard;
	bool late;

	enum dial_mode mode;
	struct http_upstream *upstream;
	struct http_dial *pending; /* DIAL_LATER */
	unsigned n_dials, n_cancels;
	struct peer peers[8];
	unsigned n_peers;

	struct http_server server;
	bool serving, server_closed;
} fx;

static void guard_rang(struct io_timer *t)
{
	(void)t;
	fx.late = true;
}

/* One turn that waits for an event, but not while something is still to be done: what happens at
 * the end of a turn wakes nobody. */
static void turn(void)
{
	(void)uv_run(&fx.loop.uv, list_empty(&fx.loop.deferred) ? UV_RUN_ONCE : UV_RUN_NOWAIT);
	if (fx.late)
		fail_msg("it did not happen in time");
}

/* Let the loop turn until something is so. */
#define WAIT_FOR(cond)          \
	do {                    \
		while (!(cond)) \
			turn(); \
	} while (0)

/* --- peers --- */

static void peer_ready(struct stream *s, unsigned events)
{
	struct peer *p = CONTAINER_OF(s, struct peer, stream);
	ssize_t n;

	(void)events;
	assert_int_equal(buf_reserve(&p->in, KIB(64)), 0);
	n = stream_read(s, p->in.data + p->in.len, KIB(64));
	if (n > 0) {
		p->in.len += (size_t)n;
	} else if (n != -EAGAIN) {
		p->ended = true;
		stream_want(s, 0);
	}
}

static struct peer *peer_new(int fd)
{
	struct peer *p = &fx.peers[fx.n_peers++];

	assert_true(fx.n_peers <= ARRAY_LEN(fx.peers));
	*p = (struct peer){ .in = BUF_INIT(MIB(64)), .open = true };
	assert_int_equal(stream_open(&fx.loop, &p->stream, fd, &stream_plain_ops, peer_ready, NULL),
			 0);
	stream_want(&p->stream, STREAM_READABLE);
	return p;
}

UNUSED static void peer_say(struct peer *p, const char *text)
{
	assert_int_equal(write(p->stream.fd, text, strlen(text)), strlen(text));
}

static void peer_close(struct peer *p)
{
	if (p->open)
		stream_close(&p->stream, NULL);
	p->open = false;
}

static bool peer_has(const struct peer *p, const char *text)
{
	return p->in.len > 0 && memmem(p->in.data, p->in.len, text, strlen(text)) != NULL;
}

/* Wait for a whole head; it is cut off and returned as a string until the next call. */
UNUSED static const char *peer_head(struct peer *p)
{
	static char head[4096];
	char *end;

	WAIT_FOR(peer_has(p, "\r\n\r\n") || p->ended);
	assert_true(peer_has(p, "\r\n\r\n"));
	end = memmem(p->in.data, p->in.len, "\r\n\r\n", 4);
	assert_true((size_t)(end - p->in.data) < sizeof(head));
	memcpy(head, p->in.data, (size_t)(end - p->in.data));
	head[end - p->in.data] = '\0';
	buf_consume(&p->in, (size_t)(end - p->in.data) + 4);
	return head;
}

/* --- dialing --- */

static void dial(void *ctx, struct http_dial *d)
{
	int fds[2];

	(void)ctx;
	fx.n_dials++;
	if (fx.mode == DIAL_LATER) {
		fx.pending = d;
		return;
	}
	if (fx.mode == DIAL_REFUSE) {
		http_dialed(d, -ECONNREFUSED, "nobody at home");
		return;
	}
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds),
			 0);
	if (fx.mode == DIAL_SERVER)
		assert_int_equal(http_server_adopt(&fx.server, fds[1], NULL), 0);
	else
		(void)peer_new(fds[1]);
	http_dialed(d, fds[0], NULL);
}

static void dial_cancel(void *ctx, struct http_dial *d)
{
	(void)ctx;
	fx.n_cancels++;
	if (fx.pending == d) {
		fx.pending = NULL;
		http_dialed(d, -ECANCELED, NULL);
	}
}

static struct http_upstream_options upstream_options(void)
{
	struct http_upstream_options opt = http_upstream_defaults;

	opt.dial = dial;
	opt.dial_cancel = dial_cancel;
	opt.connect_timeout_ms = opt.response_timeout_ms = 0;
	opt.idle_timeout_ms = 0;
	return opt;
}

static void use_upstream(enum dial_mode mode, const struct http_upstream_options *opt)
{
	fx.mode = mode;
	assert_int_equal(http_upstream_new(&fx.loop, opt, &fx.upstream, NULL), 0);
}

UNUSED static void use_default_upstream(enum dial_mode mode)
{
	struct http_upstream_options opt = upstream_options();

	use_upstream(mode, &opt);
}

/* --- a server in the same loop --- */

UNUSED static void use_server(http_handler *handler)
{
	struct http_options opt = { .limits = http_default_limits, .handler = handler };

	assert_int_equal(http_server_init(&fx.loop, &fx.server, &opt, NULL), 0);
	fx.serving = true;
}

static void server_is_closed(struct http_server *s)
{
	(void)s;
	fx.server_closed = true;
}

/* --- life --- */

UNUSED static int setup(void **state)
{
	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	memset(&fx, 0, sizeof(fx));
	assert_int_equal(io_loop_init(&fx.loop, NULL), 0);
	io_timer_init(&fx.loop, &fx.guard, guard_rang);
	io_timer_start(&fx.guard, GUARD_MS, 0);
	return 0;
}

/* Everything must come to an end by itself: a handle left open would keep the loop alive, until
 * the alarm. */
UNUSED static int teardown(void **state)
{
	(void)state;
	(void)alarm(GUARD_MS / 1000);
	http_upstream_free(fx.upstream);
	for (unsigned i = 0; i < fx.n_peers; i++) {
		peer_close(&fx.peers[i]);
		buf_free(&fx.peers[i].in);
	}
	if (fx.serving) {
		http_server_close(&fx.server, server_is_closed);
		WAIT_FOR(fx.server_closed);
	}
	io_timer_close(&fx.guard, NULL);
	(void)uv_run(&fx.loop.uv, UV_RUN_DEFAULT);
	io_loop_free(&fx.loop);
	(void)alarm(0);
	return 0;
}

#endif
