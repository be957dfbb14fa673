/* The table of settings; see config.h for what is done with it. */
#ifndef OSB_SERVER_CONFIG_TABLE_H
#define OSB_SERVER_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "server/config.h"
#include "server/config_check.h"

enum config_type {
	CONFIG_STRING,
	CONFIG_INTEGER,
	CONFIG_BOOLEAN,
	CONFIG_LIST,  /* of strings */
	CONFIG_PAIRS, /* a table of strings */
};

struct config_option {
	const char *key; /* "section.name" */
	enum config_type type;
	size_t offset;
	const char *fallback; /* as text */
	int64_t min, max;     /* CONFIG_INTEGER; CONFIG_LIST: most items, 0 for any number */
	const char *doc;
	config_check *check; /* of a string, or of each in a list; NULL: anything will do */
};

extern const struct config_option config_options[]; /* ends with key == NULL */

#endif
