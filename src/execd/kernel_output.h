/* What a kernel's process prints: two pipes, read as fast as the kernel's owner takes it and cut
 * between characters only.
 *
 * While a cell runs the text is passed on. What is printed otherwise is kept, the newest of it, and
 * goes to the next cell. */
#ifndef OSB_EXECD_KERNEL_OUTPUT_H
#define OSB_EXECD_KERNEL_OUTPUT_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"
#include "execd/execd.h"
#include "execd/ring.h"
#include "io/stream.h"

/* Kept of what is printed between cells. */
#define KERNEL_OUTPUT_BETWEEN KIB(64)

struct kernel_output;

struct kernel_output_ops {
	void (*text)(struct kernel_output *o, const char *type, struct span text);
	bool (*full)(struct kernel_output *o);   /* no more text now */
	void (*ready)(struct kernel_output *o);  /* there may be something to read */
	void (*closed)(struct kernel_output *o); /* once, after kernel_output_close() */
};

struct kernel_output {
	struct execd *x;
	const struct kernel_output_ops *ops;
	struct kernel_outlet {
		struct kernel_output *output;
		struct stream stream;
		const char *type;
		size_t left;  /* while draining: bytes still to be read */
		char tail[4]; /* the beginning of a character */
		unsigned char tail_len;
		bool open;
	} outlets[2];
	struct ring between;
	unsigned holds;
	bool live; /* a cell runs: text goes to the owner */
};

/* *ret_theirs are the process's ends, the caller's to close. In case of failure too, the memory
 * goes by kernel_output_close(). */
int kernel_output_open(struct execd *x, struct kernel_output *o,
		       const struct kernel_output_ops *ops, int ret_theirs[2], struct err *e);
/* `closed` is called when the memory may go, possibly from here. Call it once. */
void kernel_output_close(struct kernel_output *o);
/* Let `ready` be called, or not for now. */
void kernel_output_want(struct kernel_output *o, bool read);

/* Note what lies in the pipes now: it was printed before whatever comes next. */
void kernel_output_mark(struct kernel_output *o);
/* Pass on what was noted. False: the owner has to be waited for; then call it again. */
bool kernel_output_drain(struct kernel_output *o);

/* A cell begins: it gets what was kept. */
void kernel_output_begin(struct kernel_output *o);
/* The newest of what is kept, at most `size` - 1 bytes and a NUL. */
void kernel_output_last(const struct kernel_output *o, char *out, size_t size);

#endif
