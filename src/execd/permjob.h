/* A job about {path: {owner, group, mode}, ...}, the body of two routes. */
#ifndef OSB_EXECD_PERMJOB_H
#define OSB_EXECD_PERMJOB_H

#include "execd/filejob.h"
#include "execd/perm.h"

struct permjob {
	size_t n;
	struct permjob_item {
		const char *path;
		struct perm_want want;
	} items[];
};

/* Starts the work with `user` pointing to a struct permjob, or answers what is wrong. */
void permjob_start(struct http_req *r, struct span body, void (*work)(struct filejob *f));

#endif
