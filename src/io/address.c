#include "io/address.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "base/util.h"

static int parse_unix(const char *path, struct address *a, struct err *e)
{
	a->un.sun_family = AF_UNIX;
	if (path[0] == '\0' || !span_copy(span_str(path), a->un.sun_path, sizeof(a->un.sun_path)))
		return err_set(e, EINVAL, "unix socket path is empty or too long");
	a->len = sizeof(a->un);
	return 0;
}

static int parse_tcp(const char *text, struct address *a, struct err *e)
{
	struct span host = span_str(text);
	const char *colon = strrchr(text, ':');
	char digits[INET6_ADDRSTRLEN];
	bool brackets;
	uint64_t port;

	if (colon == NULL || !span_u64(span_str(colon + 1), &port) || port > 65535)
		return err_set(e, EINVAL, "address '%s': expected HOST:PORT", text);
	host.len = (size_t)(colon - text);
	brackets = host.len >= 2 && host.p[0] == '[' && host.p[host.len - 1] == ']';
	if (brackets)
		host = span_of(host.p + 1, host.len - 2);
	if (!span_copy(host, digits, sizeof(digits)))
		return err_set(e, EINVAL, "address '%s': not a numeric host", text);
	if (!brackets && inet_pton(AF_INET, digits, &a->in.sin_addr) == 1) {
		a->in.sin_family = AF_INET;
		a->in.sin_port = htons((uint16_t)port);
		a->len = sizeof(a->in);
		return 0;
	}
	if (inet_pton(AF_INET6, digits, &a->in6.sin6_addr) == 1) {
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = htons((uint16_t)port);
		a->len = sizeof(a->in6);
		return 0;
	}
	return err_set(e, EINVAL, "address '%s': not a numeric host", text);
}

int address_parse(const char *text, struct address *ret, struct err *e)
{
	struct address a = { 0 };
	int r;

	r = strncmp(text, "unix:", 5) == 0 ? parse_unix(text + 5, &a, e) : parse_tcp(text, &a, e);
	if (r == 0)
		*ret = a;
	return r;
}

int address_format(const struct address *a, char *out, size_t size)
{
	char text[INET6_ADDRSTRLEN] = "";
	int n;

	if (a->sa.sa_family == AF_INET)
		n = snprintf(out, size, "%s:%u",
			     inet_ntop(AF_INET, &a->in.sin_addr, text, sizeof(text)),
			     ntohs(a->in.sin_port));
	else if (a->sa.sa_family == AF_INET6)
		n = snprintf(out, size, "[%s]:%u",
			     inet_ntop(AF_INET6, &a->in6.sin6_addr, text, sizeof(text)),
			     ntohs(a->in6.sin6_port));
	else
		n = snprintf(out, size, "unix:%.*s", (int)sizeof(a->un.sun_path), a->un.sun_path);
	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

int address_connect(const struct address *a, int *ret_fd, struct err *e)
{
	autofd int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	const int one = 1;

	if (fd < 0)
		return err_sys(e, "socket");
	if (a->sa.sa_family != AF_UNIX)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, &a->sa, a->len) < 0 && errno != EINPROGRESS) {
		char text[sizeof(a->un.sun_path) + sizeof("unix:")] = "?";

		(void)address_format(a, text, sizeof(text));
		return err_sys(e, "connect to %s", text);
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}
