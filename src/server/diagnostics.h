/* What a sandbox said and what happened to it, collected from execd, the store and the runtime. */
#ifndef OSB_SERVER_DIAGNOSTICS_H
#define OSB_SERVER_DIAGNOSTICS_H

#include "server/api.h"

enum report_part {
	REPORT_LOGS = 1 << 0,
	REPORT_EVENTS = 1 << 1,
	REPORT_USAGE = 1 << 2,
};

/* One collection; freed after `done`. Parts that could not be had leave a warning. */
struct report {
	struct http_req *req;
	struct sandbox *sb;
	unsigned parts;
	unsigned tail;     /* lines of the log */
	unsigned limit;    /* events */
	struct span scope; /* empty: the plain text form */
	struct buf logs;
	struct buf events;
	bool truncated;
	bool has_usage;
	struct driver_usage usage;
	const char *warnings[4];
	unsigned n_warnings;
	void (*done)(struct report *rp); /* answers the request */
};

/* Collects and calls `done`, unless the client goes before. The report is the arena's. */
void report_start(struct report *rp);

#endif
