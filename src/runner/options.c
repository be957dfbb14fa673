#include "runner/options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "base/span.h"
#include "policy/netaddr.h"

static const char usage[] =
	"usage: opensandbox-runner --state-dir DIR (--fd N | --socket PATH) [options]\n"
	"\n"
	"  --state-dir DIR     layers, volumes and sandboxes live below it\n"
	"  --fd N              serve the packet socket N, leave when it closes\n"
	"  --socket PATH       listen there, one at a time, for whoever owns the state directory; started\n"
	"                      as root with a group of its own, for a server of that group as well\n"
	"  --tag TAG           name of this instance, at most 6 of [a-z0-9]\n"
	"  --allow-path DIR    host path that volumes and root file systems may come from; repeatable\n"
	"  --dns ADDRESS       nameserver for sandboxes instead of the host's; repeatable\n"
	"  --open-net CIDR     private network that sandboxes may reach; repeatable\n"
	"  --net-pool ADDRESS  first address of the /16 that sandboxes get theirs from (10.200.0.0)\n"
	"  --pool N            network namespaces of each kind to keep ready (8)\n"
	"  --mtu N             of sandboxes' links (1400)\n"
	"  --ipv6              give sandboxes IPv6 as well; turns on forwarding of it\n"
	"  --no-network        refuse sandboxes with network\n"
	"  --log-level LEVEL   error, warn, info (default) or debug\n"
	"  --version, --help\n";

static bool add(const char **list, unsigned *n, unsigned max, const char *value)
{
	if (*n == max)
		return false;
	list[(*n)++] = value;
	return true;
}

static bool number(const char *text, unsigned max, unsigned *ret)
{
	uint64_t v;

	if (!span_u64(span_str(text), &v) || v > max)
		return false;
	*ret = (unsigned)v;
	return true;
}

enum {
	OPT_STATE = 1,
	OPT_FD,
	OPT_SOCKET,
	OPT_TAG,
	OPT_ALLOW,
	OPT_DNS,
	OPT_OPEN,
	OPT_POOL,
	OPT_NET_POOL,
	OPT_MTU,
	OPT_IPV6,
	OPT_NO_NETWORK,
	OPT_LOG,
	OPT_VERSION,
	OPT_HELP
};

/* 0 to go on, 1 when all is said, -1 on a mistake. */
static int take_option(struct options *o, int opt, const char *value)
{
	unsigned n = 0;
	bool ok = true;

	switch (opt) {
	case OPT_STATE:
		o->state_dir = value;
		break;
	case OPT_FD:
		ok = number(value, 65535, &n);
		o->fd = (int)n;
		break;
	case OPT_SOCKET:
		o->socket = value;
		break;
	case OPT_TAG:
		o->tag = value;
		ok = strlen(value) >= 1 && strlen(value) <= 6 &&
		     strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(value);
		break;
	case OPT_ALLOW:
		ok = add(o->allow, &o->n_allow, STATE_MAX_ALLOWED, value);
		break;
	case OPT_DNS:
		ok = netaddr_is_address(value) && add(o->dns, &o->n_dns, NETADDR_MAX_DNS, value);
		break;
	case OPT_OPEN:
		ok = netaddr_is_network(value) &&
		     add(o->policy.open, &o->policy.n_open, NETADDR_MAX_OPEN, value);
		break;
	case OPT_POOL:
		ok = number(value, NET_POOL_MAX, &o->pool);
		break;
	case OPT_NET_POOL:
		o->net_pool = value;
		break;
	case OPT_MTU:
		ok = number(value, 65535, &o->mtu) && o->mtu >= 1280;
		break;
	case OPT_IPV6:
		o->ipv6 = true;
		break;
	case OPT_NO_NETWORK:
		o->no_network = true;
		break;
	case OPT_LOG:
		ok = log_parse_level(value, &o->log_level);
		break;
	case OPT_VERSION:
		(void)puts("opensandbox-runner " OSB_VERSION);
		return 1;
	case OPT_HELP:
		(void)fputs(usage, stdout);
		return 1;
	default:
		return -1;
	}
	if (!ok)
		(void)fprintf(stderr, "opensandbox-runner: '%s' is not a value, or one too many\n",
			      value);
	return ok ? 0 : -1;
}

int options_read(struct options *o, int argc, char **argv)
{
	static const struct option known[] = {
		{ "state-dir", 1, NULL, OPT_STATE },   { "fd", 1, NULL, OPT_FD },
		{ "socket", 1, NULL, OPT_SOCKET },     { "tag", 1, NULL, OPT_TAG },
		{ "allow-path", 1, NULL, OPT_ALLOW },  { "dns", 1, NULL, OPT_DNS },
		{ "open-net", 1, NULL, OPT_OPEN },     { "pool", 1, NULL, OPT_POOL },
		{ "net-pool", 1, NULL, OPT_NET_POOL }, { "mtu", 1, NULL, OPT_MTU },
		{ "ipv6", 0, NULL, OPT_IPV6 },         { "no-network", 0, NULL, OPT_NO_NETWORK },
		{ "log-level", 1, NULL, OPT_LOG },     { "version", 0, NULL, OPT_VERSION },
		{ "help", 0, NULL, OPT_HELP },         { 0 },
	};
	int opt, r = 0;

	*o = (struct options){ .fd = -1, .pool = 8, .mtu = 1400, .log_level = LOG_INFO };
	while (r == 0 && (opt = getopt_long(argc, argv, "", known, NULL)) != -1)
		r = take_option(o, opt, optarg);
	if (r == 0 &&
	    (optind < argc || o->state_dir == NULL || (o->fd >= 0) == (o->socket != NULL)))
		r = -1;
	if (r < 0)
		(void)fputs(usage, stderr);
	return r;
}
