/* The connection to the runner: packets out in order, answers matched to their questions, the
 * runner started anew when it dies.
 *
 * Theory of operation. DOWN -> STARTING (a runner by the keeper, or a connect) -> HELLO ->
 * LIST -> UP. In UP, requests are sent as long as the socket takes them and wait in `queue`
 * otherwise. When the connection breaks, requests that were sent and not answered fail with
 * -ECONNRESET; those in line stay there for the next connection. If that one never gets as far as
 * UP they fail with -EHOSTDOWN. The first attempt follows at once, later ones with growing delays.
 */
#ifndef OSB_DRIVER_NATIVE_LINK_H
#define OSB_DRIVER_NATIVE_LINK_H

#include "base/map.h"
#include "driver/driver.h"
#include "io/stream.h"
#include "sandbox/msg.h"

enum link_state { LINK_DOWN, LINK_STARTING, LINK_HELLO, LINK_LIST, LINK_UP, LINK_CLOSED };

/* A packet on its way; the descriptors are its own. */
struct link_request {
	size_t size;
	int fds[MSG_MAX_FDS];
	unsigned n_fds;
	unsigned n_own; /* the last of these are closed with it */
	union {
		struct msg_head head;
		char bytes[1]; /* `size` of them */
	};
};

struct link;

struct link_handlers {
	/* UP is reached when this returns. */
	void (*hello)(struct link *l, const struct msg_hello_reply *m);
	void (*item)(struct link *l, const struct msg_item *m);
	void (*listed)(struct link *l);
	void (*event)(struct link *l, const struct msg_event *m);
	/* The final answer to a call: `m` has the size of its type. `fd` is the callee's. */
	void (*answer)(struct link *l, struct driver_call *c, const struct msg_head *m, int fd);
	void (*down)(struct link *l, const char *why);
};

struct link {
	struct io_loop *loop;
	const struct link_handlers *handlers;
	enum link_state state;
	struct stream stream;
	bool stream_open;
	struct io_timer timer; /* the next attempt */
	struct io_defer fail_turn;
	struct list queue;   /* driver_calls not yet sent */
	struct list failing; /* to be failed at the end of the turn */
	struct map sent;     /* cookie -> driver_call */
	unsigned n_calls;
	unsigned max_calls;
	uint64_t next_cookie;
	unsigned attempts; /* without getting UP */
	int keeper_fd;     /* starts runners; -EBADF when one runs elsewhere */
	const char *socket_path;
	char why[256];
	unsigned closing; /* handles on their way out */
	void (*closed)(struct link *l);
};

void link_init(struct io_loop *loop, struct link *l, const struct link_handlers *h);
void link_start(struct link *l);

/* Room for a request of this type, zeroed, its head filled in. NULL: out of memory. */
struct link_request *link_request_new(uint32_t type);
/* Takes the request over; `c->done` follows in any case, later. A NULL request fails. */
void link_call(struct link *l, struct driver_call *c, struct link_request *rq);
/* Fails the call later, without sending anything. */
void link_fail(struct link *l, struct driver_call *c, int error);

void link_close(struct link *l, void (*closed)(struct link *l));

#endif
