/* One sandbox as the server knows it: its record, its state, what hangs on it.
 *
 * The record is what survives a restart. `state` mirrors record.state and changes only through
 * sandbox_enter(), which knows the allowed edges. */
#ifndef OSB_SERVER_SANDBOX_H
#define OSB_SERVER_SANDBOX_H

#include "base/heap.h"
#include "base/list.h"
#include "codec/json.h"
#include "codec/jsonw.h"
#include "driver/driver.h"
#include "http/client.h"
#include "store/records.h"

enum sandbox_state {
	SANDBOX_PENDING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSING,
	SANDBOX_PAUSED,
	SANDBOX_RESUMING,
	SANDBOX_STOPPING,
	SANDBOX_TERMINATED,
	SANDBOX_FAILED,
	SANDBOX_STATE_COUNT
};

const char *sandbox_state_name(enum sandbox_state s);
bool sandbox_state_parse(struct span name, enum sandbox_state *ret); /* any case */

/* Why a sandbox ends; a row of a table each (sandbox.c). */
enum sandbox_cause {
	CAUSE_NONE,
	CAUSE_DELETED,      /* a client asked for it */
	CAUSE_EXPIRED,      /* its time was up */
	CAUSE_IDLE,         /* nobody used it for as long as it wanted */
	CAUSE_EXITED,       /* its PID 1 ended with 0 */
	CAUSE_EXITED_ERROR, /* ... with something else */
	CAUSE_OOM,          /* ... because it ran out of memory */
	CAUSE_LOST,         /* the runtime does not have it any more */
	CAUSE_REBOOT,       /* ... because the host was restarted */
	CAUSE_UNMADE,       /* it never came to be */
	CAUSE_SERVER_EXIT,  /* the server ended and took it along */
	CAUSE_COUNT
};

struct creation;
struct manager;

struct sandbox {
	struct record rec;
	enum sandbox_state state;
	json_t *metadata;
	struct manager *manager;
	struct list link;              /* manager->all, the newest first */
	struct list ended_link;        /* manager->ended, the oldest first */
	struct heap_entry date, delay; /* the next things that time brings */

	struct driver_call call; /* one operation of the runtime at a time */
	bool busy;
	enum sandbox_cause ending; /* CAUSE_NONE: it is to live */
	char why[160];             /* in words, if the cause's own do not say it */
	struct list waiters;       /* for what is under way: struct waiter */
	struct list enders;        /* for its end */
	struct creation *creation; /* while it is being made */

	struct driver_status seen; /* as the runtime listed it */
	unsigned seen_in;          /* in that generation of connections */

	/* Of what requests may change, that which the store is known to have. */
	struct {
		json_t *metadata;
		int64_t expires_us, lapses_us;
	} stored;

	struct http_upstream *execd;
	struct list ports;    /* of the gateway */
	int64_t accessed_us;  /* since boot, like the next */
	int64_t may_renew_us; /* not before that does use renew it */
	uint64_t renewals;    /* so many times its end was set */
	unsigned holds;       /* freed when it is out of the map and nobody holds it */
	bool forgotten;       /* out of the map */
	int note;             /* its slot in manager->ends; negative: none */
};

static inline bool sandbox_ended(const struct sandbox *sb)
{
	return sb->state == SANDBOX_TERMINATED || sb->state == SANDBOX_FAILED;
}

/* Takes the record's contents over on success (and leaves it empty). */
int sandbox_new(struct manager *m, struct record *rec, struct sandbox **ret, struct err *e);
void sandbox_hold(struct sandbox *sb);
void sandbox_drop(struct sandbox *sb);

/* To another state, with the reason in the record; asserts that the edge exists. */
void sandbox_enter(struct sandbox *sb, enum sandbox_state to, const char *reason,
		   const char *message);

/* A new end, by both clocks. */
void sandbox_set_expiry(struct sandbox *sb, int64_t expires_us);
/* Of the end in its record only the date counts: since boot is made of that. */
void sandbox_date_alone(struct sandbox *sb);

enum sandbox_state sandbox_final_state(enum sandbox_cause cause);
const char *sandbox_reason(enum sandbox_cause cause);
const char *sandbox_message(enum sandbox_cause cause);
bool sandbox_hides(enum sandbox_cause cause); /* not shown afterwards, unless asked for */
/* The cause whose reason the record has; CAUSE_NONE if none. */
enum sandbox_cause sandbox_cause_of(const char *reason);

/* Most bytes of what every list of sandboxes shows; all but the image as JSON. */
#define SANDBOX_MAX_ENTRYPOINT KIB(160) /* the kernel takes 128 KiB in one argument */
#define SANDBOX_MAX_EXTENSIONS KIB(32)
#define SANDBOX_MAX_IMAGE      KIB(4)
#define SANDBOX_MAX_METADATA   KIB(64)
/* ... and so of one sandbox: each byte of a name may take six, and the rest is short. */
#define SANDBOX_MAX_JSON                                                          \
	(SANDBOX_MAX_ENTRYPOINT + SANDBOX_MAX_EXTENSIONS + SANDBOX_MAX_METADATA + \
	 6 * SANDBOX_MAX_IMAGE + KIB(4))
/* Text of metadata for the record, to be freed; -EMSGSIZE: too much. */
int sandbox_metadata_text(const json_t *metadata, char **ret, struct err *e);
/* Put a tree in the place of another, `metadata` or `stored.metadata`. The record's text stays what
 * it was when the sandbox was made or found. */
void sandbox_share(json_t **at, json_t *metadata);

/* As clients see it: with `image` for get and list, without for the answer to create. */
void sandbox_write(const struct sandbox *sb, bool with_image, struct jw *w);

#endif
