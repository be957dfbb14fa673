#include "http/tunnel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

struct tunnel {
	struct tunnel_options opt;
	struct wire *ends[2];
	bool ended[2]; /* that end has half-closed, and the other was told */
};

int tunnel_new(const struct tunnel_options *opt, struct tunnel **ret, struct err *e)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return err_code(e, ENOMEM, "tunnel");
	t->opt = *opt;
	*ret = t;
	return 0;
}

void tunnel_discard(struct tunnel *t)
{
	free(t);
}

/* A tunnel has no timer: silence is normal. A peer that is no longer there is found by TCP itself,
 * within some two minutes. */
static void keep_probing(int fd)
{
	static const struct {
		int level, name, value;
	} set[] = {
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 15 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 4 },
	};

	for (size_t i = 0; i < ARRAY_LEN(set); i++) /* no harm on a Unix socket */
		(void)setsockopt(fd, set[i].level, set[i].name, &set[i].value, sizeof(int));
}

void tunnel_join(struct tunnel *t, struct wire *a, struct wire *b)
{
	t->ends[0] = a;
	t->ends[1] = b;
	keep_probing(a->stream.fd);
	keep_probing(b->stream.fd);
}

static void tunnel_end(struct tunnel *t)
{
	/* their memory goes by itself, and nothing is called back any more */
	wire_close(t->ends[0]);
	wire_close(t->ends[1]);
	if (t->opt.over != NULL)
		t->opt.over(t->opt.ctx);
	free(t);
}

static unsigned side(const struct tunnel *t, const struct wire *w)
{
	return w == t->ends[0] ? 0 : 1;
}

static size_t tunnel_bytes(struct wire *w, char *data, size_t len)
{
	struct tunnel *t = w->user;
	struct wire *other = t->ends[1 - side(t, w)];

	if (len == 0)
		return 0;
	/* a wire that has broken says so at the end of the turn; its bytes have nowhere to go */
	if (wire_write(other, data, len) == WIRE_FULL)
		wire_pause(w);
	if (t->opt.activity != NULL)
		t->opt.activity(t->opt.ctx);
	return len;
}

/* Both have said all they had to say, and the other has got it. */
static void check_over(struct tunnel *t)
{
	if (t->ended[0] && t->ended[1] && wire_pending(t->ends[0]) == 0 &&
	    wire_pending(t->ends[1]) == 0)
		tunnel_end(t);
}

static void tunnel_eof(struct wire *w)
{
	struct tunnel *t = w->user;
	unsigned i = side(t, w);

	if (t->ended[i])
		return;
	t->ended[i] = true;
	wire_shutdown(t->ends[1 - i]);
	/* `flushed` of that one follows in any case, and looks whether it was the last */
}

static void tunnel_drained(struct wire *w)
{
	struct tunnel *t = w->user;

	wire_resume(t->ends[1 - side(t, w)]);
}

static void tunnel_flushed(struct wire *w)
{
	check_over(w->user);
}

static void tunnel_broken(struct wire *w, int error)
{
	(void)error;
	tunnel_end(w->user);
}

const struct wire_ops tunnel_ops = {
	.bytes = tunnel_bytes,
	.eof = tunnel_eof,
	.drained = tunnel_drained,
	.flushed = tunnel_flushed,
	.broken = tunnel_broken,
};
