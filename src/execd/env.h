/* Environments: of processes to be started, and of paths with $NAME in them. */
#ifndef OSB_EXECD_ENV_H
#define OSB_EXECD_ENV_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/map.h"
#include "base/span.h"
#include "base/util.h"

struct execd;

/* A list of "NAME=value" in which a later value replaces an earlier one. */
struct env {
	char **vars; /* NULL-terminated; the array and the strings are the list's */
	size_t n, cap;
	size_t bytes; /* of all strings */
	struct map index;
};

#define ENV_MAX_BYTES MIB(2) /* more than execve(2) takes is of no use */

void env_init(struct env *v);
void env_free(struct env *v);
AUTO_DEFINE(env_free, struct env)

/* 0, -EINVAL (a name that is empty or has '=' or NUL; a value with NUL), -E2BIG, -ENOMEM. */
int env_set(struct env *v, struct span name, struct span value);
int env_add(struct env *v, char *const *vars); /* "NAME=value" strings, as environ(7) has them */
void env_unset(struct env *v, struct span name);
const char *env_get(const struct env *v, struct span name);
bool env_same(const struct env *a, const struct env *b); /* in whatever order */

bool env_is_name(struct span s); /* as a shell would take it: letters, digits, underscores */

/* What a process started now gets: execd's own, then the EXECD_ENVS file, read anew. */
int env_for_process(const struct execd *x, struct env *v, struct err *e);
/* "KEY=VALUE" lines of an EXECD_ENVS file over `v`: $NAME of values is looked up in `base`. */
int env_add_file(struct env *v, struct span text, char *const *base);

/* $NAME, ${NAME} and a leading ~ replaced, looked up in `v`. *ret is malloc'd. -EINVAL: a name is
 * not set, the words say which; or HOME is not. */
int env_expand(const struct env *v, struct span text, char **ret, struct err *e);

/* A path a client sent, as a clean absolute one: the path as it stands if something has that very
 * name (so that "$" in names works), otherwise expanded against execd's own environment. Relative
 * paths start at execd's directory. "" is that directory. *ret is malloc'd. */
int env_expand_path(const struct execd *x, struct span path, char **ret, struct err *e);
/* The same against a given environment (the working directory of a command). */
int env_expand_path_in(const struct env *v, struct span path, char **ret, struct err *e);

#endif
