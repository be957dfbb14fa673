/* Feeds every file of the corpus directories (and files) named on the command line to the fuzz
 * target, whole: what a fuzzer once found stays found, in every build and with every compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned inputs;

static int replay_file(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	uint8_t *data;
	size_t n;

	if (f == NULL || fstat(fileno(f), &st) < 0) {
		perror(path);
		return -1;
	}
	/* exactly as large as the input, so that ASan sees one byte too many */
	data = malloc(st.st_size > 0 ? (size_t)st.st_size : 1);
	if (data == NULL)
		abort();
	n = fread(data, 1, (size_t)st.st_size, f);
	(void)fclose(f);
	(void)LLVMFuzzerTestOneInput(data, n);
	free(data);
	inputs++;
	return 0;
}

static int replay(const char *path)
{
	struct dirent *entry;
	DIR *dir = opendir(path);
	char child[4096];
	int r = 0;

	if (dir == NULL)
		return replay_file(path);
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		(void)snprintf(child, sizeof(child), "%s/%s", path, entry->d_name);
		r = replay_file(child);
	}
	(void)closedir(dir);
	return r;
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (replay(argv[i]) < 0)
			return 1;
	printf("%u inputs replayed\n", inputs);
	return inputs > 0 ? 0 : 1; /* an empty corpus proves nothing */
}
