/* What the runtime says: at each connection what it has, later what happens to it.
 *
 * Three parties may have been killed at any instant. The store knows what was promised, the runtime
 * knows what runs. A sandbox that only the runtime knows was never promised to anybody: it goes.
 * One that only the store knows has ended while nobody looked. One that was Pending in the store
 * when the server started was never answered for, so it goes as well. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/log.h"
#include "server/create.h"
#include "server/manager.h"

/* A sandbox nobody asked for. */
struct stray {
	struct driver_call call;
	char id[64];
};

static void stray_removed(struct driver_call *c, int error, const char *why)
{
	struct stray *s = CONTAINER_OF(c, struct stray, call);

	if (error != 0 && error != -ENOENT)
		log_warn("a stray sandbox could not be removed", { "id", s->id }, { "error", why });
	else
		log_info("stray sandbox removed", { "id", s->id });
	free(s);
}

static void remove_stray(struct manager *m, const char *id)
{
	struct stray *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return; /* the next connection lists it again */
	(void)span_copy(span_str(id), s->id, sizeof(s->id));
	s->call.done = stray_removed;
	m->driver->ops->remove(m->driver, s->id, &s->call);
}

static void end_exited(struct sandbox *sb, int status, uint64_t oom_kills)
{
	enum sandbox_cause cause = CAUSE_EXITED_ERROR;
	char why[96];

	if (status >= 0 && WIFEXITED(status)) {
		if (WEXITSTATUS(status) == 0)
			cause = CAUSE_EXITED;
		else if (oom_kills > 0 && WEXITSTATUS(status) == 128 + SIGKILL)
			/* execd passes the end of the entrypoint on like a shell */
			cause = CAUSE_OOM;
		(void)snprintf(why, sizeof(why), "its main process ended with code %d%s",
			       WEXITSTATUS(status), cause == CAUSE_OOM ? ": out of memory" : "");
	} else if (status >= 0 && WIFSIGNALED(status)) {
		if (oom_kills > 0 && WTERMSIG(status) == SIGKILL)
			cause = CAUSE_OOM;
		(void)snprintf(why, sizeof(why), "its main process was ended by signal %d%s",
			       WTERMSIG(status), cause == CAUSE_OOM ? ": out of memory" : "");
	} else {
		if (oom_kills > 0)
			cause = CAUSE_OOM;
		(void)snprintf(why, sizeof(why), "its main process ended while nobody looked");
	}
	manager_end(sb, cause, why);
}

static void on_item(void *ctx, const struct driver_status *st)
{
	struct manager *m = ctx;
	struct sandbox *sb = manager_find(m, span_str(st->id), true);

	if (sb == NULL || sandbox_ended(sb)) {
		remove_stray(m, st->id);
		return;
	}
	sb->seen = *st;
	sb->seen_in = m->generation;
}

/* The truth about a sandbox that both know. */
static void settle_found(struct sandbox *sb)
{
	bool paused = sb->seen.state == DRIVER_PAUSED;
	enum sandbox_state truth = paused ? SANDBOX_PAUSED : SANDBOX_RUNNING;

	if (sb->seen.state == DRIVER_DEAD) {
		end_exited(sb, sb->seen.exit_status, sb->seen.oom_kills);
	} else if (sb->state == SANDBOX_PENDING) {
		manager_end(sb, CAUSE_UNMADE, "the server ended before it was ready");
	} else if (sb->state != SANDBOX_STOPPING && sb->state != truth) {
		sandbox_enter(sb, truth, "adopted", paused ? "found paused" : "found running");
		manager_record(sb, NULL, NULL);
	}
	manager_schedule(sb);
	manager_idle(sb); /* a removal that was interrupted is taken up again */
}

static void settle_missing(struct sandbox *sb)
{
	const struct manager *m = sb->manager;
	bool rebooted = sb->rec.boot_id != NULL && strcmp(sb->rec.boot_id, m->boot_id) != 0;

	if (sb->ending == CAUSE_NONE)
		sb->ending = sb->state == SANDBOX_PENDING ? CAUSE_UNMADE
			     : rebooted                   ? CAUSE_REBOOT
							  : CAUSE_LOST;
	manager_ended(sb);
}

/* Something is under way with it, which will tell how it is; but that it has ended is told only
 * here. One that the runtime has not been asked for yet cannot be missing. */
static void note_end(struct sandbox *sb)
{
	if (sb->seen_in != sb->manager->generation) {
		if (sb->creation == NULL || sb->creation->state > CREATION_RUNTIME)
			manager_end(sb, CAUSE_LOST, NULL);
	} else if (sb->seen.state == DRIVER_DEAD) {
		end_exited(sb, sb->seen.exit_status, sb->seen.oom_kills);
	}
}

static void on_up(void *ctx, const struct driver_info *info)
{
	struct manager *m = ctx;
	char count[24];

	m->features = info->features;
	(void)span_copy(span_str(info->boot_id), m->boot_id, sizeof(m->boot_id));
	(void)span_copy(span_str(info->missing), m->missing, sizeof(m->missing));
	list_for_each_safe (it, &m->all) {
		struct sandbox *sb = LIST_ENTRY(it, struct sandbox, link);

		if (sandbox_ended(sb))
			continue;
		if (sb->creation != NULL || sb->busy)
			note_end(sb);
		else if (sb->seen_in == m->generation)
			settle_found(sb);
		else
			settle_missing(sb);
	}
	(void)snprintf(count, sizeof(count), "%u", m->n_live);
	log_info("runtime is up", { "sandboxes", count },
		 { "missing", m->missing[0] != '\0' ? m->missing : "nothing" });
	if (!m->was_up) {
		m->was_up = true;
		volumes_settle(&m->volumes);
		m->ready(m);
	}
}

static void on_down(void *ctx, const char *why)
{
	struct manager *m = ctx;

	m->generation++;
	m->metrics.runtime_restarts++;
	log_error("runtime is down", { "why", why });
}

static void on_exited(void *ctx, const char *id, int status, uint64_t oom_kills)
{
	struct manager *m = ctx;
	struct sandbox *sb = manager_find(m, span_str(id), true);

	if (sb == NULL || sandbox_ended(sb))
		return;
	end_exited(sb, status, oom_kills);
}

static void on_oom(void *ctx, const char *id, uint64_t oom_kills)
{
	struct manager *m = ctx;
	struct sandbox *sb = manager_find(m, span_str(id), true);
	char line[96];

	if (sb == NULL || sandbox_ended(sb))
		return;
	m->metrics.oom++;
	(void)snprintf(line, sizeof(line),
		       "the kernel ended a process for lack of memory (%llu so far)",
		       (unsigned long long)oom_kills);
	manager_event(sb, "oom", line);
}

const struct driver_events manager_driver_events = {
	.item = on_item,
	.up = on_up,
	.down = on_down,
	.exited = on_exited,
	.oom = on_oom,
};
