/* Network namespaces for sandboxes, made ahead of need.
 *
 * A namespace belongs to the host's user namespace, not to the sandbox's: root in there can open
 * sockets, and neither change an address nor a route nor a rule, nor send raw packets. Without
 * network there is a loopback and nothing else. With network there is one link to the host, eth0,
 * point to point: no neighbours, no broadcast to the others. The host routes, filters and
 * translates (nft.h); each address is routed to its own link only, which is also what the check
 * against forged sources rests on. */
#ifndef OSB_SANDBOX_NET_H
#define OSB_SANDBOX_NET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "policy/netaddr.h"
#include "sandbox/block.h"
#include "sandbox/msg.h"

#define NET_POOL_MAX  64
#define NET_MAX_ADDRS (BLOCK_MINE * BLOCK_SIZE) /* of an instance */
#define NET_NO_ADDR   UINT32_MAX

struct net_slot {
	int ns_fd;
	uint32_t index; /* NET_NO_ADDR: loopback only */
};

struct net {
	char tag[8];
	char dns_text[NETADDR_MAX_DNS][INET6_ADDRSTRLEN];
	unsigned n_dns;
	struct in_addr pool4;  /* network byte order, a /16, shared by all instances of a host */
	struct in6_addr pool6; /* a /64 */
	struct blocks *blocks; /* an index is the n-th number of the instance */
	bool wired;            /* network can be had at all */
	bool ipv6;
	uint32_t mtu;
	uint32_t last_gid; /* groups up to this one may ping */

	int host_ns_fd, rtnl_fd;
	unsigned want; /* of each kind to keep ready */
	struct net_slot bare[NET_POOL_MAX], linked[NET_POOL_MAX];
	unsigned n_bare, n_linked;
	uint64_t used[NET_MAX_ADDRS / 64];
	uint32_t next;
	char resolv_conf[256];
};

/* The addresses of one index, as text. */
struct net_names {
	char ifname[16], ip4[INET_ADDRSTRLEN], ip6[INET6_ADDRSTRLEN];
};

int net_setup(struct net *n, const char *tag, struct blocks *blocks, struct err *e);

/* Take addresses from this /16 ("10.200.0.0") instead. */
int net_set_pool(struct net *n, const char *address, struct err *e);
void net_names(const struct net *n, uint32_t index, struct net_names *out);

/* Take the nameservers of the host's resolv.conf that can be reached from a sandbox; those given
 * with net_add_dns come instead. */
int net_add_dns(struct net *n, const char *address, struct err *e);
void net_find_dns(struct net *n);

/* A slot from the pool, or a new one when it is empty. */
int net_take(struct net *n, bool linked, struct net_slot *ret, struct err *e);

/* Done with: the namespace and its link go when the last descriptor and process do. */
void net_release(struct net *n, struct net_slot *s);

/* An index that is in use by a sandbox we have found alive. */
void net_claim(struct net *n, uint32_t index);

/* Make one more slot if the pools are short of what they want. 1 = made one, 0 = nothing to do. */
int net_refill(struct net *n, struct err *e);

/* Run the next clone or socket in this namespace; net_leave comes back. */
int net_enter(int ns_fd, struct err *e);
void net_leave(const struct net *n);

/* A TCP socket of that namespace with its connect to loopback begun. Caller owns *ret_fd. */
int net_dial(const struct net *n, int ns_fd, enum msg_family family, uint16_t port, int *ret_fd,
	     struct err *e);

#endif
