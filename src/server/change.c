/* Changes to a sandbox that goes on living. */
#include "base/clock.h"
#include "base/log.h"
#include "server/manager.h"

#define RENEW_RETRY_US 1000000 /* so that a store that refuses is not asked by every request */

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
	int64_t expires_us, lapses_us; /* 0: it is none of the time */
	uint64_t renewal;              /* its number among those of the sandbox */
	json_t *metadata;              /* NULL: it is none of the metadata */
};

static void keep(const struct change *ch)
{
	struct sandbox *sb = ch->sb;

	if (ch->expires_us != 0) {
		sb->stored.expires_us = ch->expires_us;
		sb->stored.lapses_us = ch->lapses_us;
	}
	if (ch->metadata != NULL)
		sandbox_share(&sb->stored.metadata, ch->metadata);
}

/* To what the store has, which need not be what was there before: that may have been refused as
 * well. Unless somebody has changed it again meanwhile. */
static void take_back(const struct change *ch)
{
	struct sandbox *sb = ch->sb;

	if (sandbox_ended(sb) || sb->forgotten)
		return;
	if (ch->expires_us != 0 && sb->renewals == ch->renewal) {
		sb->rec.expires_us = sb->stored.expires_us;
		sb->rec.lapses_us = sb->stored.lapses_us;
		sb->may_renew_us = MIN(sb->may_renew_us, clock_boot_us() + RENEW_RETRY_US);
		manager_schedule(sb);
	}
	if (ch->metadata != NULL && sb->metadata == ch->metadata)
		sandbox_share(&sb->metadata, sb->stored.metadata);
}

static void change_free(struct change *ch)
{
	json_decref(ch->metadata);
	sandbox_drop(ch->sb);
	free(ch);
}

static void on_changed(void *ctx, int result, const char *why)
{
	struct change *ch = ctx;

	if (result < 0) {
		log_error("the store refused a change", { "id", ch->sb->rec.id }, { "error", why });
		take_back(ch);
	} else {
		keep(ch);
	}
	manager_answer(&ch->waiters, ch->sb, result < 0 ? E_STORE_FAILED : E_OK, why);
	change_free(ch);
}

/* w: who waits for it, or NULL */
static struct change *change_new(struct sandbox *sb, struct waiter *w)
{
	struct change *ch = calloc(1, sizeof(*ch));

	if (ch == NULL) {
		if (w != NULL)
			w->done(w, sb, E_INTERNAL, "out of memory");
		return NULL;
	}
	ch->sb = sb;
	sandbox_hold(sb);
	list_init(&ch->waiters);
	if (w != NULL)
		list_push_back(&ch->waiters, &w->link);
	return ch;
}

/* The expiry has been set. */
static void record_expiry(struct sandbox *sb, struct change *ch)
{
	ch->expires_us = sb->rec.expires_us;
	ch->lapses_us = sb->rec.lapses_us;
	ch->renewal = ++sb->renewals;
	manager_schedule(sb);
	records_set_expiry(sb->manager->store, sb->rec.id, ch->expires_us, ch->lapses_us,
			   on_changed, ch);
}

void manager_renew(struct sandbox *sb, int64_t expires_us, struct waiter *w)
{
	struct change *ch = change_new(sb, w);
	char line[CLOCK_RFC3339_SIZE];

	if (ch == NULL)
		return;
	sandbox_set_expiry(sb, expires_us);
	record_expiry(sb, ch);
	(void)clock_rfc3339(expires_us, line);
	manager_event(sb, "renewed", line);
}

void manager_metadata(struct sandbox *sb, json_t *metadata, struct waiter *w)
{
	struct change *ch = change_new(sb, w);
	autofree char *text = NULL;
	struct err e = ERR_INIT;
	int r;

	if (ch == NULL)
		return;
	r = sandbox_metadata_text(metadata, &text, &e);
	if (r < 0) {
		manager_answer(&ch->waiters, sb, r == -EMSGSIZE ? E_INVALID_METADATA : E_INTERNAL,
			       e.msg);
		change_free(ch);
		return;
	}
	sandbox_share(&sb->metadata, metadata);
	ch->metadata = json_incref(metadata);
	records_set_metadata(sb->manager->store, sb->rec.id, text, on_changed, ch);
	manager_event(sb, "metadata", "changed by request");
}

void manager_touch(struct sandbox *sb)
{
	struct manager *m = sb->manager;
	struct record *rec = &sb->rec;
	int64_t now_us = clock_boot_us(), expires_us, lapses_us;
	struct change *ch;

	sb->accessed_us = now_us;
	if (rec->renew_s == 0 || rec->expires_us == 0 || !m->config->renew_enabled ||
	    sb->state != SANDBOX_RUNNING || sb->ending != CAUSE_NONE)
		return;
	if (now_us < sb->may_renew_us)
		return;
	expires_us = MAX(rec->expires_us, clock_wall_us() + rec->renew_s * 1000000);
	lapses_us = MAX(rec->lapses_us, now_us + rec->renew_s * 1000000);
	if (expires_us == rec->expires_us && lapses_us == rec->lapses_us)
		return;
	ch = change_new(sb, NULL);
	if (ch == NULL)
		return;
	sb->may_renew_us = now_us + m->config->renew_interval_s * 1000000;
	rec->expires_us = expires_us;
	rec->lapses_us = lapses_us;
	record_expiry(sb, ch);
}
