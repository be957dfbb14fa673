/* Listening, limits and the server's own life; its connections are in conn.c. */
#include "http/server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "http/conn.h"

const struct http_limits http_default_limits = {
	.head = { .max_target = KIB(8), .max_head = KIB(32), .max_fields = H1_MAX_FIELDS },
	.max_connections = 10000,
	.head_timeout_ms = 10000,
	.body_timeout_ms = 30000,
	.idle_timeout_ms = 75000,
	.write_timeout_ms = 60000,
	.linger_ms = 2000,
	.max_discard = KIB(256),
	.soft_out = KIB(64),
	.hard_out = MIB(1),
	.max_arena = MIB(1),
};

struct http_listener {
	struct listener io;
	struct list link;
	struct http_server *server;
};

static void expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	conn_expired(CONTAINER_OF(d, struct http_conn, deadline));
}

int http_server_init(struct io_loop *l, struct http_server *s, const struct http_options *opt,
		     struct err *e)
{
	const struct http_limits *lim = &opt->limits;

	if (opt->handler == NULL || lim->head.max_fields > H1_MAX_FIELDS ||
	    lim->soft_out >= lim->hard_out)
		return err_set(e, EINVAL, "HTTP server options do not make sense");
	*s = (struct http_server){ .loop = l, .opt = *opt, .user = opt->user };
	list_init(&s->connections);
	list_init(&s->listeners);
	s->head_out = BUF_INIT(KIB(64));
	deadline_queue_init(l, &s->head_deadlines, lim->head_timeout_ms, expired);
	deadline_queue_init(l, &s->body_deadlines, lim->body_timeout_ms, expired);
	deadline_queue_init(l, &s->idle_deadlines, lim->idle_timeout_ms, expired);
	deadline_queue_init(l, &s->write_deadlines, lim->write_timeout_ms, expired);
	deadline_queue_init(l, &s->linger_deadlines, lim->linger_ms, expired);
	return 0;
}

/* Say no without spending anything on it. Reading what has arrived keeps the close from resetting
 * the connection under the answer. */
static void refuse_busy(struct http_server *s, int fd)
{
	static const char plain[] = "HTTP/1.1 503 Service Unavailable\r\n"
				    "Content-Type: text/plain; charset=utf-8\r\n"
				    "Content-Length: 21\r\n"
				    "Retry-After: 1\r\n"
				    "Connection: close\r\n\r\n"
				    "too many connections\n";
	const char *text = s->opt.busy_reply != NULL ? s->opt.busy_reply : plain;
	char sink[4096];

	s->stats[HTTP_STAT_REFUSED]++;
	if (s->opt.secure == NULL) {
		(void)send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
		(void)shutdown(fd, SHUT_WR);
		(void)recv(fd, sink, sizeof(sink), MSG_DONTWAIT);
	}
	(void)close(fd);
}

static void accepted(struct listener *io, int fd, bool overloaded)
{
	struct http_listener *hl = CONTAINER_OF(io, struct http_listener, io);
	struct http_server *s = hl->server;

	if (overloaded || s->n_connections >= s->opt.limits.max_connections)
		refuse_busy(s, fd);
	else
		(void)conn_new(s, fd, NULL);
}

int http_server_listen(struct http_server *s, int fd, struct err *e)
{
	struct http_listener *hl = calloc(1, sizeof(*hl));
	int r;

	if (hl == NULL) {
		(void)close(fd);
		return err_code(e, ENOMEM, "listener");
	}
	hl->server = s;
	r = listener_start(s->loop, &hl->io, fd, accepted, e);
	if (r < 0) {
		free(hl);
		return r;
	}
	list_push_back(&s->listeners, &hl->link);
	return 0;
}

int http_server_adopt(struct http_server *s, int fd, struct err *e)
{
	return conn_new(s, fd, e);
}

/* --- the end --- */

static void part_closed(struct http_server *s)
{
	if (--s->closing_parts > 0)
		return;
	buf_free(&s->head_out);
	if (s->closed != NULL)
		s->closed(s);
}

static void listener_gone(struct listener *io)
{
	struct http_listener *hl = CONTAINER_OF(io, struct http_listener, io);
	struct http_server *s = hl->server;

	free(hl);
	part_closed(s);
}

static void stop_listening(struct http_server *s)
{
	list_for_each_safe (it, &s->listeners) {
		struct http_listener *hl = LIST_ENTRY(it, struct http_listener, link);

		list_remove(it);
		s->closing_parts++;
		listener_close(&hl->io, listener_gone);
	}
}

void http_server_drain(struct http_server *s, void (*drained)(struct http_server *s))
{
	s->draining = true;
	s->drained = drained;
	s->closing_parts++; /* ours: nothing is closed for good before http_server_close() */
	stop_listening(s);
	list_for_each_safe (it, &s->connections) {
		struct http_conn *c = LIST_ENTRY(it, struct http_conn, link);

		if (c->state == CONN_IDLE)
			conn_close(c);
	}
	if (s->n_connections == 0)
		drained(s);
}

static void connections_gone(struct http_server *s)
{
	s->drained = NULL;
	part_closed(s);
}

static void head_timer_gone(struct io_timer *t)
{
	part_closed(CONTAINER_OF(CONTAINER_OF(t, struct deadline_queue, timer), struct http_server,
				 head_deadlines));
}

void http_server_close(struct http_server *s, void (*closed)(struct http_server *s))
{
	bool held = s->draining;

	s->draining = true;
	s->closed = closed;
	s->drained = NULL;
	stop_listening(s);
	s->closing_parts += 2; /* the connections and the last of the timers */
	deadline_queue_close(&s->body_deadlines, NULL);
	deadline_queue_close(&s->idle_deadlines, NULL);
	deadline_queue_close(&s->write_deadlines, NULL);
	deadline_queue_close(&s->linger_deadlines, NULL);
	list_for_each_safe (it, &s->connections) {
		struct http_conn *c = LIST_ENTRY(it, struct http_conn, link);

		if (c->state == CONN_UPGRADED)
			wire_break(&c->wire, ECANCELED); /* its owner closes it */
		else
			conn_close(c);
	}
	if (s->n_connections > 0)
		s->drained = connections_gone;
	else
		s->closing_parts--;
	deadline_queue_close(&s->head_deadlines, head_timer_gone);
	if (held)
		s->closing_parts--;
}
