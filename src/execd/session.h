/* Shell sessions: runs of commands that find the shell as the run before left it.
 *
 * Each run is a fresh shell, so that nothing a command does (exit, exec, a crash) can break the
 * session. What it leaves behind (variables, functions, the directory) comes back through private
 * descriptors as a script and is played to the next one; session_driver.c has both halves. */
#ifndef OSB_EXECD_SESSION_H
#define OSB_EXECD_SESSION_H

#include "base/rand.h"
#include "execd/execd.h"

struct session;

#define SESSION_MAX_COUNT 1024
#define SESSION_MAX_STATE MIB(4) /* a state larger than this is not taken over */

int sessions_setup(struct execd *x, struct err *e);

/* `cwd` is clean and absolute. */
int session_new(struct execd *x, const char *cwd, char ret_id[RAND_UUID_SIZE], struct err *e);
struct session *session_find(struct execd *x, struct span id);
/* Run a command; the answer is the event stream. `cwd` (may be NULL) is where to start. */
void session_start(struct session *s, struct http_req *r, const char *command, const char *cwd,
		   uint64_t timeout_ms);
/* End all that runs in a session and forget it. False: there is none of that id. */
bool session_end(struct execd *x, struct span id);

#endif
