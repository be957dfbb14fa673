/* GET /files/download: a file, a range of its bytes, or some of its lines.
 *
 * A job opens the file. Small ones it reads at once, which also tells the true length of those that
 * lie about it (/proc, /sys); large ones leave by sendfile. A file that says it is small and does
 * not end is sent as it is read, in steps. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "codec/range.h"
#include "codec/url.h"
#include "execd/filejob.h"
#include "execd/linecut.h"
#include "execd/newfile.h"

#define SMALL KIB(64)

struct download {
	const char *path;
	struct stat st;
	struct linecut cut;
	char *piece; /* SMALL bytes, in the job's arena, for lines */
	off_t at;
	int fd;
	bool lines;
	bool whole;   /* `out` is all of it */
	bool started; /* an answer of unknown length has */
	bool ended;   /* nothing more to read */
};

/* --- on the thread --- */

/* One piece into memory; 0 at the end of the file. Something that would make us wait has ended. */
static ssize_t read_piece(struct filejob *f, char *to, size_t size)
{
	struct download *d = f->user;
	size_t got = 0;

	while (got < size) {
		ssize_t n = pread(d->fd, to + got, size - got, d->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN && got == 0)
			return -errno;
		if (n <= 0) {
			d->ended = true;
			break;
		}
		got += (size_t)n;
		d->at += n;
	}
	return (ssize_t)got;
}

static void piece_work(struct filejob *f)
{
	struct download *d = f->user;
	struct err e = ERR_INIT;
	ssize_t n;

	if (!d->lines) {
		(void)buf_reserve(&f->out, SMALL);
		n = buf_failed(&f->out) ? -ENOMEM : read_piece(f, f->out.data, SMALL);
		f->out.len = n > 0 ? (size_t)n : 0;
	} else {
		/* lines that are passed over give nothing to send */
		do {
			n = read_piece(f, d->piece, SMALL);
			if (n > 0 && linecut_feed(&d->cut, span_of(d->piece, (size_t)n), &f->out))
				d->ended = true;
		} while (n > 0 && !d->ended && f->out.len < SMALL / 2);
	}
	if (n < 0) {
		(void)err_code(&e, (int)n, "read %s", d->path);
		filejob_fail_err(f, &e);
	}
}

static int open_regular(struct download *d, struct err *e)
{
	int r;

	/* look before opening: that alone can rewind a tape or start a watchdog */
	if (stat(d->path, &d->st) < 0)
		return err_sys(e, "%s", d->path);
	r = newfile_check_regular(d->path, d->st.st_mode, e);
	if (r < 0)
		return r;
	d->fd = open(d->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &d->st) < 0)
		return err_sys(e, "open %s", d->path);
	return newfile_check_regular(d->path, d->st.st_mode, e);
}

static void open_work(struct filejob *f)
{
	struct download *d = f->user;
	struct err e = ERR_INIT;

	if (open_regular(d, &e) < 0)
		filejob_fail_file(f, &e);
	else if (d->lines || d->st.st_size <= (off_t)SMALL)
		piece_work(f);
	d->whole = d->ended;
}

/* --- back on the loop: sending --- */

static void send_piece(struct filejob *f);

static void download_drain(struct http_req *r)
{
	struct filejob *f = r->user;

	if (f != NULL && f->waiting)
		filejob_start(f, piece_work);
}

static void start_unknown(struct filejob *f, const char *type)
{
	struct download *d = f->user;

	d->started = true;
	f->after = send_piece;
	f->req->on_drain = download_drain;
	http_header(f->req, "Content-Type", type);
	http_start(f->req, 200, HTTP_LENGTH_UNKNOWN);
	send_piece(f);
}

static void send_piece(struct filejob *f)
{
	struct download *d = f->user;
	struct http_req *r = f->req;
	int full;

	if (r == NULL) {
		filejob_end(f);
		return;
	}
	if (f->status != 0 || buf_failed(&f->out)) { /* too late for another answer */
		filejob_end(f);
		http_abort(r);
		return;
	}
	full = http_write(r, f->out.data, f->out.len);
	buf_clear(&f->out);
	if (f->req == NULL || full < 0) {
		filejob_end(f);
	} else if (d->ended) {
		filejob_end(f);
		http_end(r);
	} else if (full != WIRE_FULL) {
		filejob_start(f, piece_work);
	} else {
		filejob_wait(f);
	}
}

/* `attachment; filename="name"`, in the way that any byte of the name survives. */
static void add_disposition(struct http_req *r, const char *path)
{
	struct span name = span_str(path_base(path));
	char *out = arena_alloc(&r->arena, name.len * 3 + 1);
	bool plain = true;
	ptrdiff_t len;

	for (size_t i = 0; i < name.len; i++)
		plain &= name.p[i] >= ' ' && name.p[i] <= '~' && name.p[i] != '"' &&
			 name.p[i] != '\\' && name.p[i] != '%';
	if (plain) {
		http_header(
			r, "Content-Disposition",
			arena_printf(&r->arena, "attachment; filename=\"%.*s\"", SPAN_FMT(name)));
		return;
	}
	len = out != NULL ? url_encode(name, URL_KEEP_UNRESERVED, out, name.len * 3) : -ENOMEM;
	if (len >= 0)
		http_header(r, "Content-Disposition",
			    arena_printf(&r->arena,
					 "attachment; filename=\"%.*s\"; filename*=UTF-8''%.*s",
					 (int)len, out, (int)len, out));
}

/* If-Modified-Since, as far as a time can tell. */
static bool not_modified(const struct http_req *r, int64_t mtime)
{
	struct span since = http_field(r, "If-Modified-Since");
	int64_t t;

	return since.p != NULL && http_field(r, "Range").p == NULL && clock_parse_http(since, &t) &&
	       mtime <= t;
}

/* If-Range: the range counts only if the file is the one the client has a part of. */
static bool range_holds(const struct http_req *r, int64_t mtime)
{
	struct span cond = http_field(r, "If-Range");
	int64_t t;

	return cond.p == NULL || (clock_parse_http(cond, &t) && t == mtime);
}

static void refuse_range(struct filejob *f, enum range_result result, uint64_t size)
{
	struct http_req *r = f->req;
	char text[RANGE_TEXT_SIZE];

	(void)range_content_range(text, NULL, size);
	http_header(r, "Content-Range", text);
	filejob_end(f);
	if (result == RANGE_MALFORMED)
		api_error(r, 416, API_UNKNOWN, "invalid range");
	else
		http_reply(r, 416, API_TEXT_TYPE, SPAN_LIT("range not satisfiable"));
}

/* A file of known length, or a part of it. */
static void send_known(struct filejob *f)
{
	struct download *d = f->user;
	uint64_t size = d->whole ? f->out.len : (uint64_t)d->st.st_size;
	struct span field = http_field(f->req, "Range");
	struct range part = { 0, size - 1 };
	enum range_result got = RANGE_WHOLE;
	char text[RANGE_TEXT_SIZE], when[CLOCK_HTTP_SIZE];
	struct http_req *r = f->req;
	int status = 200;

	if (field.p != NULL && size > 0 && range_holds(r, d->st.st_mtim.tv_sec))
		got = range_parse(field, size, &part);
	if (got == RANGE_MALFORMED || got == RANGE_UNSATISFIABLE) {
		refuse_range(f, got, size);
		return;
	}
	(void)clock_http(d->st.st_mtim.tv_sec, when);
	http_header(r, "Last-Modified", when);
	http_header(r, "Accept-Ranges", "bytes");
	if (not_modified(r, d->st.st_mtim.tv_sec)) {
		filejob_end(f);
		http_reply(r, 304, NULL, span_of(NULL, 0));
		return;
	}
	add_disposition(r, d->path);
	if (got == RANGE_PART) {
		status = 206;
		(void)range_content_range(text, &part, size);
		http_header(r, "Content-Range", text);
	}
	(void)filejob_detach(f);
	if (d->whole) {
		http_reply(r, status, "application/octet-stream",
			   size > 0 ? span_of(f->out.data + part.first, range_len(part))
				    : span_of(NULL, 0));
		filejob_end(f);
		return;
	}
	http_header(r, "Content-Type", "application/octet-stream");
	http_start(r, status, (int64_t)range_len(part));
	http_send_file(r, TAKE_FD(d->fd), (off_t)part.first);
	filejob_end(f);
}

static void opened(struct filejob *f)
{
	struct download *d = f->user;

	if (f->req == NULL || f->status != 0) {
		filejob_answer(f);
	} else if (d->lines) {
		start_unknown(f, API_TEXT_TYPE);
	} else if (d->whole || d->st.st_size > (off_t)SMALL) {
		send_known(f);
	} else {
		add_disposition(f->req, d->path);
		start_unknown(f, "application/octet-stream");
	}
}

static void download_release(struct filejob *f)
{
	struct download *d = f->user;

	fd_close(&d->fd);
}

static void download_gone(struct filejob *f)
{
	filejob_end(f);
}

/* "offset" and "limit". False: answered. */
static bool read_lines_query(struct http_req *r, bool *ret_lines, uint64_t *offset, uint64_t *limit)
{
	struct span from = http_query(r, "offset", 0), count = http_query(r, "limit", 0);

	*ret_lines = from.p != NULL || count.p != NULL;
	*offset = 1;
	*limit = UINT64_MAX;
	if ((from.p != NULL && (!span_u64(from, offset) || *offset < 1)) ||
	    (count.p != NULL && (!span_u64(count, limit) || *limit < 1))) {
		api_error(r, 400, API_INVALID_BODY,
			  "offset and limit are numbers of lines, 1 or greater");
		return false;
	}
	if (*ret_lines && http_field(r, "Range").p != NULL) {
		api_error(r, 400, API_INVALID_BODY,
			  "offset and limit cannot be combined with a Range");
		return false;
	}
	return true;
}

void files_download(struct http_req *r)
{
	const char *path = api_need_query(r, "path");
	uint64_t offset, limit;
	struct download *d;
	struct filejob *f;
	bool lines;

	if (path == NULL || !read_lines_query(r, &lines, &offset, &limit))
		return;
	f = filejob_new(r);
	if (f == NULL)
		return;
	d = arena_zalloc(&f->arena, sizeof(*d));
	if (d != NULL && lines)
		d->piece = arena_alloc(&f->arena, SMALL);
	if (d == NULL || (lines && d->piece == NULL)) {
		filejob_refuse(f, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	d->fd = -EBADF;
	d->lines = lines;
	linecut_init(&d->cut, offset, limit);
	f->user = d;
	f->release = download_release;
	d->path = filejob_path(f, span_str(path));
	f->after = opened;
	f->gone = download_gone;
	filejob_start(f, open_work);
}
