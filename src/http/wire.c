#include "http/wire.h"

#include <limits.h>
#include <string.h>

/* From this size on a write goes straight from the caller's memory, for the price of a system call.
 */
#define DIRECT_MIN KIB(16)
/* Most bytes of a file per wake-up: one fast reader must not starve the others. */
#define FILE_TURN MIB(2)
#define FILE_COPY KIB(64)

static void update_want(struct wire *w)
{
	unsigned want = 0;

	if (w->dead)
		return;
	if (!w->paused && !w->eof)
		want |= STREAM_READABLE;
	if (w->blocked)
		want |= STREAM_WRITABLE;
	stream_want(&w->stream, want);
}

static void later(struct wire *w)
{
	/* a dead wire's memory may go before the turn ends */
	if (!w->dead)
		io_defer_add(stream_loop(&w->stream), &w->turn);
}

/* Noted now, told at the end of the turn: the caller may be in the middle of something. */
static void fail(struct wire *w, int error)
{
	if (w->error == 0)
		w->error = error;
	later(w);
}

static void drop_file(struct wire *w)
{
	fd_close(&w->file_fd);
	w->file_left = 0;
}

size_t wire_pending(const struct wire *w)
{
	return w->out.len - w->out_sent;
}

/* --- writing --- */

static void sent(struct wire *w, size_t n)
{
	w->out_sent += n;
	if (w->out_sent == w->out.len) {
		buf_free(&w->out);
		w->out_sent = 0;
	}
	if (w->ops->progress != NULL)
		w->ops->progress(w);
}

/* Send what is in `out`; false when it is not to go on (blocked or failed). */
static bool send_out(struct wire *w)
{
	while (wire_pending(w) > 0) {
		struct iovec iov = { w->out.data + w->out_sent, wire_pending(w) };
		ssize_t n = stream_writev(&w->stream, &iov, 1);

		if (n == -EAGAIN) {
			w->blocked = true;
			return false;
		}
		if (n < 0) {
			fail(w, (int)-n);
			return false;
		}
		sent(w, (size_t)n);
	}
	return true;
}

/* For streams that cannot sendfile and files that cannot be sent from: through `out`. */
static ssize_t copy_file(struct wire *w)
{
	size_t len = (size_t)MIN(w->file_left, (uint64_t)FILE_COPY);
	ssize_t n;

	if (buf_reserve(&w->out, len) < 0)
		return -ENOMEM;
	do
		n = pread(w->file_fd, w->out.data + w->out.len, len, w->file_offset);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	w->out.len += (size_t)n;
	w->file_offset += n;
	return n;
}

static bool send_file(struct wire *w)
{
	uint64_t turn = FILE_TURN;

	while (w->file_left > 0) {
		size_t len = (size_t)MIN(w->file_left, (uint64_t)MIB(1));
		ssize_t n = w->stream.ops->sendfile(&w->stream, w->file_fd, &w->file_offset, len);

		if (n == -ENOSYS)
			n = copy_file(w);
		if (n == -EAGAIN) {
			w->blocked = true;
			return false;
		}
		if (n <= 0) { /* 0: shorter than promised, the answer cannot be completed */
			fail(w, n < 0 ? (int)-n : EIO);
			return false;
		}
		w->file_left -= (uint64_t)n;
		if (wire_pending(w) > 0 && !send_out(w))
			return false;
		if (w->ops->progress != NULL)
			w->ops->progress(w);
		if (w->file_left > 0 && (uint64_t)n >= turn) {
			w->blocked = true; /* writable at once, but after the others */
			return false;
		}
		turn -= MIN(turn, (uint64_t)n);
	}
	drop_file(w);
	return true;
}

/* Send all that can go and tell the owner what that means. */
static void pump_out(struct wire *w)
{
	bool all;

	w->blocked = false;
	all = send_out(w) && (w->file_fd < 0 || send_file(w));
	if (w->error != 0)
		return;
	update_want(w);
	if (w->full && wire_pending(w) <= w->soft_limit / 4) {
		w->full = false;
		if (w->ops->drained != NULL)
			w->ops->drained(w);
	}
	if (w->dead || !all || wire_pending(w) > 0)
		return; /* the callback wrote again: next turn */
	if (w->half_close) {
		int r = w->stream.ops->shutdown(&w->stream);

		w->half_close = false;
		if (r < 0 && r != -EAGAIN)
			fail(w, -r);
	}
	if (w->unflushed) {
		w->unflushed = false;
		if (w->ops->flushed != NULL)
			w->ops->flushed(w);
	}
}

static int append(struct wire *w, const struct iovec *iov, int n_iov, size_t skip)
{
	if (w->out_sent > 0) {
		buf_consume(&w->out, w->out_sent);
		w->out_sent = 0;
	}
	for (int i = 0; i < n_iov; i++) {
		size_t from = MIN(skip, iov[i].iov_len);

		skip -= from;
		if (buf_add(&w->out, (char *)iov[i].iov_base + from, iov[i].iov_len - from) < 0)
			return w->out.starved ? -ENOMEM : -ENOBUFS;
	}
	return 0;
}

#define MAX_PIECES 4

/* Straight from the caller's memory, behind what is pending. Returns how many of the caller's bytes
 * have gone. */
static size_t write_direct(struct wire *w, const struct iovec *iov, int n_iov)
{
	struct iovec all[MAX_PIECES + 1];
	size_t pending = wire_pending(w), done;
	int n = 0;
	ssize_t r;

	if (pending > 0)
		all[n++] = (struct iovec){ w->out.data + w->out_sent, pending };
	for (int i = 0; i < n_iov; i++)
		all[n++] = iov[i];
	r = stream_writev(&w->stream, all, n);
	if (r == -EAGAIN) {
		w->blocked = true;
		update_want(w);
		return 0;
	}
	if (r < 0) {
		fail(w, (int)-r);
		return 0;
	}
	done = (size_t)r;
	if (pending > 0)
		sent(w, MIN(done, pending));
	else if (w->ops->progress != NULL)
		w->ops->progress(w);
	return done - MIN(done, pending);
}

int wire_writev(struct wire *w, const struct iovec *iov, int n_iov)
{
	size_t len = 0, gone = 0;
	int r = 0;

	if (w->dead || w->error != 0)
		return -EPIPE;
	for (int i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	w->unflushed = true;
	if (len >= DIRECT_MIN && n_iov <= MAX_PIECES && !w->blocked && w->file_fd < 0) {
		gone = write_direct(w, iov, n_iov);
		if (w->error != 0)
			return -EPIPE;
	}
	if (gone < len)
		r = append(w, iov, n_iov, gone);
	if (r < 0) {
		fail(w, -r);
		return -EPIPE;
	}
	later(w);
	if (wire_pending(w) > w->soft_limit)
		w->full = true;
	return w->full ? WIRE_FULL : 0;
}

int wire_write_whole(struct wire *w, const struct iovec *iov, int n_iov)
{
	size_t len = wire_pending(w), limit = w->out.max;
	int r;

	for (int i = 0; i < n_iov; i++)
		len += iov[i].iov_len;
	w->out.max = MAX(limit, len);
	r = wire_writev(w, iov, n_iov);
	w->out.max = limit;
	return r;
}

int wire_write(struct wire *w, const void *p, size_t len)
{
	struct iovec iov = { (void *)(uintptr_t)p, len };

	return wire_writev(w, &iov, 1);
}

void wire_send_file(struct wire *w, int fd, off_t offset, uint64_t len)
{
	drop_file(w);
	if (w->dead) {
		(void)close(fd);
		return;
	}
	w->file_fd = fd;
	w->file_offset = offset;
	w->file_left = len;
	w->unflushed = true;
	later(w);
}

void wire_flush(struct wire *w)
{
	if (!w->dead && w->error == 0 && !w->blocked)
		(void)send_out(w);
	update_want(w);
}

void wire_shutdown(struct wire *w)
{
	w->half_close = true;
	w->unflushed = true;
	later(w);
}

/* --- reading --- */

/* Offer data[0..len); what the owner does not take is kept in `in` (where it may lie already). */
static void offer(struct wire *w, char *data, size_t len)
{
	size_t used = w->ops->bytes(w, data, len);

	if (w->dead)
		return;
	used = MIN(used, len);
	if (data == w->in.data) {
		buf_consume(&w->in, used);
		if (w->in.len == 0)
			buf_free(&w->in);
	} else if (used < len && buf_add(&w->in, data + used, len - used) < 0) {
		fail(w, -buf_error(&w->in));
	}
}

static void read_some(struct wire *w)
{
	struct io_loop *l = stream_loop(&w->stream);
	char *data = l->read_buf;
	size_t room = IO_READ_SIZE;
	ssize_t n;

	if (w->in.len > 0) {
		room = MIN(room, w->in.max - MIN(w->in.len, w->in.max));
		if (room == 0 || buf_reserve(&w->in, MIN(room, MAX(w->in.len, KIB(4)))) < 0) {
			fail(w, room > 0 && w->in.starved ? ENOMEM : EMSGSIZE);
			return;
		}
		room = MIN(room, w->in.cap - w->in.len);
		data = w->in.data + w->in.len;
	}
	n = stream_read(&w->stream, data, room);
	if (n == -EAGAIN) {
		update_want(w); /* TLS may wait for the other direction now */
		return;
	}
	if (n < 0) {
		fail(w, (int)-n);
		return;
	}
	if (n == 0) {
		w->eof = true;
		update_want(w);
		if (w->ops->eof != NULL)
			w->ops->eof(w);
		return;
	}
	if (w->stream.secure != NULL && (size_t)n == room) {
		w->read_again = true;
		later(w);
	}
	if (w->ops->progress != NULL)
		w->ops->progress(w);
	if (w->dead)
		return;
	if (data == l->read_buf) {
		offer(w, data, (size_t)n);
	} else {
		w->in.len += (size_t)n;
		offer(w, w->in.data, w->in.len);
	}
}

static void on_ready(struct stream *s, unsigned events)
{
	struct wire *w = CONTAINER_OF(s, struct wire, stream);

	if ((events & STREAM_WRITABLE) != 0 && w->blocked)
		pump_out(w);
	if (!w->dead && w->error == 0 && (events & STREAM_READABLE) != 0 && !w->paused && !w->eof)
		read_some(w);
	if (!w->dead && w->error == 0)
		update_want(w);
}

static void on_turn(struct io_defer *d)
{
	struct wire *w = CONTAINER_OF(d, struct wire, turn);

	if (w->error == 0 && w->offer && !w->paused) {
		w->offer = false;
		offer(w, w->in.len > 0 ? w->in.data : stream_loop(&w->stream)->read_buf, w->in.len);
		if (!w->dead && w->error == 0 && !w->paused && w->eof && w->ops->eof != NULL)
			w->ops->eof(w); /* it came while nobody listened */
	}
	if (!w->dead && w->error == 0 && w->read_again && !w->paused && !w->eof) {
		w->read_again = false;
		read_some(w);
	}
	if (!w->dead && w->error == 0 && !w->blocked)
		pump_out(w);
	if (!w->dead && w->error == 0)
		update_want(w);
	if (!w->dead && w->error != 0) {
		stream_want(&w->stream, 0);
		w->dead = true;
		w->ops->broken(w, w->error);
	}
}

void wire_pause(struct wire *w)
{
	w->paused = true;
	w->offer = false;
	update_want(w);
}

void wire_resume(struct wire *w)
{
	w->paused = false;
	w->offer = true;
	w->read_again = w->stream.secure != NULL;
	update_want(w);
	later(w);
}

/* --- life --- */

int wire_open(struct io_loop *l, struct wire *w, int fd, const struct wire_ops *ops, size_t max_in,
	      size_t soft_limit, size_t hard_limit, struct err *e)
{
	int r;

	*w = (struct wire){
		.ops = ops,
		.free = ops->closed,
		.in = BUF_INIT(max_in),
		.out = BUF_INIT(hard_limit),
		.soft_limit = soft_limit,
		.file_fd = -EBADF,
	};
	io_defer_init(&w->turn, on_turn);
	r = stream_open(l, &w->stream, fd, &stream_plain_ops, on_ready, e);
	if (r < 0)
		return r;
	update_want(w);
	return 0;
}

void wire_take_over(struct wire *w, const struct wire_ops *ops, void *user)
{
	w->ops = ops;
	w->user = user;
	wire_resume(w);
}

static void on_closed(struct stream *s)
{
	struct wire *w = CONTAINER_OF(s, struct wire, stream);
	void (*release)(struct wire *) = w->free;

	buf_free(&w->in);
	buf_free(&w->out);
	if (w->ops->closed != NULL && w->ops->closed != release)
		w->ops->closed(w);
	if (release != NULL)
		release(w);
}

void wire_break(struct wire *w, int error)
{
	if (!w->dead)
		fail(w, error);
}

void wire_close(struct wire *w)
{
	if (w->stream.closing)
		return;
	w->dead = true;
	io_defer_cancel(&w->turn);
	drop_file(w);
	stream_close(&w->stream, on_closed);
}
