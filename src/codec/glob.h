/* Patterns for file names and paths. Pure; the memory of a pattern is bounded, and so is the time
 * of a match: positions in the text are tracked as a set, there is no backtracking.
 *
 *	*        any characters but '/'
 *	?        one character but '/'
 *	**       any characters, '/' too; "**" + "/" at the start of a segment is any number of
 *	         directories, none included; "/" + "**" at the end may be nothing
 *	[a-z]    one of these, [!a-z] and [^a-z] one but these, never '/'
 *	{a,b}    either; nested and empty ones will do
 *	!(a|b)   anything within a segment that is none of these, the empty text too
 *	\x       x itself
 *
 * Characters are those of UTF-8; a byte that belongs to none counts as one. */
#ifndef OSB_CODEC_GLOB_H
#define OSB_CODEC_GLOB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#define GLOB_MAX_PATTERN 1024
#define GLOB_MAX_NESTING 16   /* of {} and !() */
#define GLOB_MAX_TEXT    4096 /* longer texts match nothing */

struct glob_seq;

struct glob {
	struct arena arena;
	const struct glob_seq *seq;
	bool has_slash; /* meant for paths, not for names */
	bool absolute;  /* begins with a slash */
};

/* -EINVAL: malformed; -E2BIG: longer, or nested more deeply, than is reasonable; -ENOMEM. */
int glob_init(struct glob *g, struct span pattern, struct err *e);
void glob_free(struct glob *g);

/* The whole text. Time is at most pattern times text; a !() multiplies that by the text once
 * more, and only so far: one that would take longer than a blink of an eye matches nothing. */
bool glob_match(const struct glob *g, struct span text);

#endif
