/* What a setting may be: one function for each kind of value, named by the table (config_table.c).
 * The caller says which setting it was. */
#ifndef OSB_SERVER_CONFIG_CHECK_H
#define OSB_SERVER_CONFIG_CHECK_H

#include "base/err.h"

typedef int config_check(const char *value, struct err *e);

config_check config_check_address;
config_check config_check_network;
config_check config_check_path;    /* absolute and clean */
config_check config_check_program; /* a file that can be run; empty: ours */
config_check config_check_size;    /* empty: none */
config_check config_check_net_mode;
config_check config_check_unheld;
config_check config_check_log_format;

#endif
