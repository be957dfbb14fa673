#include "store/schema.h"

#include <errno.h>
#include <stdio.h>

#include "base/util.h"

/* Step i leads from version i to i + 1. Steps that were published are never changed. */
static const char *const steps[] = {
	"CREATE TABLE sandboxes ("
	"  id TEXT PRIMARY KEY,"
	"  state TEXT NOT NULL,"
	"  reason TEXT,"
	"  message TEXT,"
	"  transition_us INTEGER NOT NULL,"
	"  created_us INTEGER NOT NULL,"
	"  expires_us INTEGER NOT NULL," /* 0: never */
	"  ended_us INTEGER NOT NULL,"   /* 0: not yet */
	"  hidden INTEGER NOT NULL,"     /* ended because somebody asked for it */
	"  image TEXT NOT NULL,"
	"  entrypoint TEXT NOT NULL," /* JSON, like the next */
	"  metadata TEXT NOT NULL,"
	"  limits TEXT NOT NULL,"
	"  volumes TEXT NOT NULL,"
	"  extensions TEXT NOT NULL,"
	"  os TEXT,"
	"  arch TEXT,"
	"  token TEXT NOT NULL,"
	"  secure_token TEXT,"
	"  boot_id TEXT,"
	"  renew_s INTEGER NOT NULL," /* 0: no renewal on access */
	"  idle_s INTEGER NOT NULL,"  /* 0: no idle timeout */
	"  network INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE events ("
	"  seq INTEGER PRIMARY KEY,"
	"  sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,"
	"  at_us INTEGER NOT NULL,"
	"  kind TEXT NOT NULL,"
	"  message TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX events_of_sandbox ON events (sandbox_id, seq);"
	"CREATE TABLE volumes ("
	"  name TEXT PRIMARY KEY,"
	"  created_us INTEGER NOT NULL,"
	"  ephemeral INTEGER NOT NULL" /* goes with the last sandbox that uses it */
	") STRICT, WITHOUT ROWID;",
	"ALTER TABLE sandboxes ADD COLUMN lapses_us INTEGER NOT NULL DEFAULT 0;",
};

static int current_version(struct db *db, int64_t *ret, struct err *e)
{
	struct db_stmt *s = db_stmt(db, "PRAGMA user_version", e);
	int r = s != NULL ? db_step(s, e) : -EIO;

	if (r < 0)
		return r;
	*ret = r > 0 ? db_i64(s, 0) : 0;
	db_reset(s);
	return 0;
}

static int migrate_one(struct db *db, size_t to, const char *sql, struct err *e)
{
	char mark[64];
	int r;

	(void)snprintf(mark, sizeof(mark), "PRAGMA user_version = %zu", to);
	r = db_exec(db, "BEGIN IMMEDIATE", e);
	if (r >= 0)
		r = db_exec(db, sql, e);
	if (r >= 0)
		r = db_exec(db, mark, e);
	if (r >= 0)
		r = db_exec(db, "COMMIT", e);
	if (r < 0)
		(void)db_exec(db, "ROLLBACK", NULL);
	return r;
}

int schema_migrate(struct db *db, struct err *e)
{
	int64_t version = 0;
	int r;

	r = current_version(db, &version, e);
	if (r < 0)
		return r;
	if (version < 0 || (uint64_t)version > ARRAY_LEN(steps))
		return err_set(e, ENOTSUP,
			       "the database has version %lld, this program knows up to %zu",
			       (long long)version, ARRAY_LEN(steps));
	for (size_t i = (size_t)version; i < ARRAY_LEN(steps); i++) {
		r = migrate_one(db, i + 1, steps[i], e);
		if (r < 0)
			return err_wrap(e, "migrate the database to version %zu", i + 1);
	}
	return 0;
}
