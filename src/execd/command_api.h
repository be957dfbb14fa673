/* The routes of commands: see api.h for the handlers. */
#ifndef OSB_EXECD_COMMAND_API_H
#define OSB_EXECD_COMMAND_API_H

#include "execd/command.h"

/* No process of it is left: answers those who wait for that. */
void command_api_dead(struct command *c);

/* A directory that a client named, looked up in the environment its process will have. *ret is
 * malloc'd, or NULL for an empty or absent one. False: answered (400). */
bool command_api_cwd(struct http_req *r, const struct env *env, const char *cwd, char **ret);

#endif
