/* Configuration files in TOML 1.0 without dates and times: text in, a tree in an arena out.
 *
 *	r = toml_parse(&arena, text, &root, &e);
 *	r = toml_get_i64(root, "server.port", 1, 65535, &port, &e);
 *	...
 *	for (n = NULL; (n = toml_next_unused(root, n)) != NULL;)
 *		... warn: nobody asked for toml_path(n) in line n->line
 *
 * Errors name line and column. Size, depth and number of values are bounded. */
#ifndef OSB_CODEC_TOML_H
#define OSB_CODEC_TOML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#define TOML_MAX_BYTES MIB(1)
#define TOML_MAX_NODES 16384
#define TOML_MAX_DEPTH 16 /* arrays and inline tables within each other; parts of a dotted key */

enum toml_type { TOML_STRING, TOML_INTEGER, TOML_FLOAT, TOML_BOOLEAN, TOML_ARRAY, TOML_TABLE };

/* How a table came to be decides who may still add to it. */
enum toml_origin {
	TOML_CLOSED,   /* { ... } or [ ... ]: nobody */
	TOML_IMPLICIT, /* on the way to another: one [header] of its own */
	TOML_HEADER,   /* had its [header], or is an element of [[...]] */
	TOML_DOTTED,   /* by a dotted key: more of these in the same section */
	TOML_LIST,     /* the array of [[...]]: more elements */
};

struct toml_node {
	enum toml_type type;
	enum toml_origin origin;
	unsigned line, column;
	bool used;       /* somebody asked for it, or for something in it */
	struct span key; /* in a table; p == NULL in an array. NUL-terminated */
	struct toml_node *parent, *next;
	struct toml_node *first, *last; /* of a table or array, in the order of the file */
	size_t count;
	const struct toml_node *section; /* where a dotted key made this table */
	union {
		struct span string; /* NUL-terminated, without NUL inside */
		int64_t integer;
		double real;
		bool boolean;
	};
};

/* *ret lives in the arena. -EINVAL: "line 3, column 7: ..."; -EMSGSIZE; -ENOMEM. */
int toml_parse(struct arena *arena, struct span text, struct toml_node **ret, struct err *e);

/* Values by path ("server.port") from a table. 1: there, *ret is set. 0: absent, *ret stays as it
 * was. -EINVAL: of another type or out of range; the words name key and line. What was asked for is
 * marked as used. Strings are NUL-terminated and live in the arena. */
int toml_get_str(struct toml_node *t, const char *path, const char **ret, struct err *e);
int toml_get_i64(struct toml_node *t, const char *path, int64_t min, int64_t max, int64_t *ret,
		 struct err *e);
int toml_get_f64(struct toml_node *t, const char *path, double *ret, struct err *e); /* finite */
int toml_get_bool(struct toml_node *t, const char *path, bool *ret, struct err *e);
int toml_get_array(struct toml_node *t, const char *path, struct toml_node **ret, struct err *e);
int toml_get_table(struct toml_node *t, const char *path, struct toml_node **ret, struct err *e);

/* Whatever its type, or NULL. */
struct toml_node *toml_get(struct toml_node *t, const char *path);

/* One key of one table, dots in it mean nothing, and it is not marked; or NULL. */
struct toml_node *toml_child(const struct toml_node *t, struct span key);

#define toml_for_each(it, node) \
	for (struct toml_node *it = (node)->first; it != NULL; it = it->next)

/* For elements of arrays and of tables with free keys: 0, or -EINVAL with words. Marks it used. */
int toml_need(struct toml_node *n, enum toml_type type, struct err *e);

/* Tables whose keys are the user's own: everything in it counts as used. */
void toml_use_all(struct toml_node *n);

/* The keys nobody asked for, in the order of the file; start with NULL. A table that was never
 * touched is told once, without its contents. */
struct toml_node *toml_next_unused(struct toml_node *root, struct toml_node *after);

/* "storage.volumes[2].name", cut to fit; out is NUL-terminated. */
void toml_path(const struct toml_node *n, char *out, size_t size);

const char *toml_type_name(enum toml_type type); /* "a string" */

#endif
