/* A kernel: one process that runs cells of one language, one after the other, and keeps their state
 * (kernels/PROTOCOL.md is what is spoken with it).
 *
 *	STARTING -> IDLE <-> BUSY
 *	    \--------\---------\--> ENDING -> ENDED
 *
 * Its output comes by two pipes, everything else by the control socket. A frame is acted on when
 * the bytes that lay in the pipes at its arrival have been passed on, so that the order is the
 * cell's. What is printed while no cell runs is kept, the newest of it, and goes to the next one.
 *
 * The process is not trusted: a cell can write to every descriptor the driver has. What is no
 * frame, or one out of turn, ends the kernel. However it ends, the owner is told once, with the
 * words for it; then all that descended from it is ended as well, and the memory goes by itself. */
#ifndef OSB_EXECD_KERNEL_H
#define OSB_EXECD_KERNEL_H

#include "codec/json.h"
#include "execd/code_language.h"
#include "execd/kernel_control.h"
#include "execd/kernel_output.h"
#include "execd/proc.h"

/* To the owner, who is `user`. After `ended` it must not touch the kernel. Who never runs a cell
 * needs neither `text` nor `frame` nor `done`. */
struct kernel_ops {
	void (*ready)(void *user);
	/* Output while a cell runs; whole characters as far as that is possible. */
	void (*text)(void *user, const char *type, struct span text);
	/* "display", "result" or "error" of the cell. */
	void (*frame)(void *user, const char *op, const json_t *frame);
	void (*done)(void *user, int64_t count);
	void (*ended)(void *user, const char *words);
	/* The owner cannot take more now; it calls kernel_resume() when it can. */
	bool (*full)(void *user);
};

struct kernel {
	struct execd *x;
	const struct code_language *lang;
	const struct kernel_ops *ops; /* NULL: nobody is interested any more */
	void *user;
	struct proc proc;
	struct kernel_control control;
	struct kernel_output output;
	struct io_timer timer;          /* of the start, of an interrupt, of the end */
	struct kernel_scratch *scratch; /* or NULL */
	enum kernel_state {
		KERNEL_STARTING,
		KERNEL_IDLE,
		KERNEL_BUSY,
		KERNEL_ENDING,
		KERNEL_ENDED
	} state;
	uint64_t grace_ms;  /* of the interrupt */
	uint64_t oom_kills; /* before the cell */
	int wait_status;
	bool asked_again;   /* to stop its cell */
	bool from_template; /* forked, not started */
	bool frame_waits;   /* for the output before it */
	bool was_ready, exited, last_words, stepping;
	unsigned holds;
	char why[192]; /* we ended it, for this */
};

/* `env` is what env_for_process() gave; `cwd` is clean and absolute. With `template` false the
 * kernel is a fresh process in any case. -ENOENT: the image lacks something, the words say what. */
int kernel_start(struct execd *x, const struct code_language *lang, struct env *env,
		 const char *cwd, bool template, const struct kernel_ops *ops, void *user,
		 struct kernel **ret, struct err *e);

/* Another owner from now on. If it is ready already, `ready` is not called again. */
void kernel_adopt(struct kernel *k, const struct kernel_ops *ops, void *user);

/* An idle kernel gets a cell. -EMSGSIZE: it is too long; -EINVAL: it cannot be passed on. */
int kernel_run(struct kernel *k, struct span code);
/* Ask a busy kernel to stop its cell. If it has not after `grace_ms` (0: never), it is ended. */
void kernel_interrupt(struct kernel *k, uint64_t grace_ms);
/* The owner can take more. */
void kernel_resume(struct kernel *k);
/* End it and forget it: no callback is called any more. */
void kernel_drop(struct kernel *k);

#endif
