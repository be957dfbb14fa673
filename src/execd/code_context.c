#include "execd/code_context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "execd/api.h"
#include "execd/code_events.h"
#include "execd/kernel_spare.h"
#include "execd/kernel_template.h"

/* --- the end of a run --- */

struct waiting {
	struct list link;
	struct http_req *req;
};

static void waiting_over(struct http_req *r)
{
	list_remove(&((struct waiting *)r->user)->link);
}

static void answer_interrupts(struct code_context *c)
{
	list_for_each_safe (it, &c->interrupts) {
		struct waiting *w = LIST_ENTRY(it, struct waiting, link);

		list_remove(it);
		api_ok(w->req);
	}
}

/* What it came to has been told. */
static void end_run(struct code_context *c)
{
	c->running = false;
	free(TAKE(c->code));
	events_close(&c->events);
	answer_interrupts(c);
}

static void fail_run(struct code_context *c, const char *ename, const char *evalue)
{
	code_events_fail(&c->events, ename, evalue);
	end_run(c);
}

/* --- what the kernel says --- */

static void give_code(struct code_context *c)
{
	int r = kernel_run(c->kernel, span_of(c->code, c->code_len));

	free(TAKE(c->code));
	if (r == -ENOMEM)
		fail_run(c, "MemoryError", "there is no memory for the cell");
	else if (r < 0)
		fail_run(c, "ValueError",
			 r == -EINVAL ? "a cell of this language cannot contain a NUL character"
				      : "the cell is too long");
}

/* The kernel is ready for the run, if there is one. */
static void begin_run(struct code_context *c)
{
	if (c->running && c->interrupted)
		fail_run(c, "KeyboardInterrupt", "interrupted before it began");
	else if (c->running)
		give_code(c);
}

/* Who asked for the context gets it. If that cannot be told it ends, here or in asker_left(). */
static void answer_asking(struct code_context *c)
{
	struct http_req *r = c->asking;
	struct buf body = BUF_INIT(KIB(64));
	struct jw w = JW_INIT(&body);

	if (r == NULL || c->answered)
		return;
	c->answered = true;
	code_context_write(&w, c);
	if (buf_failed(&body) || !http_answerable(r))
		code_context_end(c);
	api_json(r, 200, &body);
}

static void on_ready(void *user)
{
	struct code_context *c = user;

	begin_run(c);
	answer_asking(c);
}

static void on_text(void *user, const char *type, struct span text)
{
	struct code_context *c = user;

	if (!c->running || text.len == 0)
		return;
	events_text(&c->events, type, text);
	(void)events_flush(&c->events);
}

static void tell_count(struct code_context *c, int64_t count)
{
	if (c->counted || count <= 0)
		return;
	c->counted = true;
	code_events_count(&c->events, count);
}

static void on_frame(void *user, const char *op, const json_t *frame)
{
	struct code_context *c = user;
	int64_t count = 0;

	if (!c->running)
		return;
	if (strcmp(op, "error") == 0) {
		code_events_error(&c->events, frame);
		return;
	}
	if (strcmp(op, "result") == 0) {
		(void)json_get_i64(frame, "count", JSON_MAY, &count, NULL);
		tell_count(c, count);
	}
	code_events_result(&c->events, json_object_get(frame, "data"));
}

static void on_done(void *user, int64_t count)
{
	struct code_context *c = user;

	if (!c->running)
		return;
	tell_count(c, count);
	events_complete(&c->events, clock_mono_ms() - c->started_ms);
	end_run(c);
}

static int start_kernel(struct code_context *c, struct err *e);

static void on_ended(void *user, const char *words)
{
	struct code_context *c = user;
	const struct kernel *k = TAKE(c->kernel);
	struct http_req *r = c->answered ? NULL : c->asking;
	bool started = k->was_ready;

	if (!started && k->from_template) { /* that may be in a bad state: once more, without */
		kernel_template_give_up(c->x);
		c->unforked = true;
		if (start_kernel(c, NULL) == 0)
			return;
	}
	if (r != NULL) {
		c->asking = NULL;
		r->user = NULL;
		api_errorf(r, 500, API_RUNTIME_ERROR,
			   "error creating code context. the %s kernel: %s", c->lang->name, words);
		code_context_end(c);
		return;
	}
	(void)snprintf(c->lost, sizeof(c->lost), "%s", started ? words : "");
	if (c->running && !started) {
		fail_run(c, "KernelStartError", words);
	} else if (c->running) {
		char text[sizeof(c->lost) + 128];

		(void)snprintf(text, sizeof(text),
			       "the %s kernel ended: %s; its state is lost, the next run starts a "
			       "fresh one",
			       c->lang->name, words);
		fail_run(c, "KernelDied", text);
	}
}

static bool is_full(void *user)
{
	const struct code_context *c = user;

	return c->running && c->events.req != NULL && c->events.full;
}

static const struct kernel_ops kernel_ops = {
	.ready = on_ready,
	.text = on_text,
	.frame = on_frame,
	.done = on_done,
	.ended = on_ended,
	.full = is_full,
};

static int start_kernel(struct code_context *c, struct err *e)
{
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct kernel *spare;
	int r;

	env_init(env);
	r = env_for_process(c->x, env, e);
	if (r < 0)
		return r;
	spare = kernel_spare_take(c->x, c->lang, env, c->cwd);
	if (spare == NULL)
		return kernel_start(c->x, c->lang, env, c->cwd, !c->unforked, &kernel_ops, c,
				    &c->kernel, e);
	kernel_adopt(spare, &kernel_ops, c);
	c->kernel = spare;
	return 0;
}

/* --- runs --- */

static void on_drained(struct events *ev)
{
	struct code_context *c = CONTAINER_OF(ev, struct code_context, events);

	if (c->kernel != NULL)
		kernel_resume(c->kernel);
}

/* Nobody is there to see what the cell does, or to end it: it is asked to stop, and not killed if
 * it does not, since its state may be worth more. */
static void on_left(struct events *ev)
{
	struct code_context *c = CONTAINER_OF(ev, struct code_context, events);

	c->interrupted = true;
	if (c->kernel == NULL)
		return;
	kernel_interrupt(c->kernel, 0);
	kernel_resume(c->kernel);
}

static void refuse_busy(struct code_context *c, struct http_req *r)
{
	struct events ev = { 0 };

	events_open(&ev, c->x, r, c->id);
	code_events_fail(&ev, "SessionBusy",
			 "session is busy: another cell is running in this context");
	events_close(&ev);
}

static void tell_loss(struct code_context *c)
{
	char text[sizeof(c->lost) + 128];

	if (c->lost[0] == '\0')
		return;
	(void)snprintf(text, sizeof(text),
		       "(the former %s kernel of this context ended: %s; this is a fresh one)\n",
		       c->lang->name, c->lost);
	events_text(&c->events, "stderr", span_str(text));
	(void)events_flush(&c->events);
	c->lost[0] = '\0';
}

void code_context_run(struct code_context *c, struct http_req *r, struct span code)
{
	struct err e = ERR_INIT;

	if (c->running) {
		refuse_busy(c, r);
		return;
	}
	c->unforked = false;
	if (c->kernel == NULL && start_kernel(c, &e) < 0) {
		api_errorf(r, 500, API_RUNTIME_ERROR, "error running codes. %s", e.msg);
		return;
	}
	c->code = malloc(code.len + 1);
	if (c->code == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "error running codes. out of memory");
		return;
	}
	memcpy(c->code, code.p, code.len);
	c->code_len = code.len;
	c->running = true;
	c->interrupted = c->counted = false;
	c->started_ms = clock_mono_ms();
	c->events.drained = on_drained;
	c->events.left = on_left;
	r->abort_on_eof = true;
	events_open(&c->events, c->x, r, c->id);
	tell_loss(c);
	if (c->kernel->state == KERNEL_IDLE)
		begin_run(c);
}

bool code_context_interrupt(struct execd *x, struct span id, struct http_req *r)
{
	struct code_context *c = code_context_find(x, id);
	struct waiting *w;

	if (c == NULL)
		return false;
	if (!c->running) { /* it has just come to its end, as was wanted */
		api_ok(r);
		return true;
	}
	w = arena_alloc(&r->arena, sizeof(*w));
	if (w == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return true;
	}
	w->req = r;
	list_push_back(&c->interrupts, &w->link);
	r->user = w;
	r->done = waiting_over;
	c->interrupted = true;
	if (c->kernel != NULL)
		kernel_interrupt(c->kernel, x->opt.interrupt_grace_ms);
	return true;
}

/* --- contexts --- */

struct code_context *code_context_find(struct execd *x, struct span id)
{
	return map_get(&x->code->by_id, id);
}

struct code_context *code_context_default(struct execd *x, const struct code_language *lang)
{
	list_for_each (it, &x->code->contexts) {
		struct code_context *c = LIST_ENTRY(it, struct code_context, link);

		if (c->is_default && c->lang == lang)
			return c;
	}
	return NULL;
}

void code_context_end(struct code_context *c)
{
	struct http_req *r = TAKE(c->asking);

	(void)map_remove(&c->x->code->by_id, span_str(c->id));
	list_remove(&c->link);
	if (r != NULL)
		r->user = NULL;
	if (r != NULL && !c->answered)
		api_error(r, 500, API_RUNTIME_ERROR,
			  "error creating code context. it was deleted meanwhile");
	if (c->running)
		fail_run(c, "ContextDeleted", "the context was deleted while the cell was running");
	if (c->kernel != NULL)
		kernel_drop(c->kernel);
	free(c->cwd);
	free(c);
}

int code_context_new(struct execd *x, const struct code_language *lang, const char *cwd,
		     bool is_default, struct code_context **ret, struct err *e)
{
	struct code_context *c;
	int r;

	if (x->code->by_id.count >= CODE_MAX_CONTEXTS)
		return err_set(e, EMFILE, "there are %d contexts already", CODE_MAX_CONTEXTS);
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_code(e, ENOMEM, "context");
	c->x = x;
	c->lang = lang;
	c->is_default = is_default;
	c->cwd = strdup(cwd);
	list_init(&c->link);
	list_init(&c->interrupts);
	rand_uuid(c->id);
	r = c->cwd == NULL ? err_code(e, ENOMEM, "context") : start_kernel(c, e);
	if (r == 0 && map_put(&x->code->by_id, span_str(c->id), c, NULL) < 0)
		r = err_code(e, ENOMEM, "context");
	if (r < 0) {
		if (c->kernel != NULL)
			kernel_drop(c->kernel);
		free(c->cwd);
		free(c);
		return r;
	}
	list_push_back(&x->code->contexts, &c->link);
	*ret = c;
	return 0;
}

/* The one who asked is gone before it knew the id: nobody will ever use it. */
static void asker_left(struct http_req *r)
{
	struct code_context *c = r->user;

	if (c == NULL)
		return;
	c->asking = NULL;
	if (r->aborted)
		code_context_end(c);
}

void code_context_answer(struct code_context *c, struct http_req *r)
{
	c->asking = r;
	r->user = c;
	r->done = asker_left;
	r->abort_on_eof = true;
	if (c->kernel->state == KERNEL_IDLE) /* it stood by */
		answer_asking(c);
}

void code_context_write(struct jw *w, const struct code_context *c)
{
	jw_object(w);
	jw_field_cstr(w, "id", c->id);
	jw_field_cstr(w, "language", c->lang->name);
	jw_field_cstr(w, "cwd", c->cwd);
	jw_end(w);
}

int code_contexts_setup(struct execd *x, struct err *e)
{
	struct code *all = calloc(1, sizeof(*all));

	if (all == NULL)
		return err_code(e, ENOMEM, "contexts");
	map_init(&all->by_id);
	list_init(&all->contexts);
	list_init(&all->jupyter);
	list_init(&all->spares);
	list_init(&all->scratches);
	x->code = all;
	return 0;
}
