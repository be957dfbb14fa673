/* That an end is not forgotten.
 *
 * Who waits for an end hears of it when it is on disk, so that it stays an end should we die then.
 * The store may have no room for it; a note of it, for which room was set aside (store/ends.h),
 * says the same until the store does. */
#ifndef OSB_SERVER_FAREWELL_H
#define OSB_SERVER_FAREWELL_H

#include "server/manager.h"

/* Opens the notes and applies them to the records that were read: what they tell of has ended, or
 * is taken up as an end that was begun. */
int farewell_init(struct manager *m, struct err *e);

/* It has ended: into its record, then to those who wait for its end. */
void farewell_record(struct sandbox *sb);
/* A note that it is to end, or has ended, and why. */
int farewell_note(struct sandbox *sb, struct err *e);
/* Its record goes, and then the note if it has one. */
void farewell_forget(struct sandbox *sb);

#endif
