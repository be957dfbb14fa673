#include "policy/netaddr.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/span.h"

bool netaddr_is_address(const char *text)
{
	struct in6_addr a;

	return inet_pton(strchr(text, ':') != NULL ? AF_INET6 : AF_INET, text, &a) == 1;
}

bool netaddr_is_network(const char *text)
{
	struct span rest = span_str(text), address = span_cut(&rest, '/');
	char host[INET6_ADDRSTRLEN];
	uint64_t bits = 0, max = strchr(text, ':') != NULL ? 128 : 32;

	return span_copy(address, host, sizeof(host)) && netaddr_is_address(host) &&
	       (rest.p == NULL || (span_u64(rest, &bits) && bits <= max));
}
