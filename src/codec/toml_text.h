/* The letters of a TOML text: blanks, comments, strings, keys, and the place of an error.
 *
 * Every function starts at t->p and leaves it behind what it read; on error it returns a negative
 * number and the words, with line and column, are in t->e. */
#ifndef OSB_CODEC_TOML_TEXT_H
#define OSB_CODEC_TOML_TEXT_H

#include "base/buf.h"
#include "codec/toml.h"

struct toml_text {
	struct arena *arena;
	const char *p, *end;
	const char *line_start;
	unsigned line;
	struct buf scratch; /* a string while it is read */
	struct err *e;
};

struct toml_key {
	unsigned n;
	struct span parts[TOML_MAX_DEPTH];
	const char *start;
};

/* Refuses what is too long, not UTF-8 or has a NUL in it. */
int toml_text_open(struct toml_text *t, struct arena *arena, struct span text, struct err *e);
void toml_text_close(struct toml_text *t);

int toml_text_fail_at(struct toml_text *t, const char *at, const char *fmt, ...) PRINTF(3, 4);
int toml_text_fail(struct toml_text *t, const char *words);
int toml_text_no_memory(struct toml_text *t);

bool toml_text_at_end(const struct toml_text *t);
/* The byte at t->p, or NUL at the end; NUL itself is refused at once. */
char toml_text_peek(const struct toml_text *t);
bool toml_text_take(struct toml_text *t, char c);
/* How long the line end is that stands here; 0 if none does. */
size_t toml_text_newline_len(const struct toml_text *t);
bool toml_text_take_newline(struct toml_text *t);
void toml_text_skip_blanks(struct toml_text *t);
/* Blanks, comments and line ends, as they may stand within an array. */
int toml_text_skip_space(struct toml_text *t);
/* Nothing but a comment may follow on this line. */
int toml_text_end_line(struct toml_text *t);

/* "basic" or 'literal', or over several lines in three quotes. */
int toml_text_string(struct toml_text *t, bool may_be_multiline, struct span *ret);
/* Of the kind that keys without quotes are made of. */
bool toml_text_is_bare(char c);
/* a.b."c d", with the blanks around it. */
int toml_text_key(struct toml_text *t, struct toml_key *ret);

#endif
