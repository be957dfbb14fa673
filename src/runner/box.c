#include "runner/box.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "runner/make.h"
#include "runner/peer.h"
#include "runner/sweep.h"
#include "sandbox/block.h"
#include "sandbox/disk.h"
#include "sandbox/leaf.h"
#include "sys/imsg.h"
#include "sys/process.h"

#define PAUSE_DEADLINE_MS 10000
#define LOOK_EVERY_MS     2 /* v1 freezers say nothing by themselves */
#define OOM_WAIT_MS       5000

static void wake_at(struct runner *r, uint64_t at_ms)
{
	if (r->loop.tick_at_ms == 0 || at_ms < r->loop.tick_at_ms)
		r->loop.tick_at_ms = at_ms;
}

struct box *box_find(struct runner *r, const char *id)
{
	return map_get(&r->boxes, span_str(id));
}

/* ---- telling ---- */

void box_describe(const struct box *b, struct msg_item *out)
{
	static const uint32_t states[] = {
		[BOX_MAKING] = MSG_STATE_RUNNING,  [BOX_RUNNING] = MSG_STATE_RUNNING,
		[BOX_PAUSING] = MSG_STATE_RUNNING, [BOX_PAUSED] = MSG_STATE_PAUSED,
		[BOX_DEAD] = MSG_STATE_DEAD,
	};
	struct net_names names;

	net_names(&b->r->net, b->rec.net_index, &names);
	memcpy(out->id, b->rec.id, sizeof(out->id));
	out->state = states[b->state];
	out->pid = b->rec.pid;
	out->status = b->status;
	out->network = b->rec.net_index != NET_NO_ADDR;
	out->started_ms = b->rec.started_ms;
	out->oom_kills = b->oom_kills;
	out->uid_base = ground_root_uid(&b->r->ground, block_uid_base(&b->r->blocks, b->row));
	(void)snprintf(out->ifname, sizeof(out->ifname), "%s", names.ifname);
	(void)snprintf(out->ip4, sizeof(out->ip4), "%s", names.ip4);
	(void)snprintf(out->ip6, sizeof(out->ip6), "%s", names.ip6);
}

static enum disk_way way_of(const struct box *b)
{
	if ((b->rec.flags & TABLE_DISK_IMAGE) != 0)
		return DISK_IMAGE;
	return (b->rec.flags & TABLE_DISK_QUOTA) != 0 ? DISK_QUOTA : DISK_NONE;
}

void box_stat(const struct box *b, struct msg_stat_reply *out)
{
	leaf_stat(&b->r->cgroups, b->rec.id, out);
	out->memory_limit_bytes = b->rec.limits.memory_bytes;
	out->pids_limit = b->rec.limits.pids;
	out->disk_limit_bytes = b->rec.limits.disk_bytes;
	out->disk_bytes = disk_used(&b->r->state, way_of(b), block_uid_base(&b->r->blocks, b->row),
				    b->rec.pid);
}

static void answer(struct runner *r, uint32_t type, uint64_t cookie, const struct err *e)
{
	struct msg_reply m = { .head = { type, sizeof(m), cookie } };

	if (e != NULL)
		m.err = *e;
	peer_send(r, &m, sizeof(m), -EBADF);
}

static void answer_create(struct box *b, const struct err *e)
{
	struct msg_item m = { .head = { MSG_CREATE, sizeof(m), b->create_cookie } };

	if (!b->creating)
		return;
	b->creating = false;
	b->r->n_creating--;
	if (e != NULL)
		m.err = *e;
	box_describe(b, &m);
	peer_send(b->r, &m, sizeof(m), -EBADF);
}

static void answer_pause(struct box *b, const struct err *e)
{
	list_remove(&b->waiting);
	loop_drop(&b->r->loop, &b->freeze);
	if (b->pausing)
		answer(b->r, MSG_PAUSE, b->pause_cookie, e);
	b->pausing = false;
}

static void tell(struct box *b, enum msg_event_kind kind)
{
	struct msg_event m = {
		.head = { MSG_EVENT, sizeof(m), 0 },
		.kind = kind,
		.status = b->status,
		.oom_kills = b->oom_kills,
		.at_ms = (uint64_t)clock_wall_ms(),
	};

	memcpy(m.id, b->rec.id, sizeof(m.id));
	if (b->r->greeted)
		peer_send(b->r, &m, sizeof(m), -EBADF);
}

/* ---- the end ---- */

static void forget(struct box *b)
{
	struct runner *r = b->r;

	loop_drop(&r->loop, &b->pid);
	loop_drop(&r->loop, &b->child);
	loop_drop(&r->loop, &b->oom);
	loop_drop(&r->loop, &b->freeze);
	list_remove(&b->waiting);
	list_remove(&b->short_of_memory);
	net_release(&r->net, &b->slot);
	(void)map_remove(&r->boxes, span_str(b->rec.id));
	sweep_remove(r, b->rec.id, &b->rec.limits);
	(void)table_clear(&r->table, b->row);
	free(b);
}

/* The answer comes last: whoever gets it finds nothing left. */
static void fail_create(struct box *b)
{
	struct msg_item m = { .head = { MSG_CREATE, sizeof(m), b->create_cookie }, .err = b->why };
	struct runner *r = b->r;

	r->n_creating--;
	forget(b);
	peer_send(r, &m, sizeof(m), -EBADF);
}

static void finish_delete(struct box *b)
{
	struct runner *r = b->r;
	uint64_t cookie = b->delete_cookie;

	forget(b);
	answer(r, MSG_DELETE, cookie, NULL);
}

/* True if there was a kill that had not been told of. */
static bool note_oom(struct box *b)
{
	uint64_t kills = leaf_oom_kills(&b->r->cgroups, b->rec.id);

	if (kills <= b->oom_kills)
		return false;
	b->oom_kills = kills;
	tell(b, MSG_EVENT_OOM);
	return true;
}

/* PID 1 is gone, and with it (zap_pid_ns_processes) every process of its namespace. */
static void on_end(struct watch *w, uint32_t events UNUSED)
{
	struct box *b = CONTAINER_OF(w, struct box, pid);
	struct err gone = ERR_INIT;

	if (b->state == BOX_MAKING && b->child.fd >= 0) {
		/* its last words may still be unread */
		b->child.fn(&b->child, EPOLLIN);
		if (b->child.fd >= 0)
			loop_drop(&b->r->loop, &b->child);
	}
	b->status = process_collect(w->fd);
	(void)note_oom(b);
	list_remove(&b->short_of_memory);
	loop_drop(&b->r->loop, &b->pid);
	loop_drop(&b->r->loop, &b->oom);
	(void)err_set(&gone, ECONNREFUSED, "the sandbox has ended");
	answer_pause(b, &gone);

	if (b->creating && b->why.code == 0 && !b->deleting) {
		/* without a word of failure: what it ended with tells the rest */
		answer_create(b, NULL);
	} else if (b->creating) {
		if (b->why.code == 0)
			(void)err_set(&b->why, ECANCELED, "deleted while it was being made");
		if (!b->deleting) {
			fail_create(b);
			return;
		}
		answer_create(b, &b->why);
	}
	if (b->deleting) {
		finish_delete(b);
		return;
	}
	b->state = BOX_DEAD;
	tell(b, MSG_EVENT_EXITED);
}

static int kill_box(struct box *b, struct err *e)
{
	int q = process_kill(b->pid.fd, SIGKILL);

	if (q < 0 && q != -ESRCH)
		return err_code(e, q, "kill the sandbox");
	/* a v1 freezer keeps even the dying; v2 lets them go */
	if (b->state == BOX_PAUSED || b->state == BOX_PAUSING)
		(void)leaf_freeze(&b->r->cgroups, b->rec.id, false, NULL);
	return 0;
}

int box_delete(struct box *b, uint64_t cookie, struct err *e)
{
	int q;

	if (b->deleting)
		return err_set(e, EBUSY, "the sandbox is being deleted");
	b->delete_cookie = cookie;
	b->deleting = true;
	if (b->state == BOX_DEAD) {
		finish_delete(b);
		return 0;
	}
	q = kill_box(b, e);
	if (q < 0)
		b->deleting = false;
	return q;
}

/* ---- the beginning ---- */

/* The child's socket: words of an error, or the silence of a successful exec. */
static void on_child(struct watch *w, uint32_t events UNUSED)
{
	struct box *b = CONTAINER_OF(w, struct box, child);
	size_t n_fds = 0;
	struct err e;
	ssize_t len;

	len = imsg_recv(w->fd, &e, sizeof(e), NULL, &n_fds);
	if (len == -EAGAIN)
		return;
	loop_drop(&b->r->loop, &b->child);
	if (len == (ssize_t)sizeof(e)) {
		e.msg[sizeof(e.msg) - 1] = '\0';
		b->why = e;
		(void)process_kill(b->pid.fd, SIGKILL);
		return; /* the answer comes with its end */
	}
	if (b->deleting || process_ended(b->pid.fd))
		return;
	b->state = BOX_RUNNING;
	answer_create(b, NULL);
}

static void on_oom(struct watch *w, uint32_t events UNUSED)
{
	struct box *b = CONTAINER_OF(w, struct box, oom);
	uint64_t count;

	/* an event counter must be read to fall silent; of memory.events the note does that */
	(void)!read(w->fd, &count, sizeof(count));
	if (note_oom(b))
		return;
	/* v1 tells before the kill, and of that nobody tells: look again for a while */
	b->oom_until_ms = clock_mono_ms() + OOM_WAIT_MS;
	if (list_empty(&b->short_of_memory))
		list_push_back(&b->r->short_of_memory, &b->short_of_memory);
	wake_at(b->r, clock_mono_ms() + LOOK_EVERY_MS);
}

static int watch_box(struct box *b, int pid_fd, struct err *e)
{
	bool v2 = false;
	int fd, q;

	q = loop_add(&b->r->loop, &b->pid, pid_fd, EPOLLIN, on_end);
	if (q < 0)
		return err_code(e, q, "watch the sandbox");
	/* without a limit there is nothing of its own to run out of */
	if (b->rec.limits.memory_bytes == 0)
		return 0;
	fd = leaf_oom_fd(&b->r->cgroups, b->rec.id, &v2);
	if (fd >= 0 && loop_add(&b->r->loop, &b->oom, fd, v2 ? EPOLLPRI : EPOLLIN, on_oom) < 0)
		(void)close(fd);
	return 0;
}

static struct box *new_box(struct runner *r)
{
	struct box *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->r = r;
	b->pid.fd = b->child.fd = b->oom.fd = b->freeze.fd = -EBADF;
	b->slot = (struct net_slot){ .ns_fd = -EBADF, .index = NET_NO_ADDR };
	b->status = -1;
	list_init(&b->waiting);
	list_init(&b->short_of_memory);
	return b;
}

int box_create(struct runner *r, const struct msg_create *m, const int *fds, struct err *e)
{
	struct made made = MADE_INIT;
	struct box *b;
	int q;

	if (box_find(r, m->id) != NULL)
		return err_set(e, EEXIST, "sandbox '%s' exists", m->id);
	b = new_box(r);
	if (b == NULL)
		return err_code(e, ENOMEM, "make a sandbox");
	q = make_box(r, m, fds, &made, e);
	if (q < 0) {
		free(b);
		return q;
	}
	b->state = BOX_MAKING;
	b->row = made.row;
	b->rec = made.rec;
	b->slot = made.slot;
	/* its processes keep the namespace, and every clone pays for our open descriptors */
	fd_close(&b->slot.ns_fd);
	b->creating = true;
	b->create_cookie = m->head.cookie;
	q = map_put(&r->boxes, span_str(b->rec.id), b, NULL);
	if (q == 0)
		q = watch_box(b, made.pid_fd, e);
	if (q == 0)
		q = loop_add(&r->loop, &b->child, made.child_fd, EPOLLIN, on_child);
	if (q < 0) {
		/* out of memory or descriptors, and it runs already: the slow way out */
		make_undo(r, &made);
		(void)map_remove(&r->boxes, span_str(b->rec.id));
		free(b);
		return err_code(e, q, "watch the sandbox");
	}
	r->n_creating++;
	return 0;
}

int box_adopt(struct runner *r, unsigned row, const struct table_row *rec, struct err *e)
{
	autofd int fd = -EBADF;
	struct box *b;
	int q;

	b = new_box(r);
	if (b == NULL || map_put(&r->boxes, span_str(rec->id), b, NULL) < 0) {
		free(b);
		return err_code(e, ENOMEM, "adopt '%s'", rec->id);
	}
	b->row = row;
	b->rec = *rec;
	b->state = BOX_DEAD;
	b->oom_kills = leaf_oom_kills(&r->cgroups, rec->id);
	net_claim(&r->net, rec->net_index);
	b->slot.index = rec->net_index;

	if (strcmp(rec->boot_id, r->boot_id) != 0)
		return 0;
	fd = process_open(rec->pid, rec->start_ticks);
	if (fd == -ESRCH)
		return 0;
	if (fd < 0) /* out of descriptors, say: the living must not be taken for dead */
		return err_code(e, fd, "look for '%s'", rec->id);
	q = leaf_is_frozen(&r->cgroups, rec->id);
	if (q < 0 && q != -ENOTSUP && q != -ENOENT) /* nor the paused for running */
		return err_code(e, q, "look whether '%s' is paused", rec->id);
	b->state = q == 1 ? BOX_PAUSED : BOX_RUNNING;
	if (b->state == BOX_RUNNING) /* it may be half frozen: nobody waits for that any more */
		(void)leaf_freeze(&r->cgroups, rec->id, false, NULL);
	q = watch_box(b, fd, e);
	if (q == 0)
		fd = -EBADF;
	return q;
}

/* ---- pausing ---- */

static bool look_frozen(struct box *b)
{
	if (leaf_is_frozen(&b->r->cgroups, b->rec.id) != 1)
		return false;
	b->state = BOX_PAUSED;
	answer_pause(b, NULL);
	return true;
}

static void on_freeze(struct watch *w, uint32_t events UNUSED)
{
	(void)look_frozen(CONTAINER_OF(w, struct box, freeze));
}

/* Back to running, because it took too long or because nobody waits for it any more. */
static void give_up_pause(struct box *b, const struct err *e)
{
	(void)leaf_freeze(&b->r->cgroups, b->rec.id, false, NULL);
	b->state = BOX_RUNNING;
	answer_pause(b, e);
}

static void wait_until(struct box *b, uint64_t at_ms)
{
	b->look_ms = at_ms;
	wake_at(b->r, at_ms);
}

void box_tick(struct runner *r)
{
	uint64_t now = clock_mono_ms();

	list_for_each_safe (it, &r->short_of_memory) {
		struct box *b = LIST_ENTRY(it, struct box, short_of_memory);

		if (note_oom(b) || now >= b->oom_until_ms)
			list_remove(&b->short_of_memory);
		else
			wake_at(r, now + LOOK_EVERY_MS);
	}

	list_for_each_safe (it, &r->waiting) {
		struct box *b = LIST_ENTRY(it, struct box, waiting);
		struct err e = ERR_INIT;

		if (now < b->look_ms) {
			wait_until(b, b->look_ms);
			continue;
		}
		if (look_frozen(b))
			continue;
		if (now < b->deadline_ms) {
			wait_until(b, b->freeze.fd >= 0 ? b->deadline_ms : now + LOOK_EVERY_MS);
			continue;
		}
		(void)err_set(&e, ETIMEDOUT, "some process does not let itself be frozen");
		give_up_pause(b, &e);
	}
}

void box_forget_pauses(struct runner *r)
{
	list_for_each_safe (it, &r->waiting) {
		struct box *b = LIST_ENTRY(it, struct box, waiting);

		b->pausing = false;
		give_up_pause(b, NULL);
	}
}

int box_pause(struct box *b, uint64_t cookie, struct err *e)
{
	uint64_t now = clock_mono_ms();
	int q, fd;

	if (b->state != BOX_RUNNING || b->deleting)
		return err_set(e, b->state == BOX_DEAD ? ECONNREFUSED : EBUSY,
			       "only a running sandbox can be paused");
	/* watched before it is asked for, so that no change is missed */
	fd = leaf_freeze_fd(&b->r->cgroups, b->rec.id);
	if (fd >= 0 && loop_add(&b->r->loop, &b->freeze, fd, EPOLLPRI, on_freeze) < 0)
		(void)close(fd);
	q = leaf_freeze(&b->r->cgroups, b->rec.id, true, e);
	if (q < 0) {
		loop_drop(&b->r->loop, &b->freeze);
		return q;
	}
	b->state = BOX_PAUSING;
	b->pausing = true;
	b->pause_cookie = cookie;
	if (q == 0 && look_frozen(b))
		return 0;
	list_push_back(&b->r->waiting, &b->waiting);
	b->deadline_ms = now + PAUSE_DEADLINE_MS;
	wait_until(b, b->freeze.fd >= 0 ? b->deadline_ms : now + LOOK_EVERY_MS);
	return 0;
}

int box_resume(struct box *b, struct err *e)
{
	int q;

	if (b->state != BOX_PAUSED || b->deleting)
		return err_set(e, b->state == BOX_DEAD ? ECONNREFUSED : EBUSY,
			       "only a paused sandbox can be resumed");
	q = leaf_freeze(&b->r->cgroups, b->rec.id, false, e);
	if (q < 0)
		return q;
	b->state = BOX_RUNNING;
	return 0;
}

int box_dial(struct box *b, const struct msg_dial *m, int *ret_fd, struct err *e)
{
	autofd int ns = -EBADF;
	char path[32];

	/* by number, and then by descriptor that the number still means the same process */
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", b->rec.pid);
	ns = open(path, O_RDONLY | O_CLOEXEC);
	if (ns < 0 || b->pid.fd < 0 || process_ended(b->pid.fd))
		return err_set(e, ECONNREFUSED, "the sandbox has ended");
	return net_dial(&b->r->net, ns, (enum msg_family)m->family, m->port, ret_fd, e);
}
