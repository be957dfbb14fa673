#include "server/config_check.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/util.h"
#include "policy/hostpath.h"
#include "policy/netaddr.h"
#include "policy/quantity.h"

int config_check_address(const char *value, struct err *e)
{
	return netaddr_is_address(value) ? 0 : err_set(e, EINVAL, "'%s' is not an address", value);
}

int config_check_network(const char *value, struct err *e)
{
	return netaddr_is_network(value) ? 0 : err_set(e, EINVAL, "'%s' is not a network", value);
}

int config_check_path(const char *value, struct err *e)
{
	if (hostpath_is_clean(value))
		return 0;
	return err_set(e, EINVAL, "'%s' is not an absolute, clean path", value);
}

/* Found out here, once, rather than by every sandbox that is to be started with it. */
int config_check_program(const char *value, struct err *e)
{
	autofd int fd = -EBADF;
	char magic[SELFMAG];
	struct stat st;

	if (value[0] == '\0')
		return 0;
	fd = open(value, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, "'%s' cannot be opened", value);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_mode & 0111) == 0 ||
	    read(fd, magic, sizeof(magic)) != (ssize_t)sizeof(magic) ||
	    memcmp(magic, ELFMAG, sizeof(magic)) != 0)
		return err_set(e, ENOEXEC, "'%s' is not a program", value);
	return 0;
}

int config_check_size(const char *value, struct err *e)
{
	uint64_t bytes;

	return value[0] == '\0' ? 0 : quantity_bytes(span_str(value), &bytes, e);
}

static int check_word(const char *value, const char *const *words, struct err *e)
{
	for (size_t i = 0; words[i] != NULL; i++)
		if (strcmp(words[i], value) == 0)
			return 0;
	return err_set(e, EINVAL, "'%s' is not known", value);
}

int config_check_net_mode(const char *value, struct err *e)
{
	static const char *const words[] = { "auto", "on", "off", NULL };

	return check_word(value, words, e);
}

int config_check_unheld(const char *value, struct err *e)
{
	static const char *const words[] = { "refuse", "ignore", NULL };

	return check_word(value, words, e);
}

int config_check_log_format(const char *value, struct err *e)
{
	static const char *const words[] = { "text", "json", NULL };

	return check_word(value, words, e);
}
