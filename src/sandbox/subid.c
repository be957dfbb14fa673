#include "sandbox/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "sys/fsat.h"

#define FILE_MAX KIB(64)

static const struct {
	const char *file, *program;
	unsigned bit;
} kinds[] = {
	{ "/etc/subuid", "/usr/bin/newuidmap", SUBID_UIDS },
	{ "/etc/subgid", "/usr/bin/newgidmap", SUBID_GIDS },
};

bool subid_find(struct span text, const char *name, uint32_t uid, struct subid_range *ret)
{
	struct subid_range best = { 0, 0 };

	while (text.p != NULL) {
		struct span line = span_trim(span_cut(&text, '\n'));
		struct span who = span_cut(&line, ':'), first = span_cut(&line, ':');
		uint64_t number, from, count;

		if (!(name != NULL && span_is(who, name)) &&
		    !(span_u64(who, &number) && number == uid))
			continue;
		/* 0 is the host's root: nobody gives that away, least of all by mistake */
		if (!span_u64(first, &from) || !span_u64(line, &count) || from == 0 ||
		    from >= UINT32_MAX || count > UINT32_MAX - from || count <= best.count)
			continue;
		best = (struct subid_range){ (uint32_t)from, (uint32_t)count };
	}
	if (best.count == 0)
		return false;
	*ret = best;
	return true;
}

/* ---- in the helper ---- */

/* newuidmap PID 0 OWN 1 1 FIRST COUNT; true if it did. */
static bool run_program(const char *program, pid_t pid, uint32_t own,
			const struct subid_range *range)
{
	char numbers[4][16], zero[] = "0", one[] = "1";
	char *argv[] = { (char[]){ "newidmap" },
			 numbers[0],
			 zero,
			 numbers[1],
			 one,
			 one,
			 numbers[2],
			 numbers[3],
			 NULL };
	char *envp[] = { NULL };
	int status = 0;
	pid_t child;

	(void)snprintf(numbers[0], sizeof(numbers[0]), "%d", (int)pid);
	(void)snprintf(numbers[1], sizeof(numbers[1]), "%u", own);
	(void)snprintf(numbers[2], sizeof(numbers[2]), "%u", range->first);
	(void)snprintf(numbers[3], sizeof(numbers[3]), "%u", range->count);
	child = fork();
	if (child == 0) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
			_exit(126);
		(void)execve(program, argv, envp);
		_exit(127);
	}
	while (child > 0 && waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static _Noreturn void helper_main(int fd, pid_t parent, const struct subid_range *ranges)
{
	const uint32_t own[] = { getuid(), getgid() };
	int done = 0;
	char go;

	if (read(fd, &go, 1) != 1)
		_exit(0); /* there will be no namespace */
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (ranges[i].count > 0 &&
		    run_program(kinds[i].program, parent, own[i], &ranges[i]))
			done |= (int)kinds[i].bit;
	_exit(done);
}

/* ---- in the runner ---- */

static void find_ranges(struct subid_range *ranges)
{
	const struct passwd *pw = getpwuid(getuid());
	static char text[FILE_MAX];

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		ssize_t n = fsat_read(AT_FDCWD, kinds[i].file, text, sizeof(text));

		ranges[i].count = 0;
		if (n > 0 && access(kinds[i].program, X_OK) == 0)
			(void)subid_find(span_of(text, (size_t)n), pw != NULL ? pw->pw_name : NULL,
					 getuid(), &ranges[i]);
	}
}

int subid_helper_start(struct subid_helper *h, struct err *e)
{
	struct subid_range ranges[ARRAY_LEN(kinds)];
	pid_t parent = getpid(), pid;
	int pair[2];

	*h = (struct subid_helper){ 0, -EBADF };
	find_ranges(ranges);
	/* ids without groups would be users who cannot leave the groups they come from */
	if (ranges[0].count == 0 || ranges[1].count == 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, "make a socket pair");
	pid = fork();
	if (pid == 0) {
		(void)close(pair[0]);
		helper_main(pair[1], parent, ranges);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return err_sys(e, "start a helper");
	}
	*h = (struct subid_helper){ pid, pair[0] };
	return 0;
}

unsigned subid_helper_map(struct subid_helper *h)
{
	int status = 0;
	ssize_t n;

	if (h->pid == 0)
		return 0;
	n = write(h->fd, "g", 1);
	fd_close(&h->fd);
	while (waitpid(h->pid, &status, 0) < 0)
		if (errno != EINTR)
			return 0;
	return n == 1 && WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 0;
}
