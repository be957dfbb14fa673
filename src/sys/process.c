#include "sys/process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"

/* PIDFD_GET_INFO, from <linux/pidfd.h> of Linux 6.15; the headers we build with may be older. */
struct exit_info {
	uint64_t mask;
	uint64_t cgroup_id;
	uint32_t pid, tgid, ppid;
	uint32_t ids[8];
	int32_t exit_code;
};
_Static_assert(sizeof(struct exit_info) == 64, "first version of struct pidfd_info");
#define EXIT_INFO_GET  _IOWR(0xFF, 11, struct exit_info)
#define EXIT_INFO_EXIT (1u << 3)

int process_start_time(pid_t pid, uint64_t *ret_ticks)
{
	char path[32], text[1024];
	struct span rest;
	const char *p;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	n = fsat_read(AT_FDCWD, path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ESRCH : (int)n;
	/* the name in parentheses may hold anything, so start behind the last one: field 3 */
	p = strrchr(text, ')');
	if (p == NULL || p[1] != ' ')
		return -EIO;
	rest = span_str(p + 2);
	for (unsigned field = 3; field < 22; field++)
		(void)span_cut(&rest, ' ');
	return span_u64(span_cut(&rest, ' '), ret_ticks) ? 0 : -EIO;
}

int process_open(pid_t pid, uint64_t start_ticks)
{
	autofd int fd = -EBADF;
	uint64_t ticks;
	int r;

	if (pid <= 0)
		return -ESRCH;
	fd = pidfd_open(pid, 0);
	if (fd < 0)
		return errno == EINVAL ? -ESRCH : -errno;
	/* compared after the open: from here on the number cannot be given to another */
	r = process_start_time(pid, &ticks);
	if (r < 0)
		return r;
	if (ticks != start_ticks)
		return -ESRCH;
	return TAKE_FD(fd);
}

int process_kill(int fd, int signal)
{
	return pidfd_send_signal(fd, signal, NULL, 0) < 0 ? -errno : 0;
}

bool process_ended(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

int process_collect(int fd)
{
	struct exit_info info = { .mask = EXIT_INFO_EXIT };
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	if (waitid(P_PIDFD, (id_t)fd, &si, WEXITED | WNOHANG) == 0 && si.si_pid != 0) {
		switch (si.si_code) {
		case CLD_EXITED:
			return (si.si_status & 0xff) << 8;
		case CLD_DUMPED:
			return (si.si_status & 0x7f) | 0x80;
		case CLD_KILLED:
			return si.si_status & 0x7f;
		default:
			return -1;
		}
	}
	if (ioctl(fd, EXIT_INFO_GET, &info) == 0 && (info.mask & EXIT_INFO_EXIT) != 0)
		return info.exit_code;
	return -1;
}
