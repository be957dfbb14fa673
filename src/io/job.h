/* Work that would block the loop (file systems, SQLite), on libuv's thread pool. */
#ifndef OSB_IO_JOB_H
#define OSB_IO_JOB_H

#include "io/loop.h"

struct job {
	uv_work_t uv;
	void (*work)(struct job *j); /* on another thread: touch nothing but the job */
	void (*done)(struct job *j); /* on the loop, exactly once, also after job_cancel */
	bool cancelled;              /* the work was not started */
};

int job_start(struct io_loop *l, struct job *j, void (*work)(struct job *j),
	      void (*done)(struct job *j), struct err *e);
/* Best effort: work that has begun goes on. `done` is called in any case. */
void job_cancel(struct job *j);

#endif
