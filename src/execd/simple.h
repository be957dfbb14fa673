/* Command lines that need no shell.
 *
 * A shell that is given "git status" ends up replacing itself by git with two words; its start-up
 * is then pure loss, and most of what such a call costs. Lines that hold nothing but plain words,
 * the first of them a program on the PATH and no word of the shell's own, are taken apart here
 * instead. Whatever leaves a doubt goes to the shell. */
#ifndef OSB_EXECD_SIMPLE_H
#define OSB_EXECD_SIMPLE_H

#include <stdbool.h>
#include <stddef.h>

#include "execd/env.h"

#define SIMPLE_MAX_WORDS 64
#define SIMPLE_MAX_LEN   4096

struct simple {
	char text[SIMPLE_MAX_LEN]; /* where the words lie */
	char *argv[SIMPLE_MAX_WORDS + 1];
	unsigned n;
	char *path; /* of the program, malloc'd */
};

/* Only the text: are these plain words that mean to a shell what they say? */
bool simple_split(const char *text, struct simple *ret);

/* Can this be run without the shell, in this environment and directory (NULL: execd's)? Then `env`
 * also has what a shell would have set. The caller frees ret->path. */
bool simple_prepare(const char *text, const char *cwd, struct env *env, struct simple *ret);

#endif
