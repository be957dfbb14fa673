/* execd's end of a control socket: frames from a kernel or a template, and to it
 * (kernels/PROTOCOL.md). What is sent and not taken yet is kept; there is a bound to it. */
#ifndef OSB_EXECD_KERNEL_CONTROL_H
#define OSB_EXECD_KERNEL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "execd/execd.h"
#include "execd/kernel_frames.h"
#include "io/stream.h"

struct kernel_control {
	struct execd *x;
	struct stream stream;
	struct kernel_frames in;
	struct buf out;
	void (*ready)(struct kernel_control *c);  /* there may be something to read */
	void (*closed)(struct kernel_control *c); /* once, after kernel_control_close() */
	bool open;
};

/* The callbacks are set by the caller. *ret_theirs is the process's end, the caller's to close.
 * Nothing is open after a failure. */
int kernel_control_open(struct execd *x, struct kernel_control *c, int *ret_theirs, struct err *e);
/* `closed` is called later, when the memory may go. Nothing happens if it is closed already. What
 * was read can still be taken. */
void kernel_control_close(struct kernel_control *c);
void kernel_control_free(struct kernel_control *c);
/* Let `ready` be called, or not for now. What has to be written is written in any case. */
void kernel_control_want(struct kernel_control *c, bool read);

/* {"op":op}, and "code" unless that is NULL, "n" unless that is 0. -EMSGSIZE: it is too long. */
int kernel_control_send(struct kernel_control *c, const char *op, struct span code, int64_t n);
/* For drivers that cannot read frames: the text, and a NUL as its end. -EINVAL: it contains one;
 * -EMSGSIZE. */
int kernel_control_send_text(struct kernel_control *c, struct span text);

/* 1: something came. 0: nothing did. -EPIPE: the other end is closed, and so is ours now; -EMSGSIZE
 * or -ENOMEM: as well, for what was sent. */
int kernel_control_read(struct kernel_control *c);

#endif
