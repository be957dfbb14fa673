#include "server/create.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"

#define TOKEN_BYTES   24
#define MAX_SPEC_SIZE MIB(1)

static void on_refused(struct io_defer *d);

static void enter(struct creation *c, enum creation_state to)
{
	assert(to == c->state + 1 || to >= CREATION_RECORD);
	c->state = to;
}

struct creation *creation_new(void)
{
	struct creation *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return NULL;
	c->arena = ARENA_INIT(MIB(4));
	list_init(&c->waiters);
	deadline_init(&c->deadline);
	io_defer_init(&c->turn, on_refused);
	c->started_us = clock_mono_us();
	return c;
}

void creation_free(struct creation *c)
{
	if (c == NULL)
		return;
	if (c->handle != NULL)
		*c->handle = NULL;
	io_defer_cancel(&c->turn);
	json_decref(c->env);
	json_decref(c->entrypoint);
	arena_free(&c->arena);
	free(c);
}

/* --- the end of it, good or bad --- */

static void release_claims(struct creation *c, struct manager *m)
{
	for (unsigned i = 0; i < c->n_claims; i++)
		volumes_release(&m->volumes, c->claims[i].name);
}

static void keep_claims(struct creation *c)
{
	for (unsigned i = 0; i < c->n_claims; i++)
		(void)volumes_keep(&c->sb->manager->volumes, c->claims[i].name);
}

/* The sandbox goes on without its creation. */
static void over(struct creation *c)
{
	struct sandbox *sb = c->sb;
	struct manager *m = sb->manager;

	enter(c, CREATION_OVER);
	deadline_clear(&c->deadline);
	m->n_creating--;
	sb->creation = NULL;
	creation_free(c);
	sandbox_drop(sb);
}

/* The server has stopped while the store was asked; the next one takes it up. */
static bool stopped(struct creation *c)
{
	if (!c->sb->forgotten)
		return false;
	over(c);
	return true;
}

static void succeeded(struct creation *c)
{
	struct sandbox *sb = c->sb;
	struct metrics *mt = &sb->manager->metrics;
	uint64_t now_us = clock_mono_us();
	struct list waiters;

	mt->created++;
	histogram_add(&mt->create, now_us - c->started_us);
	histogram_add(&mt->runtime, c->runtime_us);
	histogram_add(&mt->ready, c->ping_us);
	log_info("sandbox created", { "id", sb->rec.id }, { "image", sb->rec.image });
	list_init(&waiters);
	list_push_back(&c->waiters, &waiters);
	list_remove(&c->waiters);
	keep_claims(c);
	over(c);
	manager_schedule(sb);
	manager_answer(&waiters, sb, E_OK, "");
}

/* Tell the one who asked and let the sandbox end; `made`: the runtime has it. */
static void failed(struct creation *c, enum error error, const char *why, bool made)
{
	struct sandbox *sb = c->sb;
	struct manager *m = sb->manager;
	char words[sizeof(sb->why)];

	(void)snprintf(words, sizeof(words), "%s", why);
	if (sb->ending == CAUSE_NONE) {
		m->metrics.create_failed++;
		log_warn("sandbox could not be created", { "id", sb->rec.id }, { "error", words });
		sb->ending = CAUSE_UNMADE;
		(void)snprintf(sb->why, sizeof(sb->why), "%s", words);
	}
	manager_answer(&c->waiters, sb, error, words);
	over(c);
	if (made)
		manager_idle(sb);
	else
		manager_ended(sb);
}

/* It ran and has ended already, as it was meant to: told as a success, once it has ended. */
static void ended_at_once(struct creation *c)
{
	struct sandbox *sb = c->sb;

	while (!list_empty(&c->waiters)) {
		struct list *w = c->waiters.next;

		list_remove(w);
		list_push_back(&sb->enders, w);
	}
	sb->manager->metrics.created++;
	keep_claims(c);
	over(c);
	manager_idle(sb);
}

static void record_made(struct creation *c);

/* Is it to end before it was ready? Then this is over, or will be without the rest of it. */
static bool unwanted(struct creation *c, bool made)
{
	enum sandbox_cause cause = c->sb->ending;

	if (cause == CAUSE_NONE)
		return false;
	if (cause == CAUSE_EXITED && made && c->state < CREATION_RECORD)
		record_made(c); /* it was there, and may have left something in its volumes */
	else if (cause == CAUSE_EXITED && made)
		ended_at_once(c);
	else if (cause == CAUSE_EXITED_ERROR || cause == CAUSE_OOM)
		failed(c, E_START_FAILED, c->sb->why, made);
	else
		failed(c, E_SANDBOX_NOT_FOUND, "the sandbox was deleted while it was being made",
		       made);
	return true;
}

/* --- RECORD --- */

static void on_made_recorded(void *ctx, int result, const char *why)
{
	struct creation *c = ctx;

	if (stopped(c))
		return;
	if (result < 0)
		failed(c, E_STORE_FAILED, why, true);
	else if (!unwanted(c, true))
		succeeded(c);
}

static void record_made(struct creation *c)
{
	struct sandbox *sb = c->sb;

	enter(c, CREATION_RECORD);
	deadline_clear(&c->deadline);
	sandbox_enter(sb, SANDBOX_RUNNING, "running",
		      sb->ending == CAUSE_NONE ? "the sandbox is ready" : "the sandbox has run");
	sb->rec.transition_us = MAX(sb->rec.created_us, sb->rec.transition_us);
	manager_state_event(sb);
	if (c->n_claims > 0)
		records_set_made(sb->manager->store, &sb->rec, on_made_recorded, c);
	else
		records_set_status(sb->manager->store, &sb->rec, on_made_recorded, c);
}

/* --- PING --- */

static void on_ping_head(struct http_call *call, const struct h1_head *head)
{
	struct creation *c = http_call_user(call);

	if (head->status != 200)
		(void)snprintf(c->why, sizeof(c->why), "execd answered with status %d",
			       head->status);
}

static void on_ping_done(struct http_call *call, int error, const char *why)
{
	struct creation *c = http_call_user(call);

	c->ping = NULL;
	c->ping_us = clock_mono_us() - c->started_us - c->runtime_us;
	if (unwanted(c, true))
		return;
	if (error == -ECONNRESET || error == -ECONNREFUSED || error == -EPIPE) {
		/* It is gone. How it ended comes from the runtime in a moment; the deadline
		 * stands. */
		(void)snprintf(c->why, sizeof(c->why), "%s", why);
		return;
	}
	if (error != 0)
		failed(c, E_START_FAILED, why, true);
	else if (c->why[0] != '\0')
		failed(c, E_START_FAILED, c->why, true);
	else
		record_made(c);
}

static void start_ping(struct creation *c)
{
	struct http_upstream *u = manager_execd(c->sb);
	const struct h1_field fields[] = {
		{ SPAN_LIT("X-EXECD-ACCESS-TOKEN"), span_str(c->sb->rec.token) },
	};
	const struct http_call_options opt = {
		.method = "GET",
		.target = SPAN_LIT("/ping"),
		.fields = fields,
		.n_fields = 1,
		.user = c,
		.on_head = on_ping_head,
		.done = on_ping_done,
	};
	struct err e = ERR_INIT;

	enter(c, CREATION_PING);
	c->why[0] = '\0';
	if (u == NULL || http_call_start(u, &opt, &c->ping, &e) < 0)
		failed(c, E_START_FAILED, u == NULL ? "execd cannot be reached" : e.msg, true);
}

/* --- RUNTIME --- */

static void on_made(struct driver_call *call, int error, const char *why)
{
	struct creation *c = CONTAINER_OF(call, struct creation, call);
	struct sandbox *sb = c->sb;
	struct manager *m = sb->manager;

	c->runtime_us = clock_mono_us() - c->started_us;
	if (error != 0) {
		enum error code = manager_error(error, E_START_FAILED);

		if (error == -EINVAL || error == -EPERM)
			code = E_INVALID_PARAMETER;
		else if (error == -EEXIST)
			/* ids are never taken: it is there with another size */
			code = E_VOLUME_SIZE;
		else if ((error == -ENOENT || error == -ENOTDIR || error == -ELOOP) &&
			 c->spec.n_volumes > 0)
			code = E_VOLUME_HOST_MISSING; /* what we could not see ourselves */
		else if (error == -EROFS && c->spec.n_volumes > 0)
			/* the image has no such directory to mount on */
			code = E_VOLUME_MOUNT_PATH;
		failed(c, code, why, false);
		return;
	}
	free(sb->rec.boot_id);
	sb->rec.boot_id = strdup(m->boot_id);
	sb->rec.network = call->status.network;
	if (!unwanted(c, true))
		start_ping(c);
}

/* What execd reads from its descriptor. */
static bool write_execd_spec(struct creation *c, struct buf *out)
{
	struct jw w = JW_INIT(out);

	jw_object(&w);
	jw_field_cstr(&w, "id", c->sb->rec.id);
	jw_field_cstr(&w, "accessToken", c->sb->rec.token);
	jw_key(&w, "entrypoint");
	json_write(&w, c->entrypoint);
	jw_key(&w, "env");
	json_write(&w, c->env);
	jw_end(&w);
	return jw_ok(&w);
}

static bool wants_network(const struct manager *m)
{
	if (strcmp(m->config->network, "auto") == 0)
		return (m->features & DRIVER_CAN_NETWORK) != 0;
	return strcmp(m->config->network, "on") == 0;
}

static void start_runtime(struct creation *c)
{
	struct driver *d = c->sb->manager->driver;
	struct buf spec = BUF_INIT(MAX_SPEC_SIZE);

	enter(c, CREATION_RUNTIME);
	if (!write_execd_spec(c, &spec)) {
		if (spec.starved)
			failed(c, E_INTERNAL, "out of memory", false);
		else
			failed(c, E_INVALID_PARAMETER, "entrypoint and environment are too large",
			       false);
		buf_free(&spec);
		return;
	}
	c->spec.id = c->sb->rec.id;
	c->spec.hostname = c->sb->rec.id;
	c->spec.volumes = c->volumes;
	c->spec.network = wants_network(c->sb->manager);
	c->spec.execd_spec = buf_span(&spec);
	c->call.done = on_made;
	d->ops->create(d, &c->spec, &c->call);
	buf_free(&spec);
}

/* --- STORE --- */

static int make_claims(struct creation *c, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; i < c->n_claims && r >= 0; i++)
		if (c->claims[i].create)
			r = volumes_make(&c->sb->manager->volumes, c->claims[i].name, e);
	return r;
}

static void on_pending_recorded(void *ctx, int result, const char *why)
{
	struct creation *c = ctx;
	struct err e = ERR_INIT;

	if (stopped(c) || unwanted(c, false))
		return;
	if (result < 0)
		failed(c, E_STORE_FAILED, why, false);
	else if (make_claims(c, &e) < 0)
		failed(c, E_VOLUME_FAILED, e.msg, false);
	else
		start_runtime(c);
}

/* --- NEW --- */

static int make_record(struct creation *c, struct record *ret)
{
	char id[RAND_UUID_SIZE], token[TOKEN_BYTES / 3 * 4 + 1], secure[sizeof(token)];
	struct record rec = c->rec;

	rand_uuid(id);
	rand_token(token, TOKEN_BYTES);
	rand_token(secure, TOKEN_BYTES);
	rec.id = id;
	rec.token = token;
	rec.secure_token = c->secure_access ? secure : NULL;
	rec.state = (char *)(uintptr_t)sandbox_state_name(SANDBOX_PENDING);
	rec.created_us = rec.transition_us = clock_wall_us();
	rec.expires_us = c->timeout_s > 0 ? rec.created_us + c->timeout_s * 1000000 : 0;
	rec.lapses_us = c->timeout_s > 0 ? clock_boot_us() + c->timeout_s * 1000000 : 0;
	return record_copy(&rec, ret, NULL);
}

static enum error use_claims(struct creation *c, struct manager *m, struct err *e)
{
	unsigned used = 0;
	int r = 0;

	for (; used < c->n_claims && r >= 0; used++) {
		const struct claim *cl = &c->claims[used];

		r = volumes_use(&m->volumes, cl->name, cl->create, cl->ephemeral, e);
	}
	if (r >= 0)
		return E_OK;
	c->n_claims = used - 1;
	return r == -ENOENT ? E_VOLUME_MISSING : E_VOLUME_FAILED;
}

/* Nothing has been begun: answer later and forget. */
static void on_refused(struct io_defer *d)
{
	struct creation *c = CONTAINER_OF(d, struct creation, turn);

	manager_answer(&c->waiters, NULL, c->error, c->why);
	creation_free(c);
}

static void refuse(struct manager *m, struct creation *c, enum error error, const char *why)
{
	c->error = error;
	(void)snprintf(c->why, sizeof(c->why), "%s", why);
	c->state = CREATION_OVER;
	io_defer_add(m->loop, &c->turn);
}

/* The operator wanted it so; whoever looks at the sandbox is told. */
static void note_unheld(struct creation *c)
{
	char line[128];

	(void)snprintf(line, sizeof(line), "not held on this host: %s", c->unheld);
	manager_event(c->sb, "limits", line);
	log_warn("limits are not held", { "id", c->sb->rec.id }, { "limits", c->unheld });
}

void creation_start(struct manager *m, struct creation *c, struct waiter *w,
		    struct creation **handle)
{
	struct record rec = { 0 };
	struct err e = ERR_INIT;
	enum error error;

	list_push_back(&c->waiters, &w->link);
	c->handle = handle;
	*handle = c;
	if (m->n_creating >= (unsigned)m->config->max_creates) {
		refuse(m, c, E_OVERLOADED, "too many sandboxes are being made");
		return;
	}
	if (m->n_live >= (unsigned)m->config->max_sandboxes) {
		refuse(m, c, E_NO_CAPACITY, "as many sandboxes are alive as may be");
		return;
	}
	error = use_claims(c, m, &e);
	if (error != E_OK) {
		release_claims(c, m);
		refuse(m, c, error, e.msg);
		return;
	}
	if (make_record(c, &rec) < 0 || sandbox_new(m, &rec, &c->sb, &e) < 0) {
		record_clear(&rec);
		release_claims(c, m);
		refuse(m, c, E_INTERNAL, "out of memory");
		return;
	}
	if (manager_add(m, c->sb) < 0) {
		sandbox_drop(TAKE(c->sb));
		release_claims(c, m);
		refuse(m, c, E_INTERNAL, "out of memory");
		return;
	}
	c->sb->creation = c;
	sandbox_hold(c->sb);
	m->n_creating++;
	deadline_set(&m->create_deadlines, &c->deadline);
	enter(c, CREATION_STORE);
	records_insert(m->store, &c->sb->rec, on_pending_recorded, c);
	manager_event(c->sb, "state", "Pending: asked for");
	if (c->unheld[0] != '\0')
		note_unheld(c);
}

void creation_abandon(struct creation *c)
{
	c->handle = NULL;
	if (c->sb != NULL)
		manager_end(c->sb, CAUSE_DELETED, "the client went away while it was being made");
}

/* sb->ending is set: the callbacks notice; a ping need not be waited for. */
void creation_interrupt(struct creation *c)
{
	if (c->state != CREATION_PING)
		return;
	if (c->ping != NULL)
		http_call_cancel(TAKE(c->ping));
	(void)unwanted(c, true);
}

void creation_expired(struct creation *c)
{
	if (c->state == CREATION_PING && c->ping != NULL) {
		http_call_cancel(TAKE(c->ping));
		failed(c, E_START_TIMEOUT, "execd did not answer in time", true);
	} else if (c->state == CREATION_PING) {
		failed(c, E_START_FAILED, c->why, true);
	} else if (c->sb->ending == CAUSE_NONE) {
		/* the runtime still has it; when it answers, the sandbox goes */
		c->sb->ending = CAUSE_UNMADE;
		(void)snprintf(c->sb->why, sizeof(c->sb->why), "the runtime took too long");
		manager_answer(&c->waiters, c->sb, E_START_TIMEOUT, c->sb->why);
	}
}
