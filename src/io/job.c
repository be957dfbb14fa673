#include "io/job.h"

static void on_work(uv_work_t *w)
{
	struct job *j = CONTAINER_OF(w, struct job, uv);

	j->work(j);
}

static void on_done(uv_work_t *w, int status)
{
	struct job *j = CONTAINER_OF(w, struct job, uv);

	j->cancelled = status == UV_ECANCELED;
	j->done(j);
}

int job_start(struct io_loop *l, struct job *j, void (*work)(struct job *j),
	      void (*done)(struct job *j), struct err *e)
{
	int r;

	j->work = work;
	j->done = done;
	j->cancelled = false;
	r = uv_queue_work(&l->uv, &j->uv, on_work, on_done);
	return r < 0 ? err_code(e, r, "start a job") : 0;
}

void job_cancel(struct job *j)
{
	(void)uv_cancel((uv_req_t *)&j->uv);
}
