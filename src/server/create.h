/* How a sandbox comes to be: recorded, made by the runtime, answered by its execd, recorded again.
 *
 * Theory of operation. NEW -> STORE (a Pending record with the id is on disk before the runtime
 * hears of it, so that nothing can be made that nobody knows) -> RUNTIME -> PING (one exchange with
 * execd: connecting works before execd runs, an answer does not) -> RECORD (that it runs, or has
 * run and ended by itself, and that its volumes are kept, is on disk before the client hears of it)
 * -> OVER. Whatever goes wrong, also that the client went away or somebody deleted it, leads to
 * OVER by way of the sandbox's ordinary end. */
#ifndef OSB_SERVER_CREATE_H
#define OSB_SERVER_CREATE_H

#include "base/arena.h"
#include "driver/driver.h"
#include "http/client.h"
#include "io/deadline.h"
#include "server/manager.h"

#define CREATE_MAX_VOLUMES 16

enum creation_state {
	CREATION_NEW,
	CREATION_STORE,
	CREATION_RUNTIME,
	CREATION_PING,
	CREATION_RECORD,
	CREATION_OVER,
};

/* Made by create_parse(); owned by the manager from creation_start() on. */
struct creation {
	struct arena arena; /* everything below */
	struct record rec;  /* without id, token, state and times */
	struct driver_spec spec;
	struct driver_volume volumes[CREATE_MAX_VOLUMES];
	json_t *env;        /* object of strings */
	json_t *entrypoint; /* array of strings */
	int64_t timeout_s;  /* 0: never */
	bool secure_access;
	char unheld[96]; /* limits that are not held: "cpu, memory", or "" */
	struct claim {
		const char *name;
		bool create, ephemeral;
	} claims[CREATE_MAX_VOLUMES];
	unsigned n_claims;

	enum creation_state state;
	struct sandbox *sb;
	struct list waiters;      /* the one who asked, if it is still there */
	struct creation **handle; /* ... and its pointer here, cleared when this goes */
	struct driver_call call;
	struct deadline deadline;
	struct http_call *ping;
	struct io_defer turn; /* for failures noted inside a call */
	enum error error;
	char why[200];
	uint64_t started_us, runtime_us, ping_us;
};

struct creation *creation_new(void);
void creation_free(struct creation *c); /* of one that was not started */

/* Takes it over; the waiter is answered later in any case, unless it is unlinked before. *handle
 * points here until the creation is over. */
void creation_start(struct manager *m, struct creation *c, struct waiter *w,
		    struct creation **handle);
/* The one who asked is gone (and its handle): the sandbox is not wanted any more. */
void creation_abandon(struct creation *c);

/* For the manager: the sandbox's end was asked for; the time is up. */
void creation_interrupt(struct creation *c);
void creation_expired(struct creation *c);

#endif
