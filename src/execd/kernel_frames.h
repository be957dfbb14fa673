/* Frames of the control socket between execd and a kernel (kernels/PROTOCOL.md): four bytes of
 * length, big endian, then that many bytes. Pure. */
#ifndef OSB_EXECD_KERNEL_FRAMES_H
#define OSB_EXECD_KERNEL_FRAMES_H

#include "base/buf.h"
#include "base/span.h"

#define KERNEL_FRAME_MAX  MIB(16)
#define KERNEL_FRAME_HEAD 4

struct kernel_frames {
	struct buf in;
};

void kernel_frames_init(struct kernel_frames *f);
void kernel_frames_free(struct kernel_frames *f);

/* Bytes as they came. 0, -ENOMEM, or -EMSGSIZE: more than a frame and what a read may bring beyond
 * it, which cannot be if every frame is taken before more is read. */
int kernel_frames_add(struct kernel_frames *f, struct span data);
/* 1: *ret is the body of the first frame, until kernel_frames_drop(). 0: it is not complete.
 * -EPROTO: it is empty or too long, or cannot be the object that every frame is. */
int kernel_frames_first(const struct kernel_frames *f, struct span *ret);
void kernel_frames_drop(struct kernel_frames *f);

/* Head and body, for sending. */
int kernel_frames_put(struct buf *out, struct span body);

#endif
