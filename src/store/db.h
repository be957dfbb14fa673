/* The one door to SQLite: a connection, statements prepared once, values bound and read by type.
 *
 * Used by one thread at a time (see store.h). Text that is handed out lives until the statement's
 * next step. */
#ifndef OSB_STORE_DB_H
#define OSB_STORE_DB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct db;
struct db_stmt;

/* Opens or creates the file, readable by its owner only, with a write-ahead log. */
int db_open(const char *path, struct db **ret, struct err *e);
void db_close(struct db *db);

int db_exec(struct db *db, const char *sql, struct err *e);

/* A statement for this text, prepared at its first use and kept; the text must outlive the
 * connection (a literal). It comes reset, with nothing bound. NULL on failure. */
struct db_stmt *db_stmt(struct db *db, const char *sql, struct err *e);

/* SQLite takes a transaction back by itself when memory or room runs out in the middle of it. */
bool db_in_transaction(const struct db *db);

/* Parameters count from 1. The text is copied by SQLite; the next step fails if there was no memory
 * for that. NULL binds null. */
void db_bind_text(struct db_stmt *s, int at, const char *text);
void db_bind_i64(struct db_stmt *s, int at, int64_t value);

/* 1: there is a row; 0: through (the statement is reset); < 0: error (reset as well). */
int db_step(struct db_stmt *s, struct err *e);
/* To the end, ignoring rows. */
int db_run(struct db_stmt *s, struct err *e);
void db_reset(struct db_stmt *s);

/* Columns count from 0. */
const char *db_text(struct db_stmt *s, int column); /* NULL for null, or if db_starved */
bool db_starved(const struct db_stmt *s);           /* and the next step fails */
int64_t db_i64(struct db_stmt *s, int column);      /* 0 for null */

#endif
