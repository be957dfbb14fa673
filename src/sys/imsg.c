#include "sys/imsg.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/util.h"

int imsg_send(int sock, const void *data, size_t len, const int *fds, size_t n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(IMSG_MAX_FDS * sizeof(int))] = { 0 };
	struct iovec iov = { .iov_len = len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	memcpy(&iov.iov_base, &data, sizeof(data)); /* sendmsg does not write there */
	if (n_fds > IMSG_MAX_FDS)
		return -EMSGSIZE;
	if (n_fds > 0) {
		struct cmsghdr *c;

		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(sock, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

ssize_t imsg_recv(int sock, void *data, size_t size, int *fds, size_t *n_fds)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(IMSG_MAX_FDS * sizeof(int))];
	struct iovec iov = { .iov_base = data, .iov_len = size };
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	size_t room = *n_fds, got = 0;
	int excess = 0;
	ssize_t n;

	*n_fds = 0;
	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c != NULL; c = CMSG_NXTHDR(&m, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (got < room) {
				fds[got++] = fd;
			} else {
				(void)close(fd);
				excess = 1;
			}
		}
	}
	if (!excess && (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) {
		*n_fds = got;
		return n;
	}
	for (size_t i = 0; i < got; i++)
		(void)close(fds[i]);
	if (excess || (m.msg_flags & MSG_TRUNC) != 0)
		return -EMSGSIZE;
	*n_fds = IMSG_LOST_FDS;
	return n;
}
