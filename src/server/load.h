/* Sandboxes of the records, at the start: what was promised before this server was there. */
#ifndef OSB_SERVER_LOAD_H
#define OSB_SERVER_LOAD_H

#include "server/manager.h"

int load_sandboxes(struct manager *m, struct err *e);

#endif
