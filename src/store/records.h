/* Typed reads and writes of what must survive a restart.
 *
 * Every write copies what it needs at once, so that the caller's memory is its own again when the
 * call returns. `done` may be NULL: the outcome is then logged if it is bad. Otherwise it is called
 * once, later, on the loop; words live for the call only. */
#ifndef OSB_STORE_RECORDS_H
#define OSB_STORE_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

/* A sandbox. Strings are malloc'd and owned by the record. */
struct record {
	char *id;
	char *state;
	char *reason;
	char *message;
	int64_t transition_us;
	int64_t created_us;
	int64_t expires_us; /* 0: never */
	int64_t lapses_us;  /* the same as time since boot; 0: never, or nobody noted it */
	int64_t ended_us;   /* 0: not yet */
	int64_t hidden;     /* ended because somebody asked for it: not shown unless asked for */
	char *image;
	char *entrypoint; /* JSON, like the next four */
	char *metadata;
	char *limits;
	char *volumes;
	char *extensions;
	char *os, *arch; /* NULL: no platform was asked for */
	char *token;
	char *secure_token; /* NULL: none needed */
	char *boot_id;
	int64_t renew_s;
	int64_t idle_s;
	int64_t network;
};

void record_clear(struct record *rec);
int record_copy(const struct record *from, struct record *ret, struct err *e);

typedef void records_done(void *ctx, int result, const char *why);

void records_insert(struct store *s, const struct record *rec, records_done *done, void *ctx);
/* state, reason, message, transition_us, ended_us, hidden, boot_id and network */
void records_set_status(struct store *s, const struct record *rec, records_done *done, void *ctx);
/* The same of a sandbox that has come to be: what it names of unproven volumes is kept from now on.
 * Refused if either is. */
void records_set_made(struct store *s, const struct record *rec, records_done *done, void *ctx);
void records_set_expiry(struct store *s, const char *id, int64_t expires_us, int64_t lapses_us,
			records_done *done, void *ctx);
void records_set_metadata(struct store *s, const char *id, const char *json, records_done *done,
			  void *ctx);
/* With its events. */
void records_delete(struct store *s, const char *id, records_done *done, void *ctx);

/* All of them, oldest first; the callee takes what it wants out of *rec (and leaves NULL). A
 * negative result ends the walk. At the start of the program only. */
int records_load(struct store *s, int (*each)(void *ctx, struct record *rec, struct err *e),
		 void *ctx, struct err *e);

/* Something happened to a sandbox. The oldest beyond RECORDS_MAX_EVENTS go. */
#define RECORDS_MAX_EVENTS 200
void records_add_event(struct store *s, const char *id, const char *kind, const char *message);

struct records_event {
	int64_t at_us;
	const char *kind, *message;
};
/* The latest `limit`, oldest first. `done` gets them for the call only. -ENOMEM: it is not
 * called. */
int records_read_events(struct store *s, const char *id, unsigned limit,
			void (*done)(void *ctx, int result, const struct records_event *events,
				     unsigned n_events),
			void *ctx);

/* How long a named volume stays. The numbers are those on disk. */
enum volume_stay {
	VOLUME_KEPT = 0,
	VOLUME_EPHEMERAL = 1, /* goes with the last sandbox that uses it */
	VOLUME_UNPROVEN = 2,  /* no sandbox that uses it has come to be yet; goes if none does */
};

/* It has just been made: what was known of one of that name is of one that is gone. */
void records_add_volume(struct store *s, const char *name, enum volume_stay stay,
			records_done *done, void *ctx);
/* Unproven ones in the list of a record are kept from now on. */
void records_keep_volumes(struct store *s, const char *json);
void records_delete_volume(struct store *s, const char *name);
int records_load_volumes(struct store *s,
			 int (*each)(void *ctx, const char *name, enum volume_stay stay), void *ctx,
			 struct err *e);

#endif
