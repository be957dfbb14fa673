#include "execd/sink.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/json.h"
#include "execd/api.h"
#include "execd/copyfd.h"
#include "execd/env.h"

static bool PRINTF(4, 5)
	fail(struct sink_error *err, int status, const char *code, const char *fmt, ...)
{
	va_list ap;

	err->status = status;
	err->code = code;
	va_start(ap, fmt);
	(void)err_vset(&err->err, EINVAL, fmt, ap);
	va_end(ap);
	return false;
}

/* Something the system refused. */
static bool fail_sys(struct sink_error *err, const struct err *e)
{
	if (e->code == EISDIR || e->code == EMEDIUMTYPE)
		return fail(err, 400, API_INVALID_FILE, "%s", e->msg);
	return fail(err, 500, API_RUNTIME_ERROR, "error writing file: %s", e->msg);
}

/* About what the client wrote, unless the blame is ours. */
static bool fail_meta(struct sink_error *err, const char *what, const struct err *e)
{
	if (e->code == ENOMEM)
		return fail(err, 500, API_RUNTIME_ERROR, "out of memory");
	return fail(err, 400, API_INVALID_FILE_METADATA, "%s: %s", what, e->msg);
}

bool sink_init(struct sink *s, const struct execd *x, struct span content_type, bool sync,
	       struct sink_error *err)
{
	struct err e = ERR_INIT;

	s->x = x;
	s->sync = sync;
	s->spool_fd = -EBADF;
	s->meta = BUF_INIT(SINK_MAX_META);
	if (multipart_init(&s->form, content_type, &multipart_default_limits, &e) < 0)
		return fail(err, 400, API_INVALID_FILE, "multipart form is empty: %s", e.msg);
	return true;
}

/* Room for one more description and one more file. */
static bool grow(struct sink *s, struct sink_error *err)
{
	unsigned want = MAX(s->cap * 2, 8u);
	struct sink_spooled *spooled;
	struct sink_meta *metas;

	if (MAX(s->n_metas, s->n_files) < s->cap)
		return true;
	metas = reallocarray(s->metas, want, sizeof(metas[0]));
	if (metas != NULL)
		s->metas = metas;
	spooled = reallocarray(s->spooled, want, sizeof(spooled[0]));
	if (spooled != NULL)
		s->spooled = spooled;
	if (metas == NULL || spooled == NULL)
		return fail(err, 500, API_RUNTIME_ERROR, "out of memory");
	s->cap = want;
	return true;
}

/* --- files --- */

/* Put the oldest one in its place. */
static bool commit_first(struct sink *s, struct sink_error *err)
{
	struct err e = ERR_INIT;
	int r = newfile_commit(&s->pending[0].file, &s->pending[0].perm, s->sync, &e);

	newfile_abort(&s->pending[0].file);
	s->n_pending--;
	memmove(&s->pending[0], &s->pending[1], s->n_pending * sizeof(s->pending[0]));
	return r == 0 || fail_sys(err, &e);
}

static bool open_target(struct sink *s, const struct sink_meta *m, struct sink_error *err)
{
	struct err e = ERR_INIT;

	if (s->n_pending == SINK_MAX_PENDING && !commit_first(s, err))
		return false;
	s->pending[s->n_pending].perm = m->perm;
	if (newfile_open(&s->pending[s->n_pending].file, m->path, m->perm.has_mode, &e) < 0) {
		newfile_abort(&s->pending[s->n_pending].file);
		return fail_sys(err, &e);
	}
	s->n_pending++;
	return true;
}

static bool begin_file(struct sink *s, struct sink_error *err)
{
	struct err e = ERR_INIT;

	if (!grow(s, err))
		return false;
	s->spooled[s->n_files] = (struct sink_spooled){ 0 };
	s->direct = s->n_files < s->n_metas;
	if (s->direct)
		return open_target(s, &s->metas[s->n_files], err);
	if (s->spool_fd < 0)
		s->spool_fd = copyfd_spool(&e);
	if (s->spool_fd < 0)
		return fail_sys(err, &e);
	s->spooled[s->n_files].offset = lseek(s->spool_fd, 0, SEEK_END);
	return true;
}

static bool file_data(struct sink *s, struct span data, struct sink_error *err)
{
	int fd = s->direct ? s->pending[s->n_pending - 1].file.fd : s->spool_fd;
	struct err e = ERR_INIT;

	if (copyfd_write(fd, data.p, data.len, &e) < 0)
		return fail_sys(err, &e);
	if (!s->direct)
		s->spooled[s->n_files].len += data.len;
	return true;
}

/* A file that came before its description. */
static bool place_spooled(struct sink *s, unsigned i, struct sink_error *err)
{
	struct err e = ERR_INIT;

	if (!open_target(s, &s->metas[i], err))
		return false;
	if (copyfd(s->spool_fd, s->spooled[i].offset, s->spooled[i].len,
		   s->pending[s->n_pending - 1].file.fd, &e) < 0)
		return fail_sys(err, &e);
	return true;
}

/* --- descriptions --- */

static bool read_meta(struct sink *s, const json_t *v, struct sink_meta *ret,
		      struct sink_error *err)
{
	struct span path = SPAN_LIT("");
	struct err e = ERR_INIT;
	struct perm_want want;

	if (json_need_object(v, &e) < 0 || json_get_span(v, "path", JSON_ANY_CASE, &path, &e) < 0 ||
	    perm_read(v, &want, &e) < 0)
		return fail_meta(err, "invalid metadata", &e);
	if (path.len == 0)
		return fail(err, 400, API_INVALID_FILE_METADATA, "metadata path is empty");
	if (path.p[path.len - 1] == '/')
		return fail(err, 400, API_INVALID_FILE, "path is a directory: %.*s",
			    SPAN_FMT(path));
	if (s->users == NULL)
		s->users = users_load();
	if (s->users == NULL)
		return fail(err, 500, API_RUNTIME_ERROR, "out of memory");
	if (perm_resolve(&want, s->users, &ret->perm, &e) < 0)
		return fail_sys(err, &e);
	if (env_expand_path(s->x, path, &ret->path, &e) < 0)
		return fail_meta(err, "invalid path", &e);
	return true;
}

static bool end_meta(struct sink *s, struct sink_error *err)
{
	static const struct json_limits limits = {
		.max_bytes = SINK_MAX_META,
		.max_depth = 8,
		.max_values = 1024,
		.first_only = true,
	};
	AUTO(json_decref) json_t *v = NULL;
	struct sink_meta m = { 0 };
	struct err e = ERR_INIT;

	if (json_parse(buf_span(&s->meta), &limits, &v, &e) < 0)
		return fail_meta(err, "invalid metadata", &e);
	if (!grow(s, err) || !read_meta(s, v, &m, err))
		return false;
	s->metas[s->n_metas++] = m;
	return s->n_metas > s->n_files || place_spooled(s, s->n_metas - 1, err);
}

/* --- the form --- */

static bool begin_part(struct sink *s, struct sink_error *err)
{
	if (span_is(s->form.part.name, "metadata")) {
		s->part = SINK_META;
		buf_clear(&s->meta);
		return true;
	}
	if (span_is(s->form.part.name, "file")) {
		s->part = SINK_FILE;
		return begin_file(s, err);
	}
	s->part = SINK_OTHER;
	return true;
}

static bool part_data(struct sink *s, struct span data, struct sink_error *err)
{
	int r;

	switch (s->part) {
	case SINK_META:
		r = buf_add_span(&s->meta, data);
		if (r == -ENOMEM)
			return fail(err, 500, API_RUNTIME_ERROR, "out of memory");
		if (r < 0)
			return fail(err, 400, API_INVALID_FILE_METADATA, "metadata is too large");
		return true;
	case SINK_FILE:
		return file_data(s, data, err);
	case SINK_OTHER:
		break;
	}
	return true;
}

static bool end_part(struct sink *s, struct sink_error *err)
{
	switch (s->part) {
	case SINK_META:
		return end_meta(s, err);
	case SINK_FILE:
		s->n_files++;
		return true;
	case SINK_OTHER:
		break;
	}
	return true;
}

bool sink_feed(struct sink *s, struct span data, struct sink_error *err)
{
	struct err e = ERR_INIT;
	bool ok = true;

	while (ok) {
		struct span piece = { NULL, 0 };
		int r = multipart_next(&s->form, &data, &piece, &e);

		if (r < 0)
			return fail(err, 400, API_INVALID_FILE, "multipart form is empty: %s",
				    e.msg);
		switch ((enum multipart_event)r) {
		case MULTIPART_MORE:
		case MULTIPART_END:
			return true;
		case MULTIPART_PART:
			ok = begin_part(s, err);
			break;
		case MULTIPART_DATA:
			ok = part_data(s, piece, err);
			break;
		case MULTIPART_PART_END:
			ok = end_part(s, err);
			break;
		}
	}
	return false;
}

bool sink_finish(struct sink *s, struct sink_error *err)
{
	struct err e = ERR_INIT;

	if (multipart_finish(&s->form, &e) < 0)
		return fail(err, 400, API_INVALID_FILE, "multipart form is empty: %s", e.msg);
	if (s->n_metas == 0)
		return fail(err, 400, API_INVALID_FILE_METADATA, "metadata part is missing");
	if (s->n_files == 0)
		return fail(err, 400, API_INVALID_FILE_CONTENT, "file part is missing");
	if (s->n_metas != s->n_files)
		return fail(err, 400, API_INVALID_FILE,
			    "metadata and file count mismatch: %u and %u", s->n_metas, s->n_files);
	while (s->n_pending > 0)
		if (!commit_first(s, err))
			return false;
	return true;
}

void sink_free(struct sink *s)
{
	for (unsigned i = 0; i < s->n_pending; i++)
		newfile_abort(&s->pending[i].file);
	s->n_pending = 0;
	for (unsigned i = 0; i < s->n_metas; i++)
		free(s->metas[i].path);
	s->n_metas = 0;
	free(TAKE(s->metas));
	free(TAKE(s->spooled));
	fd_close(&s->spool_fd);
	users_free(TAKE(s->users));
	buf_free(&s->meta);
}
