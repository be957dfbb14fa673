#include "server/manager.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "server/create.h"
#include "server/farewell.h"
#include "server/gateway.h"
#include "server/load.h"

#define REMOVE_RETRY_US (5 * 1000000)

enum error manager_error(int error, enum error otherwise)
{
	switch (error) {
	case -EAGAIN:
		return E_OVERLOADED;
	case -EHOSTDOWN:
	case -ECONNRESET:
	case -ECANCELED:
		return E_RUNTIME_DOWN;
	case -ENOSPC:
		return E_NO_CAPACITY;
	case -ENOTSUP:
		return E_INVALID_LIMIT;
	default:
		return otherwise;
	}
}

/* --- the table --- */

struct sandbox *manager_find(const struct manager *m, struct span id, bool hidden)
{
	struct sandbox *sb = map_get(&m->by_id, id);

	if (sb != NULL && !hidden && sandbox_ended(sb) && sb->rec.hidden)
		return NULL;
	return sb;
}

/* Those that have ended are kept to be looked at, but not without end. */
static void remember_ended(struct sandbox *sb)
{
	struct manager *m = sb->manager;

	list_push_back(&m->ended, &sb->ended_link);
	m->n_ended++;
	if (m->n_ended > (unsigned)m->config->max_ended)
		manager_forget(LIST_ENTRY(m->ended.next, struct sandbox, ended_link));
}

int manager_add(struct manager *m, struct sandbox *sb)
{
	size_t n = (size_t)m->n_live + m->n_ended + 1;

	/* room for it in the heaps from the first, or it might not expire in the end */
	if (heap_reserve(&m->dates.heap, n) < 0 || heap_reserve(&m->delays.heap, n) < 0 ||
	    map_put(&m->by_id, span_str(sb->rec.id), sb, NULL) < 0)
		return -ENOMEM;
	list_push_front(&m->all, &sb->link);
	if (sandbox_ended(sb))
		remember_ended(sb);
	else
		m->n_live++;
	return 0;
}

static void unschedule(struct sandbox *sb)
{
	ttl_clear(&sb->manager->dates, &sb->date);
	ttl_clear(&sb->manager->delays, &sb->delay);
}

void manager_forget(struct sandbox *sb)
{
	struct manager *m = sb->manager;

	assert(sandbox_ended(sb));
	if (sb->forgotten)
		return;
	sb->forgotten = true;
	unschedule(sb);
	(void)map_remove(&m->by_id, span_str(sb->rec.id));
	list_remove(&sb->link);
	list_remove(&sb->ended_link);
	m->n_ended--;
	farewell_forget(sb);
	sandbox_drop(sb);
}

void manager_event(struct sandbox *sb, const char *kind, const char *message)
{
	records_add_event(sb->manager->store, sb->rec.id, kind, message);
}

void manager_state_event(struct sandbox *sb)
{
	char line[256];

	(void)snprintf(line, sizeof(line), "%s%s%s%s%s", sandbox_state_name(sb->state),
		       sb->rec.reason != NULL ? " " : "",
		       sb->rec.reason != NULL ? sb->rec.reason : "",
		       sb->rec.message != NULL ? ": " : "",
		       sb->rec.message != NULL ? sb->rec.message : "");
	manager_event(sb, "state", line);
}

void manager_record(struct sandbox *sb, records_done *done, void *ctx)
{
	records_set_status(sb->manager->store, &sb->rec, done, ctx);
	manager_state_event(sb);
}

void manager_answer(struct list *waiters, struct sandbox *sb, enum error error, const char *why)
{
	while (!list_empty(waiters)) {
		struct waiter *w = LIST_ENTRY(waiters->next, struct waiter, link);

		list_remove(&w->link);
		w->done(w, sb, error, why);
	}
}

/* --- time --- */

/* A life ends when the wall clock says so, as the client was told, and at the latest after as much
 * time as was left when that was settled: a clock that is set back lengthens no life. */
static bool expired(const struct sandbox *sb)
{
	return sb->rec.expires_us != 0 &&
	       (sb->rec.expires_us <= clock_wall_us() || sb->rec.lapses_us <= clock_boot_us());
}

/* When nobody will have used it for too long, since boot; 0: never. */
static int64_t idle_at_us(const struct sandbox *sb)
{
	if (sb->rec.idle_s == 0 || sb->state != SANDBOX_RUNNING)
		return 0;
	return sb->accessed_us + sb->rec.idle_s * 1000000;
}

/* The same for a record that has been there long enough to be looked at. */
static int64_t forget_at_us(const struct sandbox *sb)
{
	int64_t retention_us = sb->manager->config->retention_s * 1000000;
	int64_t past_us = clock_wall_us() - sb->rec.ended_us;

	return MAX(clock_boot_us() + retention_us - MAX(past_us, 0), 1);
}

static void schedule_one(struct ttl *t, struct heap_entry *entry, int64_t at_us)
{
	if (at_us == 0)
		ttl_clear(t, entry);
	else
		(void)ttl_set(t, entry, at_us); /* there is room, see manager_add */
}

void manager_schedule(struct sandbox *sb)
{
	struct manager *m = sb->manager;
	int64_t date_us = 0, delay_us;

	if (sb->state == SANDBOX_STOPPING)
		return; /* set by whoever has to try again */
	if (sandbox_ended(sb)) {
		delay_us = forget_at_us(sb);
	} else {
		int64_t idle_us = idle_at_us(sb);

		date_us = sb->rec.expires_us;
		delay_us = sb->rec.lapses_us;
		if (idle_us != 0 && (delay_us == 0 || idle_us < delay_us))
			delay_us = idle_us;
	}
	schedule_one(&m->dates, &sb->date, date_us);
	schedule_one(&m->delays, &sb->delay, delay_us);
}

static void begin_removal(struct sandbox *sb);

static void time_passed(struct sandbox *sb)
{
	int64_t idle_us = idle_at_us(sb);

	if (sandbox_ended(sb)) {
		manager_forget(sb);
	} else if (sb->state == SANDBOX_STOPPING) {
		if (!sb->busy)
			begin_removal(sb);
	} else if (sb->ending != CAUSE_NONE) {
		return; /* as soon as what is under way is through */
	} else if (expired(sb)) {
		sb->manager->metrics.expired++;
		manager_end(sb, CAUSE_EXPIRED, NULL);
	} else if (idle_us != 0 && idle_us <= clock_boot_us()) {
		manager_end(sb, CAUSE_IDLE, NULL);
	} else {
		manager_schedule(sb); /* renewed or used meanwhile */
	}
}

static void on_date(struct ttl *t, struct heap_entry *entry)
{
	(void)t;
	time_passed(CONTAINER_OF(entry, struct sandbox, date));
}

static void on_delay(struct ttl *t, struct heap_entry *entry)
{
	(void)t;
	time_passed(CONTAINER_OF(entry, struct sandbox, delay));
}

/* --- the end --- */

/* What went with the last of them goes first. */
static void check_all_ended(struct manager *m)
{
	void (*all_ended)(struct manager * m) = m->all_ended;

	if (all_ended == NULL || m->n_live > 0 || m->sweeping)
		return;
	m->all_ended = NULL;
	all_ended(m);
}

void manager_ended(struct sandbox *sb)
{
	struct manager *m = sb->manager;
	enum sandbox_cause cause = sb->ending;
	const char *why = sb->why[0] != '\0' ? sb->why : sandbox_message(cause);

	gateway_close(sb);
	sb->rec.hidden |= sandbox_hides(cause);
	sandbox_enter(sb, sandbox_final_state(cause), sandbox_reason(cause), why);
	farewell_record(sb);
	manager_state_event(sb);
	volumes_release_recorded(&m->volumes, sb->rec.volumes);
	m->n_live--;
	m->metrics.ended++;
	log_info("sandbox ended", { "id", sb->rec.id }, { "reason", sandbox_reason(cause) },
		 { "message", why });
	manager_schedule(sb);
	sandbox_hold(sb);
	remember_ended(sb);
	manager_answer(&sb->waiters, sb, E_SANDBOX_NOT_FOUND, "the sandbox has ended");
	sandbox_drop(sb);
	check_all_ended(m);
}

static void on_removed(struct driver_call *c, int error, const char *why)
{
	struct sandbox *sb = CONTAINER_OF(c, struct sandbox, call);

	sb->busy = false;
	if (error == 0 || error == -ENOENT) {
		manager_ended(sb);
		return;
	}
	/* It stays Stopping. After a lost connection the list of what exists decides; otherwise it
	 * is tried again. */
	log_warn("a sandbox could not be removed", { "id", sb->rec.id }, { "error", why });
	if (error != -ECONNRESET && error != -ECANCELED)
		(void)ttl_set(&sb->manager->delays, &sb->delay, clock_boot_us() + REMOVE_RETRY_US);
	if (error != -ECONNRESET)
		manager_answer(&sb->enders, sb, manager_error(error, E_DELETE_FAILED), why);
}

static void remove_from_runtime(struct sandbox *sb)
{
	struct driver *d = sb->manager->driver;

	sb->call.done = on_removed;
	d->ops->remove(d, sb->rec.id, &sb->call);
}

static void on_stopping_recorded(void *ctx, int result, const char *why)
{
	struct sandbox *sb = ctx;

	if (result < 0) { /* a full disk is no reason to keep it */
		log_error("the store refused a removal", { "id", sb->rec.id }, { "error", why });
		(void)farewell_note(sb, NULL);
	}
	if (!sb->forgotten) /* else the server has stopped meanwhile; the next one takes it up */
		remove_from_runtime(sb);
	sandbox_drop(sb);
}

/* The reason is on disk before the runtime hears of it: should we die in between, the next one
 * ends what was begun, and does not take it for a sandbox that was lost. */
static void begin_removal(struct sandbox *sb)
{
	unschedule(sb);
	sb->busy = true;
	if (sb->state == SANDBOX_STOPPING) {
		remove_from_runtime(sb);
		return;
	}
	sb->rec.hidden |= sandbox_hides(sb->ending);
	sandbox_enter(sb, SANDBOX_STOPPING, sandbox_reason(sb->ending),
		      sb->why[0] != '\0' ? sb->why : sandbox_message(sb->ending));
	sandbox_hold(sb);
	manager_record(sb, on_stopping_recorded, sb);
}

void manager_idle(struct sandbox *sb)
{
	if (sb->ending != CAUSE_NONE && !sb->busy && sb->creation == NULL && !sandbox_ended(sb))
		begin_removal(sb);
}

void manager_end(struct sandbox *sb, enum sandbox_cause cause, const char *why)
{
	if (sandbox_ended(sb) || sb->ending != CAUSE_NONE)
		return;
	sb->ending = cause;
	(void)snprintf(sb->why, sizeof(sb->why), "%s", why != NULL ? why : "");
	if (sb->creation != NULL)
		creation_interrupt(sb->creation);
	else
		manager_idle(sb);
}

void manager_delete(struct sandbox *sb, struct waiter *w)
{
	sb->rec.hidden = 1; /* also if it ends for another reason */
	list_push_back(&sb->enders, &w->link);
	if (sandbox_ended(sb)) { /* it ended by itself and has been looked at enough */
		farewell_record(sb);
		return;
	}
	manager_end(sb, CAUSE_DELETED, NULL);
	manager_idle(sb); /* a removal that failed before is tried again at once */
}

void manager_end_all(struct manager *m, enum sandbox_cause cause,
		     void (*all_ended)(struct manager *m))
{
	m->all_ended = all_ended;
	list_for_each_safe (it, &m->all)
		manager_end(LIST_ENTRY(it, struct sandbox, link), cause, NULL);
	check_all_ended(m);
}

/* --- execd --- */

struct http_upstream *manager_execd(struct sandbox *sb)
{
	struct manager *m = sb->manager;
	struct http_upstream_options opt = http_upstream_defaults;
	char address[128];

	if (sb->execd != NULL || sandbox_ended(sb))
		return sb->execd;
	if (m->driver->ops->execd_address(m->driver, sb->rec.id, address, sizeof(address)) < 0)
		return NULL;
	opt.address = address;
	opt.host = "execd";
	opt.max_idle = 8;
	opt.response_timeout_ms = 0; /* a command may take its time; the client's going ends it */
	if (http_upstream_new(m->loop, &opt, &sb->execd, NULL) < 0)
		return NULL;
	return sb->execd;
}

/* --- volumes that were set aside --- */

static void sweep(struct volumes *v);

static void on_swept(struct driver_call *c, int error, const char *why)
{
	struct manager *m = CONTAINER_OF(c, struct manager, sweep);

	m->sweeping = false;
	if (error != 0 && error != -ECANCELED)
		log_warn("the runtime could not sweep", { "error", why });
	else if (m->sweep_again)
		sweep(&m->volumes);
	check_all_ended(m);
}

static void sweep(struct volumes *v)
{
	struct manager *m = CONTAINER_OF(v, struct manager, volumes);

	m->sweep_again = m->sweeping;
	if (m->sweeping)
		return;
	m->sweeping = true;
	m->sweep.done = on_swept;
	m->driver->ops->sweep(m->driver, &m->sweep);
}

/* --- life --- */

static void create_expired(struct deadline_queue *q, struct deadline *d)
{
	(void)q;
	creation_expired(CONTAINER_OF(d, struct creation, deadline));
}

int manager_init(struct io_loop *loop, struct manager *m, const struct config *config,
		 struct store *store, struct err *e)
{
	int r;

	m->loop = loop;
	m->config = config;
	m->store = store;
	m->generation = 1;
	map_init(&m->by_id);
	list_init(&m->all);
	list_init(&m->ended);
	r = volumes_init(&m->volumes, config->state_dir, store, sweep, e);
	if (r < 0)
		return r;
	r = ttl_init(loop, &m->dates, TTL_WALL, on_date, e);
	if (r < 0)
		return r;
	r = ttl_init(loop, &m->delays, TTL_BOOT, on_delay, e);
	if (r < 0)
		return r;
	deadline_queue_init(loop, &m->create_deadlines, (uint64_t)config->create_timeout_s * 1000,
			    create_expired);
	r = load_sandboxes(m, e);
	if (r < 0)
		return r;
	return farewell_init(m, e);
}

static void deadlines_closed(struct io_timer *t)
{
	struct deadline_queue *q = CONTAINER_OF(t, struct deadline_queue, timer);
	struct manager *m = CONTAINER_OF(q, struct manager, create_deadlines);

	m->closed(m);
}

static void delays_closed(struct ttl *t)
{
	deadline_queue_close(&CONTAINER_OF(t, struct manager, delays)->create_deadlines,
			     deadlines_closed);
}

static void dates_closed(struct ttl *t)
{
	ttl_close(&CONTAINER_OF(t, struct manager, dates)->delays, delays_closed);
}

void manager_close(struct manager *m, void (*closed)(struct manager *m))
{
	m->closed = closed;
	while (!list_empty(&m->all)) {
		struct sandbox *sb = LIST_ENTRY(m->all.next, struct sandbox, link);

		gateway_close(sb);
		unschedule(sb);
		list_remove(&sb->link);
		list_remove(&sb->ended_link);
		sb->forgotten = true;
		sb->busy = false; /* the driver is closed: nothing is under way */
		sandbox_drop(sb);
	}
	map_free(&m->by_id);
	volumes_free(&m->volumes);
	ttl_close(&m->dates, dates_closed);
}
