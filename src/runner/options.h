/* The command line. */
#ifndef OSB_RUNNER_OPTIONS_H
#define OSB_RUNNER_OPTIONS_H

#include <stdbool.h>

#include "base/log.h"
#include "sandbox/net.h"
#include "sandbox/nft.h"
#include "sandbox/state.h"

struct options {
	const char *state_dir, *socket, *tag, *net_pool;
	int fd;
	const char *allow[STATE_MAX_ALLOWED];
	unsigned n_allow;
	const char *dns[NETADDR_MAX_DNS];
	unsigned n_dns;
	struct nft_policy policy;
	unsigned pool, mtu;
	bool no_network, ipv6;
	enum log_level log_level;
};

/* 0 to go on, 1 when all is said (--help), -1 on a mistake, which was said as well. Texts are those
 * of argv. */
int options_read(struct options *o, int argc, char **argv);

#endif
