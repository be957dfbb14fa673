#include "server/sandbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

#define BIT(s) (1u << SANDBOX_##s)

/* From where one may come to where. A connection to the runtime that was lost makes the truth jump:
 * hence the edges from the transitional states back. */
static const struct {
	const char *name;
	unsigned next;
} states[SANDBOX_STATE_COUNT] = {
	[SANDBOX_PENDING] = { "Pending",
			      BIT(RUNNING) | BIT(STOPPING) | BIT(TERMINATED) | BIT(FAILED) },
	[SANDBOX_RUNNING] = { "Running", BIT(PAUSING) | BIT(PAUSED) | BIT(STOPPING) | BIT(FAILED) },
	[SANDBOX_PAUSING] = { "Pausing", BIT(PAUSED) | BIT(RUNNING) | BIT(STOPPING) | BIT(FAILED) },
	[SANDBOX_PAUSED] = { "Paused", BIT(RESUMING) | BIT(RUNNING) | BIT(STOPPING) | BIT(FAILED) },
	[SANDBOX_RESUMING] = { "Resuming",
			       BIT(RUNNING) | BIT(PAUSED) | BIT(STOPPING) | BIT(FAILED) },
	[SANDBOX_STOPPING] = { "Stopping", BIT(TERMINATED) | BIT(FAILED) },
	[SANDBOX_TERMINATED] = { "Terminated", 0 },
	[SANDBOX_FAILED] = { "Failed", 0 },
};

static const struct {
	enum sandbox_state state;
	bool hidden;
	const char *reason, *message;
} causes[CAUSE_COUNT] = {
	[CAUSE_NONE] = { SANDBOX_FAILED, false, "unknown", "nobody knows why" },
	[CAUSE_DELETED] = { SANDBOX_TERMINATED, true, "user_delete", "deleted by request" },
	[CAUSE_EXPIRED] = { SANDBOX_TERMINATED, false, "ttl_expiry", "its time was up" },
	[CAUSE_IDLE] = { SANDBOX_TERMINATED, false, "idle_timeout", "nobody used it" },
	[CAUSE_EXITED] = { SANDBOX_TERMINATED, false, "exited", "its main process ended" },
	[CAUSE_EXITED_ERROR] = { SANDBOX_FAILED, false, "exited_error",
				 "its main process ended with an error" },
	[CAUSE_OOM] = { SANDBOX_FAILED, false, "oom_killed", "it ran out of memory" },
	[CAUSE_LOST] = { SANDBOX_FAILED, false, "runtime_lost",
			 "the runtime does not have it any more" },
	[CAUSE_REBOOT] = { SANDBOX_FAILED, false, "host_reboot", "the host was restarted" },
	[CAUSE_UNMADE] = { SANDBOX_FAILED, true, "provision_failed", "it was not made" },
	[CAUSE_SERVER_EXIT] = { SANDBOX_TERMINATED, false, "server_exit",
				"the server ended and took it along" },
};

const char *sandbox_state_name(enum sandbox_state s)
{
	return states[s].name;
}

bool sandbox_state_parse(struct span name, enum sandbox_state *ret)
{
	for (unsigned i = 0; i < SANDBOX_STATE_COUNT; i++) {
		if (span_caseis(name, states[i].name)) {
			*ret = (enum sandbox_state)i;
			return true;
		}
	}
	return false;
}

enum sandbox_state sandbox_final_state(enum sandbox_cause cause)
{
	return causes[cause].state;
}

const char *sandbox_reason(enum sandbox_cause cause)
{
	return causes[cause].reason;
}

const char *sandbox_message(enum sandbox_cause cause)
{
	return causes[cause].message;
}

bool sandbox_hides(enum sandbox_cause cause)
{
	return causes[cause].hidden;
}

enum sandbox_cause sandbox_cause_of(const char *reason)
{
	for (unsigned i = 1; reason != NULL && i < CAUSE_COUNT; i++)
		if (strcmp(causes[i].reason, reason) == 0)
			return (enum sandbox_cause)i;
	return CAUSE_NONE;
}

int sandbox_new(struct manager *m, struct record *rec, struct sandbox **ret, struct err *e)
{
	struct sandbox *sb;
	json_t *metadata = NULL;
	enum sandbox_state state;
	int r;

	if (rec->id == NULL || rec->token == NULL || rec->entrypoint == NULL ||
	    !sandbox_state_parse(span_str(rec->state), &state))
		return err_set(e, EINVAL, "the record of sandbox '%s' makes no sense",
			       rec->id != NULL ? rec->id : "");
	r = json_parse(span_str(rec->metadata), &json_default_limits, &metadata, e);
	if (r < 0)
		return err_wrap(e, "metadata of sandbox '%s'", rec->id);
	sb = calloc(1, sizeof(*sb));
	if (sb == NULL) {
		json_decref(metadata);
		return err_code(e, ENOMEM, "sandbox");
	}
	sb->rec = *rec;
	*rec = (struct record){ 0 };
	sb->state = state;
	sb->metadata = metadata;
	sb->manager = m;
	sb->accessed_us = clock_boot_us();
	sb->stored.metadata = json_incref(metadata);
	sb->stored.expires_us = sb->rec.expires_us;
	sb->stored.lapses_us = sb->rec.lapses_us;
	if (sb->rec.lapses_us == 0)
		sandbox_date_alone(sb);
	sb->holds = 1;
	sb->note = -1;
	list_init(&sb->link);
	list_init(&sb->ended_link);
	list_init(&sb->waiters);
	list_init(&sb->enders);
	list_init(&sb->ports);
	*ret = sb;
	return 0;
}

void sandbox_hold(struct sandbox *sb)
{
	sb->holds++;
}

void sandbox_drop(struct sandbox *sb)
{
	if (--sb->holds > 0)
		return;
	assert(sb->execd == NULL && list_empty(&sb->ports) && !sb->busy);
	record_clear(&sb->rec);
	json_decref(sb->metadata);
	json_decref(sb->stored.metadata);
	free(sb);
}

static void replace(char **text, const char *with)
{
	char *copy = with != NULL ? strdup(with) : NULL;

	free(*text);
	*text = copy;
}

void sandbox_enter(struct sandbox *sb, enum sandbox_state to, const char *reason,
		   const char *message)
{
	assert((states[sb->state].next & 1u << to) != 0);
	sb->state = to;
	replace(&sb->rec.state, states[to].name);
	replace(&sb->rec.reason, reason);
	replace(&sb->rec.message, message);
	sb->rec.transition_us = clock_wall_us();
	if (sandbox_ended(sb))
		sb->rec.ended_us = sb->rec.transition_us;
}

void sandbox_set_expiry(struct sandbox *sb, int64_t expires_us)
{
	int64_t left_us = expires_us - clock_wall_us();

	sb->rec.expires_us = expires_us;
	sb->rec.lapses_us = expires_us != 0 ? MAX(clock_boot_us() + left_us, 1) : 0;
}

void sandbox_date_alone(struct sandbox *sb)
{
	sandbox_set_expiry(sb, sb->rec.expires_us);
	sb->stored.lapses_us = sb->rec.lapses_us;
}

int sandbox_metadata_text(const json_t *metadata, char **ret, struct err *e)
{
	struct buf out = BUF_INIT(SANDBOX_MAX_METADATA);
	int r = json_encode(metadata, &out);

	*ret = r >= 0 ? buf_take(&out, NULL) : NULL;
	buf_free(&out);
	if (r == -EMSGSIZE)
		return err_set(e, EMSGSIZE, "metadata would be more than %zu bytes of JSON",
			       SANDBOX_MAX_METADATA);
	return *ret != NULL ? 0 : err_code(e, ENOMEM, "metadata");
}

void sandbox_share(json_t **at, json_t *metadata)
{
	json_incref(metadata);
	json_decref(*at);
	*at = metadata;
}

/* Members in the order of the public server; what is not there is left out, never null. */
void sandbox_write(const struct sandbox *sb, bool with_image, struct jw *w)
{
	const struct record *rec = &sb->rec;

	jw_object(w);
	jw_field_cstr(w, "id", rec->id);
	if (with_image) {
		jw_key(w, "image");
		jw_object(w);
		jw_field_cstr(w, "uri", rec->image);
		jw_end(w);
	}
	if (rec->os != NULL && rec->arch != NULL) {
		jw_key(w, "platform");
		jw_object(w);
		jw_field_cstr(w, "os", rec->os);
		jw_field_cstr(w, "arch", rec->arch);
		jw_end(w);
	}
	jw_key(w, "status");
	jw_object(w);
	jw_field_cstr(w, "state", states[sb->state].name);
	if (rec->reason != NULL)
		jw_field_cstr(w, "reason", rec->reason);
	if (rec->message != NULL)
		jw_field_cstr(w, "message", rec->message);
	jw_field_time(w, "lastTransitionAt", rec->transition_us);
	jw_end(w);
	jw_key(w, "metadata");
	json_write(w, sb->metadata);
	jw_key(w, "entrypoint");
	jw_raw(w, span_str(rec->entrypoint));
	if (rec->expires_us != 0)
		jw_field_time(w, "expiresAt", rec->expires_us);
	jw_field_time(w, "createdAt", rec->created_us);
	if (strcmp(rec->extensions, "{}") != 0) {
		jw_key(w, "extensions");
		jw_raw(w, span_str(rec->extensions));
	}
	jw_end(w);
}
