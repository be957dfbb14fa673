/* The output of a program cut into lines, as the event stream carries it: LF and CR end a line,
 * CRLF counts once even when it arrives in two pieces, the end itself is left out, and an empty
 * line is "\n" (so that no event is without text).
 *
 *	while ((r = lines_next(&l, &piece, &text)) > 0)
 *		... text ...
 *
 * A line that lies whole in a piece is a span of it, without a copy. Only the last, unfinished
 * line is kept, up to a bound: a line longer than that comes in several parts, cut between
 * characters. */
#ifndef OSB_CODEC_LINES_H
#define OSB_CODEC_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/span.h"

#define LINES_DEFAULT_MAX KIB(256)

struct lines {
	struct buf tail; /* the unfinished line, and in front of it what was just handed out */
	size_t used;     /* bytes of the latter */
	bool skip_lf;    /* the last line ended in CR: an LF belongs to it */
	bool cut;        /* the text last handed out is not the end of its line */
};

void lines_init(struct lines *l, size_t max_len); /* at least 4 is taken: the longest character */
void lines_free(struct lines *l);

/* > 0: *ret_text is the next line or part of one, valid until the next call; *in is what is left.
 * 0: *in is used up. -ENOMEM. How the bytes were cut into pieces makes no difference. */
int lines_next(struct lines *l, struct span *in, struct span *ret_text);

/* The program ended: true if it left an unfinished line, which is *ret_text (valid until the next
 * call). The splitter can be used again. */
bool lines_finish(struct lines *l, struct span *ret_text);

/* Position of the first LF or CR, or s.len. */
size_t lines_find_end(struct span s);

#endif
