/* Private to glob: a pattern as the sequence of nodes that it is read into, and what of its
 * spelling is still needed to match. The language is in glob.h. */
#ifndef OSB_CODEC_GLOB_READ_H
#define OSB_CODEC_GLOB_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

enum glob_op {
	GLOB_LITERAL, /* text */
	GLOB_ANY,     /* ? */
	GLOB_ONE_OF,  /* [text] */
	GLOB_STAR,    /* * */
	GLOB_FAR,     /* ** */
	GLOB_DIRS,    /* ** and a slash */
	GLOB_EITHER,  /* {} */
	GLOB_NONE_OF, /* !() */
};

struct glob_node {
	enum glob_op op;
	struct span text;
	struct glob_seq *branches;
	struct glob_node *next;
};

struct glob_seq {
	struct glob_node *first, **end;
	struct glob_seq *next; /* branch */
};

/* All of it. The nodes point into the pattern, and live in the arena as well. */
int glob_read(struct arena *arena, struct span pattern, struct glob_seq **ret, struct err *e);

/* The character at the front and its length. What is not UTF-8 equals itself alone. */
size_t glob_next_char(struct span s, uint32_t *ret_cp);
/* Of the text between brackets: a member or a range of them at the front; its bytes, or 0. */
size_t glob_class_range(struct span s, uint32_t *ret_from, uint32_t *ret_to);
bool glob_class_is_negated(struct span s);

#endif
