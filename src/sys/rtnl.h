/* The few things we ask of rtnetlink(7): links, addresses, routes, neighbours. One request, one
 * answer. */
#ifndef OSB_SYS_RTNL_H
#define OSB_SYS_RTNL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* An address of either family. */
struct rtnl_addr {
	uint8_t family; /* AF_INET or AF_INET6 */
	uint8_t prefix_len;
	union {
		struct in_addr v4;
		struct in6_addr v6;
	};
};

/* A hardware address. */
struct rtnl_mac {
	uint8_t b[6];
};

/* A socket that speaks for the network namespace the caller is in now. Caller owns *ret_fd. */
int rtnl_open(int *ret_fd, struct err *e);

/* A veth pair of equal mtu: `name` here and up, `peer` in the namespace peer_ns_fd and down (it
 * cannot be up before the pair is complete). */
struct rtnl_veth {
	const char *name, *peer;
	struct rtnl_mac mac, peer_mac;
	int peer_ns_fd;
	uint32_t mtu;
};
int rtnl_add_veth(int fd, const struct rtnl_veth *v, struct err *e);
int rtnl_set_up(int fd, int index, struct err *e);
int rtnl_delete_link(int fd, int index, struct err *e);
int rtnl_index(int fd, const char *name, struct err *e); /* > 0, or negative errno */

int rtnl_add_addr(int fd, int index, const struct rtnl_addr *a, struct err *e);

/* to = NULL: the default route, of the gateway's family. via = NULL: directly on the link. */
int rtnl_add_route(int fd, int index, const struct rtnl_addr *to, const struct rtnl_addr *via,
		   struct err *e);

/* Who has the address, for as long as the link is up: nobody is asked. */
int rtnl_add_neighbour(int fd, int index, const struct rtnl_addr *a, const struct rtnl_mac *mac,
		       struct err *e);

/* Ask the link for nobody's hardware address: who is not known is not there. */
int rtnl_stop_asking(int fd, int index, uint8_t family, struct err *e);

#endif
