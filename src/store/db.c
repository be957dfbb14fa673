#include "store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>

#include "base/util.h"

#define MAX_STATEMENTS 48

struct db_stmt {
	sqlite3_stmt *raw;
	const char *sql;
	struct db *db;
	bool starved; /* a value could not be bound or read for want of memory */
};

struct db {
	sqlite3 *raw;
	struct db_stmt statements[MAX_STATEMENTS];
	unsigned n_statements;
};

static int db_error(struct db *db, struct err *e, const char *what)
{
	int code = sqlite3_errcode(db->raw) & 0xff;
	int number = EIO;

	if (code == SQLITE_FULL)
		number = ENOSPC;
	else if (code == SQLITE_NOMEM)
		number = ENOMEM;
	else if (code == SQLITE_CONSTRAINT)
		number = EEXIST;
	else if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
		number = EBUSY;
	return err_set(e, number, "%s: %s", what, sqlite3_errmsg(db->raw));
}

/* In WAL mode with synchronous=NORMAL a commit survives the death of this process at any instant;
 * what a power failure may take back are commits about sandboxes that it has ended as well. The
 * file is ours alone: exclusive locking saves the shared memory file and keeps a second server out.
 */
static const char setup[] = "PRAGMA locking_mode = EXCLUSIVE;"
			    "PRAGMA journal_mode = WAL;"
			    "PRAGMA synchronous = NORMAL;"
			    "PRAGMA foreign_keys = ON;"
			    "PRAGMA trusted_schema = OFF;"
			    "PRAGMA temp_store = MEMORY;";

int db_open(const char *path, struct db **ret, struct err *e)
{
	struct db *db;
	autofd int fd = -EBADF;
	int r;

	/* created here rather than by SQLite, which would let the umask decide who may read it */
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	db = calloc(1, sizeof(*db));
	if (db == NULL)
		return err_code(e, ENOMEM, "database");
	r = sqlite3_open_v2(path, &db->raw, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
	if (r != SQLITE_OK) {
		r = db->raw != NULL ? db_error(db, e, path) : err_code(e, ENOMEM, "database");
		db_close(db);
		return r;
	}
	(void)sqlite3_extended_result_codes(db->raw, 1);
	r = db_exec(db, setup, e);
	if (r < 0) {
		if (r == -EBUSY)
			r = err_set(e, EBUSY, "'%s' is in use by another server", path);
		db_close(db);
		return r;
	}
	*ret = db;
	return 0;
}

void db_close(struct db *db)
{
	if (db == NULL)
		return;
	for (unsigned i = 0; i < db->n_statements; i++)
		(void)sqlite3_finalize(db->statements[i].raw);
	(void)sqlite3_close(db->raw);
	free(db);
}

int db_exec(struct db *db, const char *sql, struct err *e)
{
	if (sqlite3_exec(db->raw, sql, NULL, NULL, NULL) != SQLITE_OK)
		return db_error(db, e, "database");
	return 0;
}

struct db_stmt *db_stmt(struct db *db, const char *sql, struct err *e)
{
	struct db_stmt *s;

	for (unsigned i = 0; i < db->n_statements; i++) {
		s = &db->statements[i];
		if (s->sql != sql)
			continue;
		db_reset(s);
		(void)sqlite3_clear_bindings(s->raw);
		s->starved = false;
		return s;
	}
	if (db->n_statements == MAX_STATEMENTS) {
		(void)err_set(e, ENOSPC, "too many prepared statements");
		return NULL;
	}
	s = &db->statements[db->n_statements];
	if (sqlite3_prepare_v3(db->raw, sql, -1, SQLITE_PREPARE_PERSISTENT, &s->raw, NULL) !=
	    SQLITE_OK) {
		(void)db_error(db, e, "prepare statement");
		return NULL;
	}
	s->sql = sql;
	s->db = db;
	db->n_statements++;
	return s;
}

void db_bind_text(struct db_stmt *s, int at, const char *text)
{
	if (text == NULL)
		(void)sqlite3_bind_null(s->raw, at);
	else if (sqlite3_bind_text(s->raw, at, text, -1, SQLITE_TRANSIENT) != SQLITE_OK)
		s->starved = true; /* it would be taken for null */
}

void db_bind_i64(struct db_stmt *s, int at, int64_t value)
{
	(void)sqlite3_bind_int64(s->raw, at, value);
}

int db_step(struct db_stmt *s, struct err *e)
{
	int r;

	if (s->starved) {
		db_reset(s);
		return err_code(e, ENOMEM, "database");
	}
	r = sqlite3_step(s->raw);
	if (r == SQLITE_ROW)
		return 1;
	r = r == SQLITE_DONE ? 0 : db_error(s->db, e, "database");
	db_reset(s);
	return r;
}

int db_run(struct db_stmt *s, struct err *e)
{
	int r;

	do
		r = db_step(s, e);
	while (r > 0);
	return r;
}

bool db_in_transaction(const struct db *db)
{
	return sqlite3_get_autocommit(db->raw) == 0;
}

void db_reset(struct db_stmt *s)
{
	(void)sqlite3_reset(s->raw);
}

const char *db_text(struct db_stmt *s, int column)
{
	const char *text = (const char *)sqlite3_column_text(s->raw, column);

	if (text == NULL && sqlite3_column_type(s->raw, column) != SQLITE_NULL)
		s->starved = true;
	return text;
}

bool db_starved(const struct db_stmt *s)
{
	return s->starved;
}

int64_t db_i64(struct db_stmt *s, int column)
{
	return sqlite3_column_int64(s->raw, column);
}
