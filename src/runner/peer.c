#include "runner/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/log.h"
#include "base/util.h"
#include "runner/box.h"
#include "runner/ops.h"
#include "sys/imsg.h"

/* Requests taken before others get their turn. */
#define REQUESTS_PER_ROUND 8

struct out_packet {
	struct list node;
	int fd;
	size_t len;
	char data[];
};

static void drop_packets(struct runner *r)
{
	list_for_each_safe (it, &r->out) {
		struct out_packet *p = LIST_ENTRY(it, struct out_packet, node);

		list_remove(&p->node);
		fd_close(&p->fd);
		free(p);
	}
}

void peer_close(struct runner *r, const char *why)
{
	if (r->peer.fd < 0)
		return;
	log_info("peer gone", { "why", why });
	loop_drop(&r->loop, &r->peer);
	drop_packets(r);
	r->greeted = false;
	if (r->leave_with_peer)
		r->loop.stop = true;
}

void peer_send(struct runner *r, const void *data, size_t len, int fd)
{
	struct out_packet *p;
	autofd int own = fd;
	int q;

	if (r->peer.fd < 0)
		return;
	if (list_empty(&r->out)) {
		q = imsg_send(r->peer.fd, data, len, &own, own >= 0 ? 1 : 0);
		if (q == 0)
			return;
		if (q != -EAGAIN) {
			peer_close(r, strerrordesc_np(-q));
			return;
		}
	}
	p = malloc(sizeof(*p) + len);
	if (p == NULL) {
		peer_close(r, "out of memory");
		return;
	}
	memcpy(p->data, data, len);
	p->len = len;
	p->fd = TAKE_FD(own);
	list_push_back(&r->out, &p->node);
	/* no more requests until it has taken its answers */
	(void)loop_change(&r->loop, &r->peer, EPOLLOUT);
}

static void flush(struct runner *r)
{
	while (!list_empty(&r->out)) {
		struct out_packet *p = LIST_FIRST(&r->out, struct out_packet, node);
		int q = imsg_send(r->peer.fd, p->data, p->len, &p->fd, p->fd >= 0 ? 1 : 0);

		if (q == -EAGAIN)
			return;
		if (q < 0) {
			peer_close(r, strerrordesc_np(-q));
			return;
		}
		list_remove(&p->node);
		fd_close(&p->fd);
		free(p);
	}
	(void)loop_change(&r->loop, &r->peer, EPOLLIN);
}

/* One packet; false when there is none left or the connection is over. */
static bool take_request(struct runner *r)
{
	static _Alignas(max_align_t) char packet[sizeof(struct msg_create) + 1];
	int fds[MSG_MAX_FDS] = { -EBADF, -EBADF, -EBADF };
	size_t n_fds = MSG_MAX_FDS;
	ssize_t len;
	bool ok;

	len = imsg_recv(r->peer.fd, packet, sizeof(packet), fds, &n_fds);
	if (len == -EAGAIN)
		return false;
	if (len <= 0) {
		peer_close(r, len == 0 ? "it closed" : strerrordesc_np((int)-len));
		return false;
	}
	if (n_fds == IMSG_LOST_FDS) {
		n_fds = 0;
		ok = ops_refuse(r, packet, (size_t)len);
	} else {
		ok = msg_is_request(packet, (size_t)len, n_fds) && ops_run(r, packet, fds);
	}
	for (size_t i = 0; i < n_fds; i++)
		fd_close(&fds[i]);
	if (!ok)
		peer_close(r, "it sent what is no request");
	return ok && r->peer.fd >= 0;
}

static void on_peer(struct watch *w, uint32_t events)
{
	struct runner *r = CONTAINER_OF(w, struct runner, peer);

	if ((events & EPOLLHUP) != 0) { /* what it still wanted, nobody waits for */
		peer_close(r, "it closed");
		return;
	}
	if ((events & EPOLLOUT) != 0) {
		flush(r);
		return;
	}
	for (unsigned i = 0; i < REQUESTS_PER_ROUND && list_empty(&r->out); i++)
		if (!take_request(r))
			return;
}

static int adopt_peer(struct runner *r, int fd)
{
	struct ucred who = { .uid = 0 };
	socklen_t len = sizeof(who);
	int size = 1 << 20;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0)
		return -errno;
	if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	r->peer_uid = who.uid == (uid_t)-1 ? 0 : who.uid;
	r->greeted = false;
	return loop_add(&r->loop, &r->peer, fd, EPOLLIN, on_peer);
}

int peer_serve_fd(struct runner *r, int fd, struct err *e)
{
	int type = 0, q;
	socklen_t len = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0 || type != SOCK_SEQPACKET)
		return err_set(e, EINVAL, "descriptor %d is no packet socket", fd);
	if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return err_sys(e, "take descriptor %d", fd);
	r->leave_with_peer = true;
	q = adopt_peer(r, fd);
	return q < 0 ? err_code(e, q, "serve descriptor %d", fd) : 0;
}

static void on_listen(struct watch *w, uint32_t events UNUSED)
{
	struct runner *r = CONTAINER_OF(w, struct runner, listen);
	autofd int fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who = { 0 };
	socklen_t len = sizeof(who);

	if (fd < 0)
		return;
	if (r->peer.fd >= 0) {
		log_warn("second peer refused");
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) < 0 ||
	    (who.uid != 0 && who.uid != r->owner_uid &&
	     (r->peer_gid == 0 || who.gid != r->peer_gid))) {
		log_warn("stranger refused");
		return;
	}
	box_forget_pauses(r); /* of the one before */
	if (adopt_peer(r, fd) == 0)
		fd = -EBADF;
}

int peer_listen(struct runner *r, const char *path, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	autofd int fd = -EBADF;
	struct stat st;
	int q;

	if (!span_copy(span_str(path), at.sun_path, sizeof(at.sun_path)))
		return err_set(e, ENAMETOOLONG, "socket path '%s' is too long", path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_sys(e, "make a socket");
	(void)unlink(path);
	/* For the server alone: its user is the one the state directory belongs to. Where that is
	 * root, it is in the group that the runner was started with. An ordinary user's group is
	 * not meant: others are in it. */
	r->peer_gid = r->ground.host_uid == 0 ? getegid() : 0;
	if (fstat(r->state.dir_fd, &st) < 0 || fchmod(fd, r->peer_gid != 0 ? 0660 : 0600) < 0 ||
	    bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chown(path, st.st_uid, r->peer_gid != 0 ? r->peer_gid : st.st_gid) < 0 ||
	    listen(fd, 8) < 0)
		return err_sys(e, "listen at '%s'", path);
	r->owner_uid = st.st_uid;
	q = loop_add(&r->loop, &r->listen, TAKE_FD(fd), EPOLLIN, on_listen);
	return q < 0 ? err_code(e, q, "watch '%s'", path) : 0;
}
