/* Some lines out of a text, by number. Pure, a piece at a time.
 *
 * What comes out are the lines joined by LF, without the CRs at their ends and without an LF behind
 * the last. */
#ifndef OSB_EXECD_LINECUT_H
#define OSB_EXECD_LINECUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

struct linecut {
	uint64_t skip; /* lines still to pass over */
	uint64_t left; /* lines still to give out */
	size_t crs;    /* seen last: part of the line unless it ends here */
	bool begun;    /* the current line has begun */
	bool joined;   /* a line went out before it */
};

/* From line `first` (1 is the first) on, `count` of them (UINT64_MAX: all). */
void linecut_init(struct linecut *c, uint64_t first, uint64_t count);
/* Appends to `out` what of `text` is wanted: at most as much as it is long, and 64 KiB. True: that
 * was all, the rest of the text does not matter. */
bool linecut_feed(struct linecut *c, struct span text, struct buf *out);

#endif
