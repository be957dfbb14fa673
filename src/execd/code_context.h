/* Contexts of the code interpreter: each has a language, a directory and a kernel, which is started
 * when it is needed and again if it has ended. One cell runs at a time.
 *
 * The stream of a run: `init` with the context's id, output and results as they come,
 * `execution_count`, an `error` if the cell failed, `execution_complete`. A kernel that ends with
 * its cell ends the stream with an `error`; so does whatever else prevents the cell from coming to
 * its end. If the client leaves, the cell is interrupted; the state stays. */
#ifndef OSB_EXECD_CODE_CONTEXT_H
#define OSB_EXECD_CODE_CONTEXT_H

#include "base/map.h"
#include "base/rand.h"
#include "execd/code_language.h"
#include "execd/events.h"
#include "execd/kernel.h"

#define CODE_MAX_CONTEXTS 512

struct kernel_template;

struct code {
	struct map by_id;
	struct list contexts;  /* oldest first */
	struct list jupyter;   /* languages that the image brings kernels for */
	struct list spares;    /* kernels that stand by, see kernel_spare.h */
	struct list scratches; /* directories of kernels */
	struct kernel_template *template;
};

struct code_context {
	struct execd *x;
	char id[RAND_UUID_SIZE];
	const struct code_language *lang;
	char *cwd;
	struct list link;
	struct kernel *kernel;   /* NULL: none runs */
	struct http_req *asking; /* who wants to know when the kernel is ready */
	bool answered;           /* and has been told, but its exchange goes on */
	struct events events;
	char *code; /* of a run that waits for the kernel */
	size_t code_len;
	uint64_t started_ms;
	struct list interrupts; /* requests that wait for the end of the run */
	char lost[288];         /* why the former kernel ended, until it was told */
	bool is_default;
	bool running;
	bool interrupted;
	bool counted;  /* execution_count was told */
	bool unforked; /* the next kernel is to be a fresh process */
};

int code_contexts_setup(struct execd *x, struct err *e);

struct code_context *code_context_find(struct execd *x, struct span id);
/* The one that runs of this language without a context go to; NULL: there is none yet. */
struct code_context *code_context_default(struct execd *x, const struct code_language *lang);

/* With a kernel under way. `cwd` is clean and absolute. -ENOENT: the image lacks something. */
int code_context_new(struct execd *x, const struct code_language *lang, const char *cwd,
		     bool is_default, struct code_context **ret, struct err *e);
/* Answer this request when the kernel is ready, or cannot be. */
void code_context_answer(struct code_context *c, struct http_req *r);
/* Run a cell; the answer is the event stream, or a 500 if no kernel can be started. */
void code_context_run(struct code_context *c, struct http_req *r, struct span code);
/* End it with all that runs in it. */
void code_context_end(struct code_context *c);

/* For DELETE /code?id=: false if there is no such context; otherwise answered, now or when the run
 * has ended. */
bool code_context_interrupt(struct execd *x, struct span id, struct http_req *r);

void code_context_write(struct jw *w, const struct code_context *c);

#endif
