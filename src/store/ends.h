/* Ends that the store could not take, so that an end which was answered for stays one.
 *
 * A file of fixed size, all of it allocated when it is made: noting an end in it needs no room on a
 * disk that has none. Each note is the id of a sandbox, why it ended and whether it is hidden now.
 * The next start reads them, and a note goes when the store knows what it says. */
#ifndef OSB_STORE_ENDS_H
#define OSB_STORE_ENDS_H

#include <stdbool.h>

#include "base/err.h"

#define ENDS_MAX 4096

struct ends {
	int fd;
	int n_slots;         /* fewer than ENDS_MAX if there was no room for more */
	bool used[ENDS_MAX]; /* by slot */
};

struct ends_note {
	char id[40];
	char reason[23];
	char hidden; /* 0: no */
};

/* Opens or makes the file, readable by its owner only. */
int ends_open(struct ends *ends, const char *path, struct err *e);
void ends_close(struct ends *ends);

/* Into this slot, or into a free one if it is negative. The slot, or a negative errno: -ENOSPC if
 * all are taken. */
int ends_put(struct ends *ends, int slot, const char *id, const char *reason, bool hidden,
	     struct err *e);
void ends_remove(struct ends *ends, int slot);
/* Whether there is a note in this slot, and which. */
bool ends_read(const struct ends *ends, int slot, struct ends_note *ret);

#endif
