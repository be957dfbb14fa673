/* Changes to a sandbox that goes on living. */
#include "base/clock.h"
#include "base/log.h"
#include "server/manager.h"

/* --- pause and resume --- */

/* The runtime may know before us that it has ended: that is the sandbox's state, not a failure. */
static enum error refused_as(int error, enum error state, enum error otherwise)
{
	if (error == -EBUSY || error == -ECONNREFUSED)
		return state;
	return error == 0 ? E_OK : manager_error(error, otherwise);
}

static void on_paused(struct driver_call *c, int error, const char *why)
{
	struct sandbox *sb = CONTAINER_OF(c, struct sandbox, call);

	sb->busy = false;
	if (sb->state == SANDBOX_PAUSING) {
		if (error == 0)
			sandbox_enter(sb, SANDBOX_PAUSED, "user_pause", "paused by request");
		else
			sandbox_enter(sb, SANDBOX_RUNNING, "pause_failed", why);
		manager_record(sb, NULL, NULL);
		manager_schedule(sb);
	}
	manager_answer(&sb->waiters, sb, refused_as(error, E_NOT_RUNNING, E_PAUSE_FAILED), why);
	manager_idle(sb);
}

void manager_pause(struct sandbox *sb, struct waiter *w)
{
	struct driver *d = sb->manager->driver;

	if (sb->state != SANDBOX_RUNNING || sb->busy || sb->ending != CAUSE_NONE) {
		w->done(w, sb, E_NOT_RUNNING, "only a running sandbox can be paused");
		return;
	}
	if (sb->manager->was_up && (sb->manager->features & DRIVER_CAN_PAUSE) == 0) {
		w->done(w, sb, E_UNSUPPORTED_PAUSE, "this host cannot freeze processes");
		return;
	}
	list_push_back(&sb->waiters, &w->link);
	sandbox_enter(sb, SANDBOX_PAUSING, "user_pause", "being paused by request");
	manager_record(sb, NULL, NULL);
	sb->busy = true;
	sb->call.done = on_paused;
	d->ops->pause(d, sb->rec.id, &sb->call);
}

static void on_resumed(struct driver_call *c, int error, const char *why)
{
	struct sandbox *sb = CONTAINER_OF(c, struct sandbox, call);

	sb->busy = false;
	if (sb->state == SANDBOX_RESUMING) {
		sb->accessed_us = clock_boot_us();
		if (error == 0)
			sandbox_enter(sb, SANDBOX_RUNNING, "user_resume", "resumed by request");
		else
			sandbox_enter(sb, SANDBOX_PAUSED, "resume_failed", why);
		manager_record(sb, NULL, NULL);
		manager_schedule(sb);
	}
	manager_answer(&sb->waiters, sb, refused_as(error, E_NOT_PAUSED, E_RESUME_FAILED), why);
	manager_idle(sb);
}

void manager_resume(struct sandbox *sb, struct waiter *w)
{
	struct driver *d = sb->manager->driver;

	if (sb->state != SANDBOX_PAUSED || sb->busy || sb->ending != CAUSE_NONE) {
		w->done(w, sb, E_NOT_PAUSED, "only a paused sandbox can be resumed");
		return;
	}
	list_push_back(&sb->waiters, &w->link);
	sandbox_enter(sb, SANDBOX_RESUMING, "user_resume", "being resumed by request");
	manager_record(sb, NULL, NULL);
	sb->busy = true;
	sb->call.done = on_resumed;
	d->ops->resume(d, sb->rec.id, &sb->call);
}

/* --- the record alone --- */

/* A change that is answered once it is on disk, and taken back if it cannot be put there. */
struct change {
	struct sandbox *sb;
	struct list waiters;
	int64_t expires_us; /* 0: it is none of the time */
	int64_t former_expires_us, former_lapses_us;
	json_t *metadata, *former; /* NULL: it is none of the metadata */
};

/* Unless somebody has changed it again meanwhile. */
static void take_back(struct change *ch)
{
	struct sandbox *sb = ch->sb;

	if (sandbox_ended(sb) || sb->forgotten)
		return;
	if (ch->expires_us != 0 && sb->rec.expires_us == ch->expires_us) {
		sb->rec.expires_us = ch->former_expires_us;
		sb->rec.lapses_us = ch->former_lapses_us;
		manager_schedule(sb);
	}
	if (ch->metadata != NULL && sb->metadata == ch->metadata)
		(void)sandbox_set_metadata(sb, ch->former, NULL);
}

static void on_changed(void *ctx, int result, const char *why)
{
	struct change *ch = ctx;
	struct sandbox *sb = ch->sb;

	if (result < 0) {
		log_error("the store refused a change", { "id", sb->rec.id }, { "error", why });
		take_back(ch);
	}
	manager_answer(&ch->waiters, sb, result < 0 ? E_STORE_FAILED : E_OK, why);
	json_decref(ch->metadata);
	json_decref(ch->former);
	free(ch);
	sandbox_drop(sb);
}

static struct change *change_new(struct sandbox *sb, struct waiter *w)
{
	struct change *ch = calloc(1, sizeof(*ch));

	if (ch == NULL) {
		w->done(w, sb, E_INTERNAL, "out of memory");
		return NULL;
	}
	ch->sb = sb;
	sandbox_hold(sb);
	list_init(&ch->waiters);
	list_push_back(&ch->waiters, &w->link);
	return ch;
}

void manager_renew(struct sandbox *sb, int64_t expires_us, struct waiter *w)
{
	struct change *ch = change_new(sb, w);
	char line[CLOCK_RFC3339_SIZE];

	if (ch == NULL)
		return;
	ch->expires_us = expires_us;
	ch->former_expires_us = sb->rec.expires_us;
	ch->former_lapses_us = sb->rec.lapses_us;
	sandbox_set_expiry(sb, expires_us);
	manager_schedule(sb);
	records_set_expiry(sb->manager->store, sb->rec.id, expires_us, sb->rec.lapses_us,
			   on_changed, ch);
	(void)clock_rfc3339(expires_us, line);
	manager_event(sb, "renewed", line);
}

void manager_metadata(struct sandbox *sb, json_t *metadata, struct waiter *w)
{
	struct change *ch = change_new(sb, w);
	struct err e = ERR_INIT;
	int r;

	if (ch == NULL)
		return;
	ch->former = json_incref(sb->metadata);
	r = sandbox_set_metadata(sb, metadata, &e);
	if (r < 0) {
		list_remove(&w->link);
		w->done(w, sb, r == -EMSGSIZE ? E_INVALID_METADATA : E_INTERNAL, e.msg);
		json_decref(ch->former);
		free(ch);
		sandbox_drop(sb);
		return;
	}
	ch->metadata = json_incref(metadata);
	records_set_metadata(sb->manager->store, sb->rec.id, sb->rec.metadata, on_changed, ch);
	manager_event(sb, "metadata", "changed by request");
}

void manager_touch(struct sandbox *sb)
{
	struct manager *m = sb->manager;
	struct record *rec = &sb->rec;
	int64_t now_us = clock_boot_us(), expires_us, lapses_us;

	sb->accessed_us = now_us;
	if (rec->renew_s == 0 || rec->expires_us == 0 || !m->config->renew_enabled ||
	    sb->state != SANDBOX_RUNNING || sb->ending != CAUSE_NONE)
		return;
	if (sb->renewed_us != 0 && now_us - sb->renewed_us < m->config->renew_interval_s * 1000000)
		return;
	sb->renewed_us = now_us;
	expires_us = MAX(rec->expires_us, clock_wall_us() + rec->renew_s * 1000000);
	lapses_us = MAX(rec->lapses_us, now_us + rec->renew_s * 1000000);
	if (expires_us == rec->expires_us && lapses_us == rec->lapses_us)
		return;
	rec->expires_us = expires_us;
	rec->lapses_us = lapses_us;
	manager_schedule(sb);
	records_set_expiry(m->store, rec->id, expires_us, lapses_us, NULL, NULL);
}
