/* Attempts to get out, one per name. Started inside a sandbox as `probe CASE [ARG...]`; prints what it
 * tried and what the kernel said, exits 0 when every attempt was refused, 1 when one was not. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

int refused(const char *what, long r)
{
	if (r < 0) {
		printf("refused: %s: %s\n", what, strerror(errno));
		return 0;
	}
	printf("WORKED: %s\n", what);
	return 1;
}

static const struct {
	const char *name;
	int (*fn)(char **argv);
} cases[] = {
	{ "cat", do_cat },
	{ "ls", do_ls },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].fn(argv + 2);
	fprintf(stderr, "no such case\n");
	return 2;
}
