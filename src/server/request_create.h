/* The body of POST /sandboxes, checked in the order of the public server. */
#ifndef OSB_SERVER_REQUEST_CREATE_H
#define OSB_SERVER_REQUEST_CREATE_H

#include "server/create.h"
#include "server/request.h"

/* Fills the creation, which keeps nothing of `body`. False: *rf says why not. */
bool request_create(const struct manager *m, const json_t *body, struct creation *c,
		    struct refusal *rf);

/* Its volumes, in request_volumes.c. */
bool request_volumes(const struct config *config, const json_t *list, struct creation *c,
		     struct refusal *rf);

#endif
