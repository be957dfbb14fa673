#include "server/farewell.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"

struct farewell {
	struct sandbox *sb;
	struct list enders;
};

int farewell_note(struct sandbox *sb, struct err *e)
{
	/* the record may have lost its reason for want of memory */
	const char *reason = sb->ending != CAUSE_NONE ? sandbox_reason(sb->ending) : sb->rec.reason;
	int slot = ends_put(&sb->manager->ends, sb->note, sb->rec.id, reason, sb->rec.hidden != 0,
			    e);

	if (slot < 0)
		return slot;
	sb->note = slot;
	return 0;
}

static void drop_note(struct sandbox *sb)
{
	if (sb->note >= 0)
		ends_remove(&sb->manager->ends, sb->note);
	sb->note = -1;
}

static void on_recorded(void *ctx, int result, const char *why)
{
	struct farewell *f = ctx;
	struct sandbox *sb = f->sb;
	enum error error = E_OK;
	struct err e = ERR_INIT;

	if (result >= 0) {
		drop_note(sb);
	} else {
		log_error("the store refused an end", { "id", sb->rec.id }, { "error", why });
		if (farewell_note(sb, &e) < 0) {
			log_error("nor is there a note of it", { "id", sb->rec.id },
				  { "error", e.msg });
			error = E_STORE_FAILED;
			why = "the sandbox has ended, but the next start may not know it";
		}
	}
	manager_answer(&f->enders, sb, error, why);
	sandbox_drop(sb);
	free(f);
}

void farewell_record(struct sandbox *sb)
{
	struct farewell *f = malloc(sizeof(*f));

	if (f == NULL) {
		records_set_status(sb->manager->store, &sb->rec, NULL, NULL);
		manager_answer(&sb->enders, sb, E_STORE_FAILED, "out of memory");
		return;
	}
	f->sb = sb;
	sandbox_hold(sb);
	list_init(&f->enders);
	list_push_back(&sb->enders, &f->enders); /* all of them change over */
	list_remove(&sb->enders);
	records_set_status(sb->manager->store, &sb->rec, on_recorded, f);
}

static void on_deleted(void *ctx, int result, const char *why)
{
	struct sandbox *sb = ctx;

	if (result >= 0)
		drop_note(sb);
	else
		log_error("the store refused to forget", { "id", sb->rec.id }, { "error", why });
	sandbox_drop(sb);
}

void farewell_forget(struct sandbox *sb)
{
	sandbox_hold(sb);
	records_delete(sb->manager->store, sb->rec.id, on_deleted, sb);
}

/* --- the next start --- */

static void apply(struct manager *m, int slot, const struct ends_note *note)
{
	struct sandbox *sb = manager_find(m, span_str(note->id), true);
	enum sandbox_cause cause = sandbox_cause_of(note->reason);

	if (sb == NULL) { /* forgotten meanwhile */
		ends_remove(&m->ends, slot);
		return;
	}
	sb->note = slot;
	sb->rec.hidden |= note->hidden != 0;
	if (sandbox_ended(sb)) {
		farewell_record(sb);
		return;
	}
	/* what it was when the store still took notice; its end is recorded when the runtime has
	 * said that it is gone */
	sb->ending = MAX(cause, CAUSE_DELETED);
	if (sb->state != SANDBOX_STOPPING)
		sandbox_enter(sb, SANDBOX_STOPPING, sandbox_reason(sb->ending),
			      sandbox_message(sb->ending));
}

int farewell_init(struct manager *m, struct err *e)
{
	char path[4096];
	struct ends_note note;
	int r;

	if ((size_t)snprintf(path, sizeof(path), "%s.ends", m->config->store_path) >= sizeof(path))
		return err_code(e, ENAMETOOLONG, "store.path");
	r = ends_open(&m->ends, path, e);
	if (r < 0)
		return r;
	if (m->ends.n_slots < ENDS_MAX)
		log_warn("too little room on disk to set some aside for ends", { "file", path });
	for (int slot = 0; slot < m->ends.n_slots; slot++)
		if (ends_read(&m->ends, slot, &note))
			apply(m, slot, &note);
	return 0;
}
