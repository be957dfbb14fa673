/* What kernels show, as events of the stream: within the bounds that clients have, every value a
 * string, plain text under both of the names that clients look for. */
#ifndef OSB_EXECD_CODE_EVENTS_H
#define OSB_EXECD_CODE_EVENTS_H

#include <stdint.h>

#include "codec/json.h"
#include "execd/events.h"

/* Longest line of the stream: some clients stop at 4 MiB. */
#define CODE_EVENTS_MAX_LINE MIB(4)
/* Of which: plain text, which is sent twice, and all the rest together. */
#define CODE_EVENTS_MAX_PLAIN KIB(512)
#define CODE_EVENTS_MAX_RICH  (CODE_EVENTS_MAX_LINE - 2 * CODE_EVENTS_MAX_PLAIN - KIB(64))

/* The value of a cell or something it displays: an object of MIME types. */
void code_events_result(struct events *ev, const json_t *data);
void code_events_count(struct events *ev, int64_t count);
/* As the kernel told it: ename, evalue, traceback. */
void code_events_error(struct events *ev, const json_t *frame);
/* One that execd itself tells. */
void code_events_fail(struct events *ev, const char *ename, const char *evalue);

#endif
