/* The command line, as a table that also makes --help. */
#ifndef OSB_SERVER_OPTIONS_H
#define OSB_SERVER_OPTIONS_H

#include "server/config.h"

enum options_result {
	OPTIONS_RUN,  /* serve, with *config filled in */
	OPTIONS_DONE, /* a command that is through; exit with 0 */
	OPTIONS_BAD,  /* exit with 1; said why on standard error */
};

/* Reads command line, environment and file, and carries out commands other than serving. */
enum options_result options_read(int argc, char **argv, struct config *config);

#endif
