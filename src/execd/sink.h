/* A multipart upload on its way to files: bytes of the form in, files in their places at the end.
 *
 * The i-th part called "metadata" describes the i-th called "file". Files whose description came
 * first, as all clients send it, are written straight to where they belong; others are put aside
 * until it comes. Nothing appears before the form is complete and sound (a form of very many files
 * apart: beyond SINK_MAX_PENDING the oldest is put in place to make room).
 *
 * Blocking, for jobs: one call at a time, from any thread. */
#ifndef OSB_EXECD_SINK_H
#define OSB_EXECD_SINK_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/multipart.h"
#include "execd/execd.h"
#include "execd/newfile.h"
#include "execd/users.h"

#define SINK_MAX_PENDING 64
#define SINK_MAX_META    KIB(64)

enum sink_part { SINK_OTHER, SINK_META, SINK_FILE };

struct sink_meta {
	char *path;
	struct perm perm;
};

struct sink_spooled {
	off_t offset;
	uint64_t len;
};

struct sink {
	const struct execd *x;
	struct multipart form;
	struct users *users;
	struct buf meta; /* the one being read */
	struct sink_meta *metas;
	struct sink_spooled *spooled; /* by number of the file; len 0 for those that were not */
	unsigned n_metas, n_files, cap;
	enum sink_part part;
	bool direct; /* the file being read goes to pending[n_pending - 1] */
	bool sync;
	int spool_fd;
	struct {
		struct newfile file;
		struct perm perm;
	} pending[SINK_MAX_PENDING];
	unsigned n_pending;
};

/* What is wrong with a form, as the API names it. */
struct sink_error {
	int status; /* 0: nothing */
	const char *code;
	struct err err;
};

/* False: not a multipart form, *err says so. */
bool sink_init(struct sink *s, const struct execd *x, struct span content_type, bool sync,
	       struct sink_error *err);
/* Some bytes of the form. False: it failed, only sink_free() is left. */
bool sink_feed(struct sink *s, struct span data, struct sink_error *err);
/* The form is over: put the files in their places. */
bool sink_finish(struct sink *s, struct sink_error *err);
/* Takes back what was not put in place. */
void sink_free(struct sink *s);

#endif
