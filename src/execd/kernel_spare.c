#include "execd/kernel_spare.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "execd/code_context.h"
#include "execd/code_jupyter.h"
#include "execd/kernel_template.h"

/* A language that was asked for, and its kernel. */
struct spare {
	struct list link; /* in struct code */
	struct execd *x;
	const struct code_language *lang;
	struct kernel *kernel; /* NULL: it has ended, or could not be started */
	struct env env;        /* it was started with */
	char *cwd;
};

/* --- nobody's kernel --- */

static void on_ready(void *user)
{
	(void)user;
}

static void on_ended(void *user, const char *words)
{
	struct spare *s = user;

	s->kernel = NULL; /* the next context is told, if it cannot be helped */
	log_debug("spare kernel ended", { "language", s->lang->name }, { "how", words });
}

static bool is_full(void *user)
{
	(void)user;
	return false;
}

/* No cell runs in it, so there is no more to hear of it. */
static const struct kernel_ops nobody = {
	.ready = on_ready,
	.ended = on_ended,
	.full = is_full,
};

static void start(struct spare *s, const struct env *env)
{
	AUTO(env_free) struct env *own = &(struct env){ 0 };
	struct err e = ERR_INIT;

	env_free(&s->env);
	env_init(&s->env);
	env_init(own);
	/* kernel_start() adds to its copy */
	if (env_add(&s->env, env->vars) < 0 || env_add(own, env->vars) < 0 ||
	    kernel_start(s->x, s->lang, own, s->cwd, true, &nobody, s, &s->kernel, &e) < 0)
		log_warn("no spare kernel", { "language", s->lang->name }, { "error", e.msg });
}

/* --- which languages --- */

static void add(struct execd *x, const struct code_language *lang, const struct env *env)
{
	struct spare *s = calloc(1, sizeof(*s));

	if (s == NULL || env_expand_path(x, span_of("", 0), &s->cwd, NULL) < 0) {
		free(s);
		return;
	}
	s->x = x;
	s->lang = lang;
	list_push_back(&x->code->spares, &s->link);
	start(s, env);
}

static struct spare *find(struct execd *x, const struct code_language *lang)
{
	list_for_each (it, &x->code->spares) {
		struct spare *s = LIST_ENTRY(it, struct spare, link);

		if (s->lang == lang)
			return s;
	}
	return NULL;
}

void kernel_spare_setup(struct execd *x)
{
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	const char *sandbox;
	struct span rest;

	env_init(env);
	if (env_for_process(x, env, NULL) < 0)
		return;
	sandbox = env_get(env, SPAN_LIT("EXECD_WARM")); /* its own, perhaps */
	rest = span_str(sandbox != NULL ? sandbox : x->opt.warm);
	while (rest.p != NULL) {
		struct span name = span_trim(span_cut(&rest, ','));
		const struct code_language *lang = code_jupyter_or_ours(x, name);

		if (name.len == 0 || span_is(name, "none"))
			continue;
		if (lang == NULL)
			log_warn("no kernel to warm: unknown language",
				 { "languages", sandbox != NULL ? sandbox : x->opt.warm });
		else if (lang->from_python)
			kernel_template_warm(x, env);
		else if (find(x, lang) == NULL)
			add(x, lang, env);
	}
}

struct kernel *kernel_spare_take(struct execd *x, const struct code_language *lang,
				 const struct env *env, const char *cwd)
{
	struct spare *s = find(x, lang);
	struct kernel *k;

	if (s == NULL || strcmp(s->cwd, cwd) != 0)
		return NULL;
	k = TAKE(s->kernel);
	if (k != NULL && (k->state > KERNEL_IDLE || !env_same(&s->env, env))) {
		kernel_drop(k);
		k = NULL;
	}
	if (k != NULL)
		kernel_adopt(k, NULL, NULL);
	start(s, env);
	return k;
}
