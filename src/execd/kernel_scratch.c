#include "execd/kernel_scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "execd/code_context.h"
#include "execd/rmtree.h"
#include "io/job.h"

struct kernel_scratch {
	struct execd *x;
	struct list link; /* in struct code */
	struct job job;
	char *path;
};

static void release(struct kernel_scratch *s)
{
	list_remove(&s->link);
	free(s->path);
	free(s);
}

int kernel_scratch_make(struct execd *x, const char *language, struct env *env,
			struct kernel_scratch **ret, struct err *e)
{
	const char *tmp = env_get(env, SPAN_LIT("TMPDIR"));
	struct kernel_scratch *s = calloc(1, sizeof(*s));
	int r = 0;

	if (s == NULL)
		return err_code(e, ENOMEM, "directory of the kernel");
	s->x = x;
	list_push_back(&x->code->scratches, &s->link);
	if (asprintf(&s->path, "%s/osb-%s-XXXXXX", tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
		     language) < 0) {
		s->path = NULL;
		r = err_code(e, ENOMEM, "directory of the kernel");
	} else if (mkdtemp(s->path) == NULL) {
		r = err_sys(e, "directory of the kernel, '%s'", s->path);
	} else if (env_set(env, SPAN_LIT("OSB_KERNEL_DIR"), span_str(s->path)) < 0) {
		(void)rmtree(s->path, NULL);
		r = err_code(e, ENOMEM, "environment");
	}
	if (r < 0) {
		release(s);
		return r;
	}
	*ret = s;
	return 0;
}

static void work(struct job *j)
{
	(void)rmtree(CONTAINER_OF(j, struct kernel_scratch, job)->path, NULL);
}

static void done(struct job *j)
{
	release(CONTAINER_OF(j, struct kernel_scratch, job));
}

void kernel_scratch_remove(struct kernel_scratch *s)
{
	struct err e = ERR_INIT;

	if (s == NULL || job_start(&s->x->loop, &s->job, work, done, &e) == 0)
		return;
	log_warn("directory of a kernel is left", { "path", s->path }, { "error", e.msg });
	release(s);
}

void kernel_scratch_teardown(struct execd *x)
{
	list_for_each (it, &x->code->scratches)
		(void)rmtree(LIST_ENTRY(it, struct kernel_scratch, link)->path, NULL);
}
