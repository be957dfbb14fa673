/* The inside of an isolated session: another execd, in namespaces of its own.
 *
 * execd starts itself once more under another name. That process reads a plan, leaves the
 * namespaces it was born into, builds the view of the session out of the mounts there are, gives up
 * its rights, and becomes an ordinary execd on a socket it was handed. Requests for the session are
 * passed on to that one, so that commands and files mean there what they mean everywhere.
 *
 * Descriptors: ISOLATE_PLAN has the plan, ISOLATE_LISTEN and ISOLATE_SPEC are for the execd to
 * come, and whatever goes wrong is written to ISOLATE_STATUS: a letter for its kind, then words.
 * Its end without a word means that all went well. */
#ifndef OSB_EXECD_ISOLATE_H
#define OSB_EXECD_ISOLATE_H

#include <stdbool.h>

#define ISOLATE_NAME   "execd-isolate" /* argv[0] of the one that builds */
#define ISOLATE_INSIDE "execd-inside"  /* and of the one it becomes */

enum { ISOLATE_PLAN = 3, ISOLATE_LISTEN, ISOLATE_SPEC, ISOLATE_STATUS, ISOLATE_N_FDS };

#define ISOLATE_DENIED 'D' /* the system does not allow it: there is no isolation here */
#define ISOLATE_WRONG  'W' /* something in the plan cannot be */

/* The plan is an object:
 *	probe: bool              only find out whether it could be done
 *	userns: bool             in a user namespace, where uid and gid stand for our own
 *	share_net: bool
 *	private_tmp: bool
 *	uid, gid: numbers        who to be, or absent
 *	workspace: path, workspace_mode: "rw", "ro" or "overlay"
 *	binds: [{source, dest, readonly}] */

/* For main(): does not return if the program was started under ISOLATE_NAME. */
void isolate_program(int argc, char **argv);

/* Is this execd the inside of a session? */
bool isolate_is_inside(void);

#endif
