/* What the tables look like, and how an older file becomes a newer one. */
#ifndef OSB_STORE_SCHEMA_H
#define OSB_STORE_SCHEMA_H

#include "store/db.h"

/* Brings the file to this program's version, step by step, each step whole or not at all. A file of
 * a newer program is refused: it would be misread. */
int schema_migrate(struct db *db, struct err *e);

#endif
