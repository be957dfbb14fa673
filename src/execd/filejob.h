/* A request whose work is done on another thread: everything that touches file systems, since any
 * of them may be slow, or hang.
 *
 * The handler makes a job on the loop, puts what the work needs into the job's own arena (the
 * request may go at any time) and starts it. The work runs elsewhere and touches nothing but the
 * job; it fills `out`, or says what went wrong. Back on the loop the answer is sent, unless
 * nobody waits for it any more. */
#ifndef OSB_EXECD_FILEJOB_H
#define OSB_EXECD_FILEJOB_H

#include "base/arena.h"
#include "base/buf.h"
#include "execd/api.h"
#include "execd/users.h"
#include "io/job.h"

struct filejob {
	struct job job;
	struct execd *x;
	struct http_req *req; /* NULL: the client has gone */
	struct arena arena;
	void *user;
	json_t *body; /* of the request, kept for strings that point into it */
	void (*work)(struct filejob *f);
	/* On the loop, after the work, instead of the plain answer. Goes out by filejob_end(),
	 * filejob_answer(), filejob_start() or filejob_wait(). `req` may be NULL. */
	void (*after)(struct filejob *f);
	void (*gone)(struct filejob *f);    /* the client went while the job waited */
	void (*release)(struct filejob *f); /* what `user` holds besides memory of the arena */
	struct buf out;                     /* the JSON to answer with; empty: 200 without a body */
	int status;                         /* 0: fine */
	const char *code;
	char why[512];
	bool waiting; /* for the client, by filejob_wait() */
};

/* NULL: out of memory, answered. Takes the request's user and done. */
struct filejob *filejob_new(struct http_req *r);
/* If something is wrong already (filejob_fail), that is answered instead. */
void filejob_start(struct filejob *f, void (*work)(struct filejob *f));
/* Until filejob_start() is called from elsewhere, or the client goes. */
void filejob_wait(struct filejob *f);
/* The request, to be answered by the caller: it and the job know each other no more. */
struct http_req *filejob_detach(struct filejob *f);
/* Without an answer of its own (that was given, or nobody waits). */
void filejob_end(struct filejob *f);
/* Answer what status, code and why say, or `out`; then end. */
void filejob_answer(struct filejob *f);
/* Answer at once, before any work: for what is wrong with the question. */
void filejob_refuse(struct filejob *f, int status, const char *code, const char *fmt, ...)
	PRINTF(4, 5);

/* What went wrong, in the question or in the work. The first word stands. */
void filejob_fail(struct filejob *f, int status, const char *code, const char *fmt, ...)
	PRINTF(4, 5);
/* 404 FILE_NOT_FOUND for ENOENT, otherwise 500 RUNTIME_ERROR. */
void filejob_fail_err(struct filejob *f, const struct err *e);
/* 400 INVALID_FILE for what is not a regular file, otherwise as filejob_fail_err(). */
void filejob_fail_file(struct filejob *f, const struct err *e);

/* On the loop: a path a client sent, absolute, in the job's arena. NULL after filejob_fail(). */
const char *filejob_path(struct filejob *f, struct span path);

/* All `path` parameters of the query. False after filejob_fail(). */
struct filejob_paths {
	unsigned n;
	struct filejob_item {
		const char *sent; /* as in the query, decoded */
		const char *path; /* absolute */
	} * items;
};
bool filejob_query_paths(struct filejob *f, struct filejob_paths *ret);

/* /etc/passwd and /etc/group, for the work; NULL after filejob_fail(). */
struct users *filejob_users(struct filejob *f);

#endif
