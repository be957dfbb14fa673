/* All sandboxes and what may be done to them.
 *
 * Theory of operation. The manager owns the table of sandboxes; the store follows it, the runtime
 * is asked through the driver, one operation per sandbox at a time. Whoever wants something to
 * happen hands in a waiter and is called once, later; a waiter may be unlinked at any time, which
 * changes nothing about the operation. Wanting the end of a sandbox (delete, expiry, its own exit)
 * is a wish noted in sandbox.ending: it is fulfilled at once, or as soon as what is under way is
 * through.
 *
 *	manager.c    the table, ends, expiry
 *	change.c     pause, resume, renew, metadata
 *	create.c     how a sandbox comes to be
 *	farewell.c   that an end is not forgotten
 *	adopt.c      what to make of what the runtime says it has */
#ifndef OSB_SERVER_MANAGER_H
#define OSB_SERVER_MANAGER_H

#include "base/map.h"
#include "io/deadline.h"
#include "server/config.h"
#include "server/errors.h"
#include "server/metrics.h"
#include "server/sandbox.h"
#include "server/ttl.h"
#include "server/volumes.h"
#include "store/ends.h"

/* Somebody who waits. `why` is for people and for the call only. */
struct waiter {
	struct list link;
	void (*done)(struct waiter *w, struct sandbox *sb, enum error error, const char *why);
};

struct manager {
	struct io_loop *loop;
	const struct config *config;
	struct store *store;
	struct ends ends; /* that the store refused */
	struct driver *driver;
	struct volumes volumes;
	struct driver_call sweep;
	bool sweeping, sweep_again;
	struct metrics metrics;
	struct ttl dates;  /* by the wall clock: expiresAt */
	struct ttl delays; /* by time since boot: all else */
	struct map by_id;
	struct list all;   /* the newest first */
	struct list ended; /* those that can still be looked at, the oldest first */
	unsigned n_ended;
	unsigned n_live;
	unsigned n_creating;
	struct deadline_queue create_deadlines;

	unsigned generation; /* of connections to the runtime */
	bool was_up;
	unsigned features;
	char boot_id[40];
	char missing[512];

	void (*ready)(struct manager *m); /* the runtime is there for the first time */
	void (*all_ended)(struct manager *m);
	void (*closed)(struct manager *m);
};

/* What the runtime tells goes here; ctx is the manager. */
extern const struct driver_events manager_driver_events;

/* Reads the records. The driver is set afterwards, before the loop runs. */
int manager_init(struct io_loop *loop, struct manager *m, const struct config *config,
		 struct store *store, struct err *e);
/* Sandboxes and records stay. The driver must be closed before. */
void manager_close(struct manager *m, void (*closed)(struct manager *m));

/* `hidden`: also those that ended because somebody asked for it. */
struct sandbox *manager_find(const struct manager *m, struct span id, bool hidden);
int manager_add(struct manager *m, struct sandbox *sb);
void manager_forget(struct sandbox *sb);

/* The sandbox is to end, for this cause. Nothing happens if it ends already. `why` NULL: the
 * cause's own words. */
void manager_end(struct sandbox *sb, enum sandbox_cause cause, const char *why);
void manager_delete(struct sandbox *sb, struct waiter *w);
void manager_end_all(struct manager *m, enum sandbox_cause cause,
		     void (*all_ended)(struct manager *m));
/* It has ended for good: no process of it is left. */
void manager_ended(struct sandbox *sb);
/* Tell those who wait for the operation under way. */
void manager_answer(struct list *waiters, struct sandbox *sb, enum error error, const char *why);
/* The operation of the runtime is through: on to what was wished for meanwhile. */
void manager_idle(struct sandbox *sb);

void manager_pause(struct sandbox *sb, struct waiter *w);
void manager_resume(struct sandbox *sb, struct waiter *w);
/* expires_us is in the future and the sandbox expires at all: the caller has checked. */
void manager_renew(struct sandbox *sb, int64_t expires_us, struct waiter *w);
/* Its metadata as a whole; shares the tree. */
void manager_metadata(struct sandbox *sb, json_t *metadata, struct waiter *w);
/* Somebody uses it: idle timeout and renewal on access. */
void manager_touch(struct sandbox *sb);

/* When time brings something next. */
void manager_schedule(struct sandbox *sb);
/* Into the record, with a line in the sandbox's history. */
void manager_record(struct sandbox *sb, records_done *done, void *ctx);
void manager_state_event(struct sandbox *sb); /* that line alone */
void manager_event(struct sandbox *sb, const char *kind, const char *message);

/* The upstream of its execd, made when it is first needed. NULL: it has none (any more). */
struct http_upstream *manager_execd(struct sandbox *sb);

/* Which error a negative errno of the runtime is. */
enum error manager_error(int error, enum error otherwise);

#endif
