/* Named volumes: directories below STATE/volumes, made on demand, kept until their last user ends
 * if they were made to go with it. One that was made for a sandbox that never came to be goes, too,
 * unless another that uses it has come to be. */
#ifndef OSB_SERVER_VOLUMES_H
#define OSB_SERVER_VOLUMES_H

#include <stdbool.h>

#include "base/err.h"
#include "base/map.h"
#include "store/store.h"

struct volumes {
	struct store *store;
	void (*sweep)(struct volumes *v); /* the runtime is to remove what was set aside */
	struct map by_name;               /* -> struct volume; those in use or that may go */
	int dir_fd;                       /* STATE/volumes */
};

/* Makes the directory if it is not there. */
int volumes_init(struct volumes *v, const char *state_dir, struct store *store,
		 void (*sweep)(struct volumes *v), struct err *e);
void volumes_free(struct volumes *v);

/* One more user of this volume. If it is missing, it is to be made if `create`; -ENOENT otherwise.
 * One that is made with `ephemeral` goes with its last user; one that was there already never
 * does. */
int volumes_use(struct volumes *v, const char *name, bool create, bool ephemeral, struct err *e);
/* Its directory, when the store knows of it: whoever is killed between the two leaves a row without
 * a directory, which goes with the next start, and not a directory that nobody knows of. */
int volumes_make(struct volumes *v, const char *name, struct err *e);
void volumes_release(struct volumes *v, const char *name);
/* A sandbox that uses it has come to be; the caller sees to it that the store knows. True if that
 * is news. */
bool volumes_keep(struct volumes *v, const char *name);

/* After the records have been read: what may go and nobody uses goes. */
void volumes_settle(struct volumes *v);

/* The users that a record's list of volumes names: [{"claim": NAME, ...}, ...]. `made`: the sandbox
 * has come to be. */
int volumes_use_recorded(struct volumes *v, const char *json, bool made, struct err *e);
void volumes_release_recorded(struct volumes *v, const char *json);

#endif
