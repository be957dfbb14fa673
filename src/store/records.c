#include "store/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

/* The columns of `sandboxes`, in the order of the statements below. */
static const struct column {
	size_t offset;
	bool text;
} columns[] = {
	{ offsetof(struct record, id), true },
	{ offsetof(struct record, state), true },
	{ offsetof(struct record, reason), true },
	{ offsetof(struct record, message), true },
	{ offsetof(struct record, transition_us), false },
	{ offsetof(struct record, created_us), false },
	{ offsetof(struct record, expires_us), false },
	{ offsetof(struct record, ended_us), false },
	{ offsetof(struct record, hidden), false },
	{ offsetof(struct record, image), true },
	{ offsetof(struct record, entrypoint), true },
	{ offsetof(struct record, metadata), true },
	{ offsetof(struct record, limits), true },
	{ offsetof(struct record, volumes), true },
	{ offsetof(struct record, extensions), true },
	{ offsetof(struct record, os), true },
	{ offsetof(struct record, arch), true },
	{ offsetof(struct record, token), true },
	{ offsetof(struct record, secure_token), true },
	{ offsetof(struct record, boot_id), true },
	{ offsetof(struct record, renew_s), false },
	{ offsetof(struct record, idle_s), false },
	{ offsetof(struct record, network), false },
	{ offsetof(struct record, lapses_us), false },
};

#define COLUMN_NAMES                                                                   \
	"id, state, reason, message, transition_us, created_us, expires_us, ended_us," \
	" hidden, image, entrypoint, metadata, limits, volumes, extensions, os, arch," \
	" token, secure_token, boot_id, renew_s, idle_s, network, lapses_us"

static const char sql_insert[] = "INSERT INTO sandboxes (" COLUMN_NAMES ") VALUES "
				 "(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";
static const char sql_load[] = "SELECT " COLUMN_NAMES " FROM sandboxes ORDER BY created_us, id";
static const char sql_status[] =
	"UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, transition_us = ?5,"
	" ended_us = ?6, hidden = ?7, boot_id = ?8, network = ?9 WHERE id = ?1";
static const char sql_expiry[] =
	"UPDATE sandboxes SET expires_us = ?2, lapses_us = ?3 WHERE id = ?1";
static const char sql_metadata[] = "UPDATE sandboxes SET metadata = ?2 WHERE id = ?1";
static const char sql_delete[] = "DELETE FROM sandboxes WHERE id = ?1";
static const char sql_add_event[] =
	"INSERT INTO events (sandbox_id, at_us, kind, message) SELECT ?1, ?2, ?3, ?4"
	" WHERE EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1)";
static const char sql_trim_events[] =
	"DELETE FROM events WHERE sandbox_id = ?1 AND seq <= (SELECT seq FROM events"
	" WHERE sandbox_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)";
static const char sql_read_events[] =
	"SELECT at_us, kind, message FROM (SELECT * FROM events WHERE sandbox_id = ?1"
	" ORDER BY seq DESC LIMIT ?2) ORDER BY seq";
static const char sql_add_volume[] =
	"INSERT INTO volumes (name, created_us, ephemeral) VALUES (?1, ?2, ?3)"
	" ON CONFLICT (name) DO UPDATE SET created_us = excluded.created_us,"
	" ephemeral = excluded.ephemeral";
static const char sql_keep_volumes[] =
	"UPDATE volumes SET ephemeral = 0 WHERE ephemeral = 2 AND name IN"
	" (SELECT json_extract(value, '$.claim') FROM json_each(?1))";
static const char sql_delete_volume[] = "DELETE FROM volumes WHERE name = ?1";
static const char sql_load_volumes[] = "SELECT name, ephemeral FROM volumes";

static char **text_at(struct record *rec, const struct column *c)
{
	return (char **)(void *)((char *)rec + c->offset);
}

static int64_t *number_at(struct record *rec, const struct column *c)
{
	return (int64_t *)(void *)((char *)rec + c->offset);
}

void record_clear(struct record *rec)
{
	for (size_t i = 0; i < ARRAY_LEN(columns); i++)
		if (columns[i].text)
			free(*text_at(rec, &columns[i]));
	*rec = (struct record){ 0 };
}

int record_copy(const struct record *from, struct record *ret, struct err *e)
{
	struct record copy = *from;
	bool ok = true;

	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		char **text = columns[i].text ? text_at(&copy, &columns[i]) : NULL;

		if (text == NULL || *text == NULL)
			continue;
		*text = ok ? strdup(*text) : NULL;
		ok = ok && *text != NULL;
	}
	if (!ok) {
		record_clear(&copy);
		return err_code(e, ENOMEM, "record");
	}
	*ret = copy;
	return 0;
}

/* --- writes --- */

/* One statement with up to four texts and numbers, copied out of the caller's memory. */
struct write {
	struct store_op op;
	const char *sql;
	struct record rec;
	struct arena arena;
	const char *text[4];
	int64_t number, other;
	bool incomplete; /* ran out of memory while copying */
	records_done *done;
	void *ctx;
};

/* Who asks for a write is told what came of it, with or without memory: these are for then. More
 * of them at once than this, and there is no promise left to keep: the server ends; its sandboxes
 * outlive it. */
static struct write reserve[256];

static struct write *write_new(void)
{
	struct write *w = malloc(sizeof(*w));

	for (size_t i = 0; w == NULL && i < ARRAY_LEN(reserve); i++)
		if (reserve[i].op.run == NULL)
			w = &reserve[i];
	if (w == NULL)
		abort();
	return w;
}

static void write_free(struct write *w)
{
	if (w >= reserve && w < reserve + ARRAY_LEN(reserve))
		w->op.run = NULL;
	else
		free(w);
}

static void write_done(struct store_op *op)
{
	struct write *w = CONTAINER_OF(op, struct write, op);

	if (w->done != NULL)
		w->done(w->ctx, op->result, op->err.msg);
	else if (op->result < 0)
		log_error("the store refused a write", { "error", op->err.msg });
	record_clear(&w->rec);
	arena_free(&w->arena);
	write_free(w);
}

static void write_submit(struct store *s, int (*run)(struct store_op *, struct db *, struct err *),
			 const char *sql, const struct write *what)
{
	struct write *w = write_new();

	*w = *what;
	w->arena = ARENA_INIT(MIB(1));
	for (size_t i = 0; i < ARRAY_LEN(w->text); i++) {
		if (w->text[i] == NULL)
			continue;
		w->text[i] = arena_strdup(&w->arena, w->text[i]);
		w->incomplete |= w->text[i] == NULL;
	}
	w->sql = sql;
	w->op.run = run;
	w->op.done = write_done;
	store_submit(s, &w->op);
}

static int run_insert(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	struct db_stmt *s = db_stmt(db, w->sql, e);

	if (s == NULL)
		return -EIO;
	if (w->incomplete)
		return err_code(e, ENOMEM, "record");
	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		if (columns[i].text)
			db_bind_text(s, (int)i + 1, *text_at(&w->rec, &columns[i]));
		else
			db_bind_i64(s, (int)i + 1, *number_at(&w->rec, &columns[i]));
	}
	return db_run(s, e);
}

void records_insert(struct store *s, const struct record *rec, records_done *done, void *ctx)
{
	struct write w = { .done = done, .ctx = ctx };

	w.incomplete = record_copy(rec, &w.rec, NULL) < 0;
	write_submit(s, run_insert, sql_insert, &w);
}

static int run_status(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	struct db_stmt *s = db_stmt(db, w->sql, e);

	if (s == NULL)
		return -EIO;
	if (w->incomplete)
		return err_code(e, ENOMEM, "record");
	db_bind_text(s, 1, w->rec.id);
	db_bind_text(s, 2, w->rec.state);
	db_bind_text(s, 3, w->rec.reason);
	db_bind_text(s, 4, w->rec.message);
	db_bind_i64(s, 5, w->rec.transition_us);
	db_bind_i64(s, 6, w->rec.ended_us);
	db_bind_i64(s, 7, w->rec.hidden);
	db_bind_text(s, 8, w->rec.boot_id);
	db_bind_i64(s, 9, w->rec.network);
	return db_run(s, e);
}

static void submit_status(struct store *s, int (*run)(struct store_op *, struct db *, struct err *),
			  const struct record *rec, char *volumes, records_done *done, void *ctx)
{
	/* only what the statements need is copied */
	struct record part = {
		.id = rec->id,
		.state = rec->state,
		.reason = rec->reason,
		.message = rec->message,
		.transition_us = rec->transition_us,
		.ended_us = rec->ended_us,
		.hidden = rec->hidden,
		.volumes = volumes,
		.boot_id = rec->boot_id,
		.network = rec->network,
	};
	struct write w = { .done = done, .ctx = ctx };

	w.incomplete = record_copy(&part, &w.rec, NULL) < 0;
	write_submit(s, run, sql_status, &w);
}

void records_set_status(struct store *s, const struct record *rec, records_done *done, void *ctx)
{
	submit_status(s, run_status, rec, NULL, done, ctx);
}

static int keep_volumes(struct db *db, const char *volumes, struct err *e)
{
	struct db_stmt *s = db_stmt(db, sql_keep_volumes, e);

	if (s == NULL)
		return -EIO;
	db_bind_text(s, 1, volumes);
	return db_run(s, e);
}

/* The volumes first: if it fails between the two, nobody is told that there is a sandbox. */
static int run_made(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	int r = w->incomplete ? err_code(e, ENOMEM, "record") : keep_volumes(db, w->rec.volumes, e);

	return r < 0 ? r : run_status(op, db, e);
}

void records_set_made(struct store *s, const struct record *rec, records_done *done, void *ctx)
{
	submit_status(s, run_made, rec, rec->volumes, done, ctx);
}

/* ?1 a text, ?2 another or a number, ?3 a number */
static int run_simple(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	struct db_stmt *s = db_stmt(db, w->sql, e);

	if (s == NULL)
		return -EIO;
	if (w->incomplete)
		return err_code(e, ENOMEM, "record");
	db_bind_text(s, 1, w->text[0]);
	if (w->text[1] != NULL)
		db_bind_text(s, 2, w->text[1]);
	else
		db_bind_i64(s, 2, w->number); /* of no effect where there is no ?2 */
	db_bind_i64(s, 3, w->other);
	return db_run(s, e);
}

void records_set_expiry(struct store *s, const char *id, int64_t expires_us, int64_t lapses_us,
			records_done *done, void *ctx)
{
	struct write w = {
		.text = { id },
		.number = expires_us,
		.other = lapses_us,
		.done = done,
		.ctx = ctx,
	};

	write_submit(s, run_simple, sql_expiry, &w);
}

void records_set_metadata(struct store *s, const char *id, const char *json, records_done *done,
			  void *ctx)
{
	struct write w = { .text = { id, json }, .done = done, .ctx = ctx };

	write_submit(s, run_simple, sql_metadata, &w);
}

void records_delete(struct store *s, const char *id, records_done *done, void *ctx)
{
	struct write w = { .text = { id }, .done = done, .ctx = ctx };

	write_submit(s, run_simple, sql_delete, &w);
}

/* --- events --- */

static int run_add_event(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	struct db_stmt *s = db_stmt(db, w->sql, e);
	int r;

	if (s == NULL)
		return -EIO;
	if (w->incomplete)
		return err_code(e, ENOMEM, "event");
	db_bind_text(s, 1, w->text[0]);
	db_bind_i64(s, 2, w->number);
	db_bind_text(s, 3, w->text[1]);
	db_bind_text(s, 4, w->text[2]);
	r = db_run(s, e);
	if (r < 0)
		return r;
	s = db_stmt(db, sql_trim_events, e);
	if (s == NULL)
		return -EIO;
	db_bind_text(s, 1, w->text[0]);
	db_bind_i64(s, 2, RECORDS_MAX_EVENTS);
	return db_run(s, e);
}

void records_add_event(struct store *s, const char *id, const char *kind, const char *message)
{
	struct write w = { .text = { id, kind, message }, .number = clock_wall_us() };

	write_submit(s, run_add_event, sql_add_event, &w);
}

struct events_read {
	struct store_op op;
	char *id;
	unsigned limit;
	struct arena arena;
	struct records_event *events;
	unsigned n_events;
	void (*done)(void *ctx, int result, const struct records_event *events, unsigned n_events);
	void *ctx;
};

static int run_read_events(struct store_op *op, struct db *db, struct err *e)
{
	struct events_read *rd = CONTAINER_OF(op, struct events_read, op);
	struct db_stmt *s = db_stmt(db, sql_read_events, e);
	int r;

	if (s == NULL)
		return -EIO;
	rd->events = arena_alloc(&rd->arena, rd->limit * sizeof(*rd->events));
	if (rd->events == NULL || rd->id == NULL)
		return err_code(e, ENOMEM, "events");
	db_bind_text(s, 1, rd->id);
	db_bind_i64(s, 2, rd->limit);
	while ((r = db_step(s, e)) > 0 && rd->n_events < rd->limit) {
		const char *kind = db_text(s, 1), *message = db_text(s, 2);
		struct records_event ev = { .at_us = db_i64(s, 0) };

		if (kind != NULL && message != NULL) {
			ev.kind = arena_strdup(&rd->arena, kind);
			ev.message = arena_strdup(&rd->arena, message);
		}
		if (ev.kind == NULL || ev.message == NULL) {
			db_reset(s);
			return err_code(e, ENOMEM, "events");
		}
		rd->events[rd->n_events++] = ev;
	}
	return r;
}

static void read_events_done(struct store_op *op)
{
	struct events_read *rd = CONTAINER_OF(op, struct events_read, op);

	rd->done(rd->ctx, op->result, rd->events, rd->n_events);
	arena_free(&rd->arena);
	free(rd->id);
	free(rd);
}

int records_read_events(struct store *s, const char *id, unsigned limit,
			void (*done)(void *ctx, int result, const struct records_event *events,
				     unsigned n_events),
			void *ctx)
{
	struct events_read *rd = calloc(1, sizeof(*rd));

	if (rd == NULL)
		return -ENOMEM;
	rd->id = strdup(id);
	rd->limit = MIN(MAX(limit, 1u), (unsigned)RECORDS_MAX_EVENTS);
	rd->arena = ARENA_INIT(MIB(1));
	rd->done = done;
	rd->ctx = ctx;
	rd->op.run = run_read_events;
	rd->op.done = read_events_done;
	store_submit(s, &rd->op);
	return 0;
}

/* --- volumes --- */

static int run_add_volume(struct store_op *op, struct db *db, struct err *e)
{
	struct write *w = CONTAINER_OF(op, struct write, op);
	struct db_stmt *s = db_stmt(db, w->sql, e);

	if (s == NULL)
		return -EIO;
	if (w->incomplete)
		return err_code(e, ENOMEM, "volume");
	db_bind_text(s, 1, w->text[0]);
	db_bind_i64(s, 2, clock_wall_us());
	db_bind_i64(s, 3, w->number);
	return db_run(s, e);
}

void records_add_volume(struct store *s, const char *name, enum volume_stay stay,
			records_done *done, void *ctx)
{
	struct write w = { .text = { name }, .number = stay, .done = done, .ctx = ctx };

	write_submit(s, run_add_volume, sql_add_volume, &w);
}

void records_keep_volumes(struct store *s, const char *json)
{
	struct write w = { .text = { json } };

	write_submit(s, run_simple, sql_keep_volumes, &w);
}

void records_delete_volume(struct store *s, const char *name)
{
	struct write w = { .text = { name } };

	write_submit(s, run_simple, sql_delete_volume, &w);
}

/* --- at the start --- */

static int read_record(struct db_stmt *s, struct record *ret, struct err *e)
{
	struct record rec = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
		const char *text;

		if (!columns[i].text) {
			*number_at(&rec, &columns[i]) = db_i64(s, (int)i);
			continue;
		}
		text = db_text(s, (int)i);
		if (text == NULL && !db_starved(s))
			continue;
		*text_at(&rec, &columns[i]) = text != NULL ? strdup(text) : NULL;
		if (*text_at(&rec, &columns[i]) == NULL) {
			record_clear(&rec);
			return err_code(e, ENOMEM, "record");
		}
	}
	*ret = rec;
	return 0;
}

int records_load(struct store *s, int (*each)(void *ctx, struct record *rec, struct err *e),
		 void *ctx, struct err *e)
{
	struct db_stmt *stmt = db_stmt(store_db(s), sql_load, e);
	int r;

	if (stmt == NULL)
		return -EIO;
	while ((r = db_step(stmt, e)) > 0) {
		struct record rec;

		r = read_record(stmt, &rec, e);
		if (r >= 0) {
			r = each(ctx, &rec, e);
			record_clear(&rec);
		}
		if (r < 0) {
			db_reset(stmt);
			return r;
		}
	}
	return r;
}

static enum volume_stay stay_of(int64_t number)
{
	return number == VOLUME_EPHEMERAL || number == VOLUME_UNPROVEN ? (enum volume_stay)number
								       : VOLUME_KEPT;
}

int records_load_volumes(struct store *s,
			 int (*each)(void *ctx, const char *name, enum volume_stay stay), void *ctx,
			 struct err *e)
{
	struct db_stmt *stmt = db_stmt(store_db(s), sql_load_volumes, e);
	int r;

	if (stmt == NULL)
		return -EIO;
	while ((r = db_step(stmt, e)) > 0) {
		const char *name = db_text(stmt, 0);

		r = name != NULL ? each(ctx, name, stay_of(db_i64(stmt, 1))) : -ENOMEM;
		if (r < 0) {
			db_reset(stmt);
			return err_code(e, r, "volumes");
		}
	}
	return r;
}
