#include "driver/native/link.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "driver/native/keeper.h"
#include "sys/imsg.h"

#define FIRST_DELAY_MS 50
#define MAX_DELAY_MS   5000
#define MAX_PER_WAKE   64 /* packets read before others get their turn */

static void enter(struct link *l, enum link_state to)
{
	static const unsigned edges[] = {
		[LINK_DOWN] = 1u << LINK_STARTING | 1u << LINK_CLOSED,
		[LINK_STARTING] = 1u << LINK_HELLO | 1u << LINK_DOWN | 1u << LINK_CLOSED,
		[LINK_HELLO] = 1u << LINK_LIST | 1u << LINK_DOWN | 1u << LINK_CLOSED,
		[LINK_LIST] = 1u << LINK_UP | 1u << LINK_DOWN | 1u << LINK_CLOSED,
		[LINK_UP] = 1u << LINK_DOWN | 1u << LINK_CLOSED,
		[LINK_CLOSED] = 0,
	};

	assert((edges[l->state] & 1u << to) != 0);
	l->state = to;
}

/* --- calls --- */

struct link_request *link_request_new(uint32_t type)
{
	const struct msg_kind *kind = msg_kind(type);
	struct link_request *rq = calloc(1, sizeof(*rq) + kind->request_size);

	if (rq == NULL)
		return NULL;
	rq->size = kind->request_size;
	rq->head.type = type;
	rq->head.size = kind->request_size;
	return rq;
}

static void request_free(struct link_request *rq)
{
	if (rq == NULL)
		return;
	for (unsigned i = rq->n_fds - rq->n_own; i < rq->n_fds; i++)
		(void)close(rq->fds[i]);
	free(rq);
}

static const char *error_words(const struct link *l, int error)
{
	switch (error) {
	case -EAGAIN:
		return "too many operations are waiting for the runner";
	case -ECANCELED:
		return "the server is stopping";
	case -ENOMEM:
		return "out of memory";
	case -ECONNRESET:
		return "the runner went away before it answered";
	default:
		return l->why[0] != '\0' ? l->why : "the runner cannot be reached";
	}
}

static void call_end(struct link *l, struct driver_call *c)
{
	list_remove(&c->link);
	request_free(c->request);
	c->request = NULL;
	l->n_calls--;
}

static void on_fail_turn(struct io_defer *d)
{
	struct link *l = CONTAINER_OF(d, struct link, fail_turn);

	while (!list_empty(&l->failing)) {
		struct driver_call *c = LIST_ENTRY(l->failing.next, struct driver_call, link);

		call_end(l, c);
		c->done(c, c->error, error_words(l, c->error));
	}
}

static void fail_later(struct link *l, struct driver_call *c, int error)
{
	c->error = error;
	list_remove(&c->link);
	list_push_back(&l->failing, &c->link);
	io_defer_add(l->loop, &l->fail_turn);
}

static void fail_queue(struct link *l, int error)
{
	while (!list_empty(&l->queue))
		fail_later(l, LIST_ENTRY(l->queue.next, struct driver_call, link), error);
}

static void fail_sent(struct link *l, int error)
{
	struct map_cursor at = { 0 };
	struct driver_call *c;

	while ((c = map_next(&l->sent, &at, NULL)) != NULL)
		fail_later(l, c, error);
	map_free(&l->sent);
	map_init(&l->sent);
}

static struct span cookie_key(const uint64_t *cookie)
{
	return span_of(cookie, sizeof(*cookie));
}

/* --- the connection --- */

static void attempt(struct link *l);
static void broken(struct link *l, const char *why);

static void restart_if_ready(struct link *l)
{
	uint64_t delay_ms = 0;

	if (l->stream_open || l->state != LINK_DOWN)
		return;
	if (l->attempts > 0)
		delay_ms = MIN((uint64_t)FIRST_DELAY_MS << MIN(l->attempts, 8u),
			       (uint64_t)MAX_DELAY_MS);
	io_timer_start(&l->timer, delay_ms, 0);
}

static void timer_closed(struct io_timer *t)
{
	struct link *l = CONTAINER_OF(t, struct link, timer);

	map_free(&l->sent);
	l->closed(l);
}

static void close_if_ready(struct link *l)
{
	if (l->state != LINK_CLOSED || l->stream_open || l->closing > 0)
		return;
	l->closing++;
	on_fail_turn(&l->fail_turn);
	io_timer_close(&l->timer, timer_closed);
}

static void stream_gone(struct stream *s)
{
	struct link *l = CONTAINER_OF(s, struct link, stream);

	l->stream_open = false;
	restart_if_ready(l);
	close_if_ready(l);
}

static void broken(struct link *l, const char *why)
{
	bool was_up = l->state == LINK_UP;

	(void)snprintf(l->why, sizeof(l->why), "%s", why);
	enter(l, LINK_DOWN);
	if (l->stream_open && !l->stream.closing)
		stream_close(&l->stream, stream_gone);
	fail_sent(l, -ECONNRESET);
	if (!was_up) {
		l->attempts++;
		fail_queue(l, -EHOSTDOWN);
	}
	l->handlers->down(l, l->why);
	restart_if_ready(l);
}

static void flush(struct link *l)
{
	unsigned want = STREAM_READABLE;

	while (l->state == LINK_UP && !list_empty(&l->queue)) {
		struct driver_call *c = LIST_ENTRY(l->queue.next, struct driver_call, link);
		struct link_request *rq = c->request;
		int r;

		if (map_put(&l->sent, cookie_key(&c->cookie), c, NULL) < 0) {
			fail_later(l, c, -ENOMEM);
			continue;
		}
		r = imsg_send(l->stream.fd, rq->bytes, rq->size, rq->fds, rq->n_fds);
		if (r == -EAGAIN) {
			(void)map_remove(&l->sent, cookie_key(&c->cookie));
			want |= STREAM_WRITABLE;
			break;
		}
		if (r < 0) {
			broken(l, "the connection to the runner broke");
			return;
		}
		list_remove(&c->link);
		request_free(rq);
		c->request = NULL;
	}
	if (l->stream_open && !l->stream.closing)
		stream_want(&l->stream, want);
}

static bool send_plain(struct link *l, const void *m, size_t size)
{
	return imsg_send(l->stream.fd, m, size, NULL, 0) >= 0;
}

static void say_hello(struct link *l)
{
	struct msg_hello m = {
		.head = { MSG_HELLO, sizeof(m), l->next_cookie++ },
		.version = MSG_VERSION,
	};

	enter(l, LINK_HELLO);
	stream_want(&l->stream, STREAM_READABLE);
	if (!send_plain(l, &m, sizeof(m)))
		broken(l, "the runner does not take messages");
}

static void on_hello(struct link *l, const struct msg_hello_reply *m)
{
	struct msg_plain list = { .head = { MSG_LIST, sizeof(list), l->next_cookie++ } };
	char why[sizeof(m->err.msg) + 32];

	if (m->err.code != 0 || m->version != MSG_VERSION) {
		(void)snprintf(why, sizeof(why), "the runner refused: %.200s",
			       m->err.code != 0 ? m->err.msg : "it speaks another version");
		broken(l, why);
		return;
	}
	l->handlers->hello(l, m);
	enter(l, LINK_LIST);
	if (!send_plain(l, &list, sizeof(list)))
		broken(l, "the runner does not take messages");
}

static void on_listed(struct link *l, const struct msg_reply *m)
{
	if (m->err.code != 0) {
		broken(l, m->err.msg);
		return;
	}
	enter(l, LINK_UP);
	l->attempts = 0;
	l->why[0] = '\0';
	l->handlers->listed(l);
	flush(l);
}

/* The largest thing that can come. */
union packet {
	struct msg_head head;
	struct msg_hello_reply hello;
	struct msg_item item;
	struct msg_event event;
	struct msg_reply reply;
	struct msg_stat_reply stat;
	struct msg_sweep_reply sweep;
};

/* False: this should not have been said now. */
static bool on_packet(struct link *l, const union packet *p, int fd)
{
	struct driver_call *c;

	if (p->head.type == MSG_EVENT) {
		if (l->state == LINK_UP)
			l->handlers->event(l, &p->event);
		return true; /* before that, the list tells the same */
	}
	switch (l->state) {
	case LINK_HELLO:
		if (p->head.type != MSG_HELLO)
			return false;
		on_hello(l, &p->hello);
		return true;
	case LINK_LIST:
		if (p->head.type == MSG_ITEM)
			l->handlers->item(l, &p->item);
		else if (p->head.type == MSG_LIST)
			on_listed(l, &p->reply);
		else
			return false;
		return true;
	case LINK_UP:
		c = map_remove(&l->sent, cookie_key(&p->head.cookie));
		if (c == NULL)
			return false;
		l->n_calls--;
		l->handlers->answer(l, c, &p->head, fd);
		return true;
	case LINK_DOWN:
	case LINK_STARTING:
	case LINK_CLOSED:
		break;
	}
	return true;
}

static void on_ready(struct stream *s, unsigned events)
{
	struct link *l = CONTAINER_OF(s, struct link, stream);

	(void)events;
	for (int i = 0; i < MAX_PER_WAKE && l->stream_open && !s->closing; i++) {
		union packet p;
		int fds[1] = { -EBADF };
		size_t n_fds = 1;
		ssize_t n = imsg_recv(s->fd, &p, sizeof(p), fds, &n_fds);

		if (n == -EAGAIN)
			break;
		if (n <= 0) {
			broken(l, "the runner closed the connection");
			return;
		}
		if (n_fds == IMSG_LOST_FDS)
			n_fds = 0; /* its answer is told to have none */
		if (!msg_is_answer(&p, (size_t)n, n_fds) ||
		    !on_packet(l, &p, n_fds > 0 ? fds[0] : -EBADF)) {
			if (n_fds > 0)
				(void)close(fds[0]);
			broken(l, "the runner said something out of turn");
			return;
		}
	}
	if (l->state == LINK_UP)
		flush(l);
}

/* --- starting --- */

static int connect_socket(struct link *l, int *ret_fd, struct err *e)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	autofd int fd = -EBADF;

	if (!span_copy(span_str(l->socket_path), un.sun_path, sizeof(un.sun_path)))
		return err_code(e, ENAMETOOLONG, "runner socket '%s'", l->socket_path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "socket");
	if (connect(fd, (struct sockaddr *)&un, sizeof(un)) < 0)
		return err_sys(e, "connect to the runner at '%s'", l->socket_path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void attempt(struct link *l)
{
	struct err e = ERR_INIT;
	int fd, r;

	enter(l, LINK_STARTING);
	r = l->keeper_fd >= 0 ? keeper_runner(l->keeper_fd, &fd, &e) : connect_socket(l, &fd, &e);
	if (r >= 0) {
		r = stream_open(l->loop, &l->stream, fd, &stream_plain_ops, on_ready, &e);
		l->stream_open = r >= 0;
	}
	if (r < 0)
		broken(l, e.msg);
	else
		say_hello(l);
}

static void on_timer(struct io_timer *t)
{
	struct link *l = CONTAINER_OF(t, struct link, timer);

	if (l->state == LINK_DOWN && !l->stream_open)
		attempt(l);
}

void link_init(struct io_loop *loop, struct link *l, const struct link_handlers *h)
{
	l->loop = loop;
	l->handlers = h;
	l->state = LINK_DOWN;
	l->next_cookie = 1;
	list_init(&l->queue);
	list_init(&l->failing);
	map_init(&l->sent);
	io_defer_init(&l->fail_turn, on_fail_turn);
	io_timer_init(loop, &l->timer, on_timer);
}

void link_start(struct link *l)
{
	restart_if_ready(l);
}

void link_fail(struct link *l, struct driver_call *c, int error)
{
	list_init(&c->link);
	c->request = NULL;
	l->n_calls++;
	fail_later(l, c, error);
}

void link_call(struct link *l, struct driver_call *c, struct link_request *rq)
{
	int error = 0;

	if (rq == NULL)
		error = -ENOMEM;
	else if (l->state == LINK_CLOSED)
		error = -ECANCELED;
	else if (l->n_calls >= l->max_calls)
		error = -EAGAIN;
	else if (l->state != LINK_UP && l->state != LINK_LIST && l->attempts > 0)
		error = -EHOSTDOWN; /* while it lists what it has, it is as good as up */
	if (error != 0) {
		request_free(rq);
		link_fail(l, c, error);
		return;
	}
	c->cookie = l->next_cookie++;
	rq->head.cookie = c->cookie;
	c->request = rq;
	l->n_calls++;
	list_init(&c->link);
	list_push_back(&l->queue, &c->link);
	if (l->state == LINK_UP)
		flush(l);
}

void link_close(struct link *l, void (*closed)(struct link *l))
{
	l->closed = closed;
	enter(l, LINK_CLOSED);
	io_timer_stop(&l->timer);
	if (l->stream_open && !l->stream.closing)
		stream_close(&l->stream, stream_gone);
	fail_sent(l, -ECANCELED);
	fail_queue(l, -ECANCELED);
	close_if_ready(l);
}
