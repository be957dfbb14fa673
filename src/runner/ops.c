#include "runner/ops.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/util.h"
#include "runner/box.h"
#include "runner/peer.h"
#include "runner/sweep.h"

static void reply(struct runner *r, const struct msg_head *ask, const struct err *e, int fd)
{
	struct msg_reply m = { .head = { ask->type, sizeof(m), ask->cookie }, .err = *e };

	peer_send(r, &m, sizeof(m), fd);
}

/* The sandbox a request names; NULL has been answered already. */
static struct box *named_box(struct runner *r, const char id[MSG_ID_SIZE], struct err *e)
{
	struct box *b = msg_id_ok(id) ? box_find(r, id) : NULL;

	if (b == NULL)
		(void)err_set(e, ENOENT, "no such sandbox");
	return b;
}

static bool op_hello(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_hello *q = packet;
	struct msg_hello_reply m = {
		.head = { MSG_HELLO, sizeof(m), q->head.cookie },
		.version = MSG_VERSION,
		.features = r->features,
	};

	if (q->version != MSG_VERSION)
		(void)err_set(&m.err, EPROTO, "this runner speaks version %u", MSG_VERSION);
	memcpy(m.tag, r->tag, sizeof(m.tag));
	memcpy(m.boot_id, r->boot_id, sizeof(m.boot_id));
	memcpy(m.missing, r->missing, sizeof(m.missing));
	r->greeted = m.err.code == 0;
	peer_send(r, &m, sizeof(m), -EBADF);
	return true;
}

static bool op_create(struct runner *r, const void *packet, int *fds)
{
	const struct msg_create *q = packet;
	struct msg_item m = { .head = { MSG_CREATE, sizeof(m), q->head.cookie } };
	int res;

	res = msg_check_create(q, &m.err);
	if (res == 0)
		res = box_create(r, q, fds, &m.err);
	if (res < 0)
		peer_send(r, &m, sizeof(m), -EBADF);
	return true;
}

static bool op_delete(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_id *q = packet;
	struct err e = ERR_INIT;
	struct box *b = named_box(r, q->id, &e);

	if (b == NULL || box_delete(b, q->head.cookie, &e) < 0)
		reply(r, &q->head, &e, -EBADF);
	return true;
}

static bool op_pause(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_id *q = packet;
	struct err e = ERR_INIT;
	struct box *b = named_box(r, q->id, &e);

	if (b == NULL || box_pause(b, q->head.cookie, &e) < 0)
		reply(r, &q->head, &e, -EBADF);
	return true;
}

static bool op_resume(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_id *q = packet;
	struct err e = ERR_INIT;
	struct box *b = named_box(r, q->id, &e);

	if (b != NULL)
		(void)box_resume(b, &e);
	reply(r, &q->head, &e, -EBADF);
	return true;
}

static bool op_list(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_plain *q = packet;
	struct map_cursor c = { 0 };
	struct err e = ERR_INIT;
	struct box *b;

	while ((b = map_next(&r->boxes, &c, NULL)) != NULL) {
		struct msg_item m = { .head = { MSG_ITEM, sizeof(m), q->head.cookie } };

		box_describe(b, &m);
		peer_send(r, &m, sizeof(m), -EBADF);
	}
	reply(r, &q->head, &e, -EBADF);
	return true;
}

static bool op_stat(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_id *q = packet;
	struct msg_stat_reply m = { .head = { MSG_STAT, sizeof(m), q->head.cookie } };
	struct box *b = named_box(r, q->id, &m.err);

	if (b != NULL)
		box_stat(b, &m);
	peer_send(r, &m, sizeof(m), -EBADF);
	return true;
}

static bool op_dial(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_dial *q = packet;
	struct err e = ERR_INIT;
	struct box *b = named_box(r, q->id, &e);
	int fd = -EBADF;

	if (q->port == 0 || (q->family != MSG_IP4 && q->family != MSG_IP6) || q->reserved != 0)
		(void)err_set(&e, EINVAL, "no such port or family");
	else if (b != NULL)
		(void)box_dial(b, q, &fd, &e);
	reply(r, &q->head, &e, fd);
	return true;
}

static bool op_sweep(struct runner *r, const void *packet, int *fds UNUSED)
{
	const struct msg_plain *q = packet;
	struct msg_sweep_reply m = { .head = { MSG_SWEEP, sizeof(m), q->head.cookie } };

	sweep_all(r, &m.swept, &m.left);
	peer_send(r, &m, sizeof(m), -EBADF);
	return true;
}

static bool (*const ops[MSG_TYPE_END])(struct runner *r, const void *packet, int *fds) = {
	[MSG_HELLO] = op_hello, [MSG_CREATE] = op_create, [MSG_DELETE] = op_delete,
	[MSG_PAUSE] = op_pause, [MSG_RESUME] = op_resume, [MSG_LIST] = op_list,
	[MSG_STAT] = op_stat,   [MSG_DIAL] = op_dial,     [MSG_SWEEP] = op_sweep,
};

bool ops_run(struct runner *r, const void *packet, int *fds)
{
	const struct msg_head *head = packet;

	if (ops[head->type] == NULL || (!r->greeted && head->type != MSG_HELLO))
		return false;
	return ops[head->type](r, packet, fds);
}

bool ops_refuse(struct runner *r, const void *packet, size_t len)
{
	const struct msg_create *q = packet;
	struct msg_item m = { .head = { MSG_CREATE, sizeof(m), 0 } };

	/* no other request has descriptors */
	if (!r->greeted || len != sizeof(*q) || q->head.type != MSG_CREATE)
		return false;
	m.head.cookie = q->head.cookie;
	(void)err_code(&m.err, EMFILE, "receive descriptors");
	peer_send(r, &m, sizeof(m), -EBADF);
	return true;
}
