/* What a sandbox is started with, handed over as a sealed memory file (--spec-fd): so that neither
 * the command line nor the environment of PID 1 shows the token, and the privileged runner need
 * not read a word of it. An object, all members optional:
 *
 * "accessToken": "..", "entrypoint": ["tail", "-f", "/dev/null"], "env": {"A": "1"}, "cwd": "/" */
#ifndef OSB_EXECD_SPEC_H
#define OSB_EXECD_SPEC_H

#include "base/err.h"
#include "execd/execd.h"

/* Reads and closes the descriptor. Sets token and entrypoint, changes the working directory, and
 * makes the environment from "env" over a few defaults (PATH, HOME ...). */
int spec_load(int fd, struct execd_options *opt, struct err *e);

#endif
