/* The command line and the environment of execd. */
#ifndef OSB_EXECD_OPTIONS_H
#define OSB_EXECD_OPTIONS_H

#include "base/err.h"
#include "base/log.h"
#include "execd/execd.h"

/* What options_parse() may ask for instead of running. */
enum options_verdict { OPTIONS_RUN, OPTIONS_EXIT_OK, OPTIONS_EXIT_USAGE };

/* Flags beat the environment. Secrets are copied and then wiped from argv and environ, where other
 * processes could read them. */
enum options_verdict options_parse(int argc, char **argv, char **env, struct execd_options *ret,
				   enum log_level *ret_level);

#endif
