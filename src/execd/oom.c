#include "execd/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"

/* Both versions have a line "oom_kill N" in their file. */
static int open_counter(struct span cgroup, bool v1)
{
	static const char *const mounts[] = { "/sys/fs/cgroup/memory", "/sys/fs/cgroup",
					      "/sys/fs/cgroup/unified" };
	const char *file = v1 ? "memory.oom_control" : "memory.events";

	for (size_t i = v1 ? 0 : 1; i < (v1 ? 1 : ARRAY_LEN(mounts)); i++) {
		char path[PATH_MAX];
		int fd;

		(void)snprintf(path, sizeof(path), "%s%.*s/%s", mounts[i], SPAN_FMT(cgroup), file);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		/* in a container the mount's root often is our cgroup, whatever its name outside */
		if (fd < 0) {
			(void)snprintf(path, sizeof(path), "%s/%s", mounts[i], file);
			fd = open(path, O_RDONLY | O_CLOEXEC);
		}
		if (fd >= 0)
			return fd;
	}
	return -EBADF;
}

void oom_setup(struct execd *x)
{
	autofd int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
	char text[4096];
	struct span rest;
	ssize_t n;

	x->oom_fd = -EBADF;
	n = fd >= 0 ? read(fd, text, sizeof(text)) : -1;
	if (n <= 0)
		return;
	rest = span_of(text, (size_t)n);
	while (rest.p != NULL && x->oom_fd < 0) {
		/* "0::/path" or "9:memory:/path" */
		struct span path = span_cut(&rest, '\n'), number = span_cut(&path, ':');
		struct span controllers = span_cut(&path, ':');
		bool memory = false;

		while (controllers.p != NULL)
			memory |= span_is(span_cut(&controllers, ','), "memory");
		if (memory || span_is(number, "0"))
			x->oom_fd = open_counter(path, memory);
	}
}

void oom_teardown(struct execd *x)
{
	fd_close(&x->oom_fd);
}

uint64_t oom_kills(const struct execd *x)
{
	char text[1024];
	struct span rest;
	uint64_t count = 0;
	ssize_t n = x->oom_fd >= 0 ? pread(x->oom_fd, text, sizeof(text), 0) : -1;

	if (n <= 0)
		return 0;
	rest = span_of(text, (size_t)n);
	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n');

		if (span_is(span_cut(&line, ' '), "oom_kill"))
			(void)span_u64(line, &count);
	}
	return count;
}
