/* Attempts to get out of a sandbox. Started inside as `probe CASE [ARG...]`; prints what it tried
 * and what the kernel said, exits 0 when every attempt was refused and 1 when one was not. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int refused(const char *what, long r)
{
	if (r < 0) {
		printf("refused: %s: %s\n", what, strerror(errno));
		return 0;
	}
	printf("WORKED: %s\n", what);
	return 1;
}

int cannot_open(const char *path, int flags)
{
	char what[600];
	int fd = open(path, flags | O_NONBLOCK | O_NOCTTY, 0644);
	int r;

	snprintf(what, sizeof(what), "open %s (%s)", path,
		 (flags & O_ACCMODE) == O_RDONLY ? "read" : "write");
	r = refused(what, fd);
	if (fd >= 0)
		close(fd);
	return r;
}

int calls_refused(const struct probe_call *calls, size_t n)
{
	int bad = 0;

	for (size_t i = 0; i < n; i++)
		bad |= refused(calls[i].name, syscall(calls[i].nr, 0, 0, 0, 0, 0, 0));
	return bad;
}

int cannot_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY), r;
	char what[600], byte;

	snprintf(what, sizeof(what), "read %s", path);
	r = refused(what, fd < 0 || read(fd, &byte, 1) < 0 ? -1 : 0);
	if (fd >= 0)
		close(fd);
	return r;
}

int cannot_list(const char *path)
{
	char what[600];
	DIR *d = opendir(path);
	struct dirent *e;
	int r = -1;

	while (d != NULL && (errno = 0, e = readdir(d)) != NULL)
		if (e->d_name[0] != '.')
			break;
	if (d != NULL && (e != NULL || errno == 0))
		r = 0;
	snprintf(what, sizeof(what), "list %s", path);
	r = refused(what, r);
	if (d != NULL)
		closedir(d);
	return r;
}

/* ---- plain helpers for images without a shell ---- */

static int do_cat(char **argv)
{
	char buf[4096];
	ssize_t n;
	int fd = open(argv[0], O_RDONLY);

	if (fd < 0) {
		perror(argv[0]);
		return 1;
	}
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		if (write(1, buf, (size_t)n) != n)
			return 1;
	return n < 0;
}

static int do_ls(char **argv)
{
	DIR *d = opendir(argv[0]);
	struct dirent *e;

	if (d == NULL) {
		perror(argv[0]);
		return 1;
	}
	while ((e = readdir(d)) != NULL)
		puts(e->d_name);
	closedir(d);
	return 0;
}

/* touch FILE: fails with the kernel's word */
static int do_touch(char **argv)
{
	int fd = open(argv[0], O_WRONLY | O_CREAT, 0644);

	if (fd < 0) {
		perror(argv[0]);
		return 1;
	}
	return 0;
}

/* who we are: for programs that would run as their owner */
static int do_who(char **argv)
{
	(void)argv;
	printf("uid %u euid %u egid %u\n", getuid(), geteuid(), getegid());
	return 0;
}

static const struct attempt helpers[] = {
	{ "cat", do_cat }, { "ls", do_ls }, { "touch", do_touch },
	{ "who", do_who }, { NULL, NULL },
};

int main(int argc, char **argv)
{
	static const struct attempt *const all[] = {
		helpers,        call_attempts, file_attempts, hoard_attempts,  kernel_attempts,
		mount_attempts, net_attempts,  peer_attempts, rights_attempts,
	};

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		for (const struct attempt *a = all[i]; a->name != NULL; a++)
			if (strcmp(argv[1], a->name) == 0)
				return a->fn(argv + 2);
	fprintf(stderr, "no such case\n");
	return 2;
}
