/* One connection's bytes, both ways: what server, client, tunnel and WebSocket have in common.
 *
 * Reading: bytes arrive in the loop's shared buffer and are offered to ops->bytes, which says how
 * many it took. Only what it left behind is copied to `in` and offered again, in front of what
 * comes next; an idle wire owns no memory. Reading stops while the wire is paused.
 *
 * Writing: wire_write() collects in `out`; one system call at the end of the loop's turn sends it
 * all. Large pieces go straight from the caller's memory, only the part that the socket did not
 * take is copied. Beyond the soft limit the caller is told to stop (WIRE_FULL) and called back
 * (`drained`); beyond the hard limit the peer is too slow for a caller that would not stop, and the
 * wire breaks.
 *
 * No call here calls back at once; all callbacks come from the loop. They may call anything here,
 * wire_close() included. After `broken` or wire_close() there are
 * no more callbacks but `closed`, which is where the owner frees. */
#ifndef OSB_HTTP_WIRE_H
#define OSB_HTTP_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "io/stream.h"

struct wire;

struct wire_ops {
	/* Take a prefix of data[0..len) (which may be changed in place); returns its length.
	 * Leaving bytes behind means "not enough yet": more are read unless wire_pause() was
	 * called. */
	size_t (*bytes)(struct wire *w, char *data, size_t len);
	void (*eof)(
		struct wire *w); /* the peer will send no more; bytes left behind stay in `in` */
	void (*drained)(
		struct wire *w); /* below the soft limit again after WIRE_FULL; may be NULL */
	void (*flushed)(struct wire *w);  /* nothing is left to send; may be NULL */
	void (*progress)(struct wire *w); /* some bytes moved (for stall timers); may be NULL */
	void (*broken)(struct wire *w, int error); /* positive errno */
	void (*closed)(struct wire *w);
};

struct wire {
	struct stream stream;
	const struct wire_ops *ops;
	void *user;
	void (*free)(
		struct wire *w); /* `closed` of the one who opened it, whoever took over since */
	struct buf in;
	struct buf out;
	size_t out_sent; /* bytes at the front of `out` that have gone */
	struct io_defer turn;
	uint64_t file_left; /* of a file being sent behind `out` */
	off_t file_offset;
	size_t soft_limit;
	int file_fd;
	int error; /* positive errno to be told in `broken` at the end of the turn */
	bool paused;
	bool eof;        /* the peer has half-closed */
	bool full;       /* the writer was told to stop */
	bool blocked;    /* the socket takes no more for now */
	bool unflushed;  /* `flushed` is owed */
	bool offer;      /* `in` is to be offered at the end of the turn */
	bool read_again; /* TLS holds bytes that the poll handle cannot see */
	bool half_close; /* once everything has gone */
	bool dead;       /* no more callbacks but `closed` */
};

#define WIRE_FULL 1

/* Takes fd over in any case. `max_in`: most bytes ops->bytes may leave behind. */
int wire_open(struct io_loop *l, struct wire *w, int fd, const struct wire_ops *ops, size_t max_in,
	      size_t soft_limit, size_t hard_limit, struct err *e);

/* 0, WIRE_FULL (taken, but stop now), or -EPIPE when the wire is dead. */
int wire_write(struct wire *w, const void *p, size_t len);
int wire_writev(struct wire *w, const struct iovec *iov, int n_iov);
/* The same, and the hard limit does not count: for what was made as a whole, under a limit of its
 * maker's, and could not have stopped anywhere. */
int wire_write_whole(struct wire *w, const struct iovec *iov, int n_iov);
/* Send a file's range behind what is written; takes the descriptor over. `flushed` tells the end; a
 * file that is shorter than promised breaks the wire. Nothing may be written until then. */
void wire_send_file(struct wire *w, int fd, off_t offset, uint64_t len);
size_t wire_pending(
	const struct wire *w); /* bytes not yet taken by the kernel, the file excepted */
/* Send what is collected now instead of at the end of the turn. */
void wire_flush(struct wire *w);

void wire_pause(struct wire *w); /* no `bytes` and no `eof` */
/* Offers what is in `in` (even if that is nothing) at the end of the turn, then reads on. */
void wire_resume(struct wire *w);
/* No more writes: half-closes once everything written has gone; `flushed` tells. */
void wire_shutdown(struct wire *w);
/* As if the peer had cut it: `broken` follows at the end of the turn. */
void wire_break(struct wire *w, int error);
void wire_close(struct wire *w);

/* Exchange the owner of the callbacks (an upgrade). Bytes left in `in` are offered to the new one
 * at the end of the turn. */
void wire_take_over(struct wire *w, const struct wire_ops *ops, void *user);

#endif
