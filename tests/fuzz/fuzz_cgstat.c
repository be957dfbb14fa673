/* Texts of /proc about control groups, up to the first NUL and behind it.
 *  - A path that is found lies in the mount it was found in, and fits.
 *  - Numbers are only read where there are some. */
#include "check.h"

#include "execd/cgstat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const controllers[] = { "", "cpu", "memory" };
	char *copy = check_copy(data, size);
	struct span rest = span_of(copy, size), first = span_cut(&rest, '\0');
	uint64_t n = 0;
	double cpus;

	if (rest.p == NULL)
		rest = span_of(copy, 0);
	for (size_t i = 0; i < ARRAY_LEN(controllers); i++) {
		struct cgstat_dir d = { 0 };

		if (!cgstat_find(first, rest, controllers[i], &d))
			continue;
		CHECK(memchr(d.path, '\0', sizeof(d.path)) != NULL);
		CHECK(d.top_len <= strlen(d.path));
		CHECK(d.path[d.top_len] == '\0' || d.path[d.top_len] == '/');
		CHECK(d.v2 == (controllers[i][0] == '\0'));
		CHECK(strstr(d.path + d.top_len, "/../") != d.path + d.top_len);
	}
	cpus = cgstat_parse_cpu_max(first);
	CHECK(cpus == -1 || cpus >= 0);
	(void)cgstat_parse_key(first, "inactive_file", &n);
	free(copy);
	return 0;
}
