#include "sandbox/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/fsat.h"
#include "sys/rtnl.h"

/* ---- names and numbers ---- */

/* The first 256 addresses are kept for the network itself; the gateway is 1. */
#define FIRST_HOST 256

static uint32_t host_of(const struct net *n, uint32_t index)
{
	return FIRST_HOST + block_number(n->blocks, index);
}

static struct rtnl_addr addr4(const struct net *n, uint32_t host)
{
	struct rtnl_addr a = { .family = AF_INET, .prefix_len = 32 };

	a.v4.s_addr = n->pool4.s_addr | htonl(host);
	return a;
}

static struct rtnl_addr addr6(const struct net *n, uint32_t host)
{
	struct rtnl_addr a = { .family = AF_INET6, .prefix_len = 128, .v6 = n->pool6 };

	a.v6.s6_addr[14] = (uint8_t)(host >> 8);
	a.v6.s6_addr[15] = (uint8_t)host;
	return a;
}

/* Of our own making, so that neither end has to ask for the other's: there are no two on a link. */
static struct rtnl_mac mac_of(const struct rtnl_addr *a4)
{
	struct rtnl_mac mac = { { 0x02, 0x05 } };

	memcpy(&mac.b[2], &a4->v4, 4);
	return mac;
}

/* The gateway's address on every link: the sandbox's only neighbour. */
static struct rtnl_addr gateway6(uint8_t prefix_len)
{
	struct rtnl_addr a = { .family = AF_INET6, .prefix_len = prefix_len };

	a.v6.s6_addr[0] = 0xfe;
	a.v6.s6_addr[1] = 0x80;
	a.v6.s6_addr[15] = 1;
	return a;
}

void net_names(const struct net *n, uint32_t index, struct net_names *out)
{
	struct rtnl_addr a, b;

	memset(out, 0, sizeof(*out));
	if (index >= block_count(n->blocks))
		return;
	a = addr4(n, host_of(n, index));
	b = addr6(n, host_of(n, index));
	(void)snprintf(out->ifname, sizeof(out->ifname), "osb%s.%x", n->tag, index & 0xffff);
	(void)inet_ntop(AF_INET, &a.v4, out->ip4, sizeof(out->ip4));
	if (n->ipv6)
		(void)inet_ntop(AF_INET6, &b.v6, out->ip6, sizeof(out->ip6));
}

void net_claim(struct net *n, uint32_t index)
{
	if (index < NET_MAX_ADDRS)
		n->used[index / 64] |= 1ULL << (index % 64);
}

static void unclaim(struct net *n, uint32_t index)
{
	if (index < NET_MAX_ADDRS)
		n->used[index / 64] &= ~(1ULL << (index % 64));
}

static int free_index(struct net *n, uint32_t *ret, struct err *e)
{
	for (;;) {
		uint32_t all = block_count(n->blocks);
		int r;

		for (uint32_t i = 0; i < all; i++) {
			uint32_t index = (n->next + i) % all;

			if ((n->used[index / 64] & 1ULL << (index % 64)) != 0)
				continue;
			n->next = index + 1;
			*ret = index;
			return 0;
		}
		r = block_grow(n->blocks, e);
		if (r < 0)
			return r;
	}
}

/* ---- nameservers ---- */

int net_add_dns(struct net *n, const char *address, struct err *e)
{
	if (n->n_dns == NETADDR_MAX_DNS)
		return err_set(e, E2BIG, "at most %d nameservers", NETADDR_MAX_DNS);
	if (!netaddr_is_address(address))
		return err_set(e, EINVAL, "'%s' is not an address", address);
	(void)snprintf(n->dns_text[n->n_dns++], INET6_ADDRSTRLEN, "%s", address);
	return 0;
}

static void dns_from(struct net *n, const char *path)
{
	char text[4096];
	struct span rest;
	ssize_t len;

	len = fsat_read(AT_FDCWD, path, text, sizeof(text));
	rest = span_of(text, len > 0 ? (size_t)len : 0);
	while (rest.p != NULL && n->n_dns < NETADDR_MAX_DNS) {
		struct span line = span_trim(span_cut(&rest, '\n'));
		char address[INET6_ADDRSTRLEN];

		if (!span_starts(line, "nameserver") ||
		    !span_copy(span_trim(span_skip(line, 10)), address, sizeof(address)))
			continue;
		/* the host's own loopback is not the sandbox's */
		if (strncmp(address, "127.", 4) != 0 && strcmp(address, "::1") != 0)
			(void)net_add_dns(n, address, NULL);
	}
}

void net_find_dns(struct net *n)
{
	size_t len = 0;

	if (n->n_dns == 0)
		dns_from(n, "/etc/resolv.conf");
	if (n->n_dns == 0)
		dns_from(n, "/run/systemd/resolve/resolv.conf");
	for (unsigned i = 0; i < n->n_dns; i++) {
		int k = snprintf(n->resolv_conf + len, sizeof(n->resolv_conf) - len,
				 "nameserver %s\n", n->dns_text[i]);

		len += (size_t)k;
	}
}

/* ---- namespaces ---- */

int net_enter(int ns_fd, struct err *e)
{
	return setns(ns_fd, CLONE_NEWNET) < 0 ? err_sys(e, "enter a network namespace") : 0;
}

void net_leave(const struct net *n)
{
	/* The runner must never work on in a sandbox's network: there is no way to go on. */
	if (setns(n->host_ns_fd, CLONE_NEWNET) < 0)
		abort();
}

/* Inside the new namespace: loopback up, and the few settings that replace capabilities. */
static int settle(const struct net *n, int *ret_rtnl, struct err *e)
{
	autofd int rtnl = -EBADF;
	int r;

	r = rtnl_open(&rtnl, e);
	if (r == 0)
		r = rtnl_set_up(rtnl, 1, e);
	if (r < 0)
		return r;
	(void)fsat_putf(AT_FDCWD, "/proc/sys/net/ipv4/ping_group_range", "0 %u", n->last_gid);
	(void)fsat_put(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
	if (!n->ipv6)
		(void)fsat_put(AT_FDCWD, "/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
	(void)fsat_put(AT_FDCWD, "/proc/sys/net/ipv6/conf/default/accept_ra", "0");
	*ret_rtnl = TAKE_FD(rtnl);
	return 0;
}

/* Make the link. The namespaces of deleted sandboxes (and of a runner that was killed) go in the
 * kernel's own time, and their links with them: while a name is still taken, another number will
 * do; when all of ours are on their way out, we need more of them. */
static int add_link(struct net *n, struct net_slot *s, struct net_names *names, struct err *e)
{
	for (unsigned tries = 1;; tries++) {
		uint32_t was = s->index, all = block_count(n->blocks);
		struct rtnl_addr gate, own;
		int r;

		net_names(n, s->index, names);
		gate = addr4(n, 1);
		own = addr4(n, host_of(n, s->index));
		r = rtnl_add_veth(n->rtnl_fd,
				  &(struct rtnl_veth){ .name = names->ifname,
						       .mac = mac_of(&gate),
						       .peer = "eth0",
						       .peer_mac = mac_of(&own),
						       .peer_ns_fd = s->ns_fd,
						       .mtu = n->mtu },
				  e);
		if (r != -EEXIST)
			return r;
		if (tries >= all) {
			r = block_grow(n->blocks, e);
			if (r < 0)
				return r;
			n->next = all;
		}
		r = free_index(n, &s->index, e);
		if (r < 0)
			return r;
		net_claim(n, s->index);
		unclaim(n, was);
	}
}

/* One end of a link: its address, and who is at the other end. The machine has one table of
 * neighbours for all namespaces, with a number of places (gc_thresh3) that one sandbox could fill
 * by sending to addresses nobody has. So each end knows the other without asking, in an entry that
 * does not count, and the sandbox's asks for nobody else: what it adds can be thrown out. */
static int settle_end(int rtnl, int index, const struct rtnl_addr *own,
		      const struct rtnl_addr *other, const struct rtnl_mac *mac, struct err *e)
{
	int r;

	r = rtnl_add_addr(rtnl, index, own, e);
	return r < 0 ? r : rtnl_add_neighbour(rtnl, index, other, mac, e);
}

static int link_up(struct net *n, struct net_slot *s, int inner_rtnl, struct err *e)
{
	struct rtnl_addr own4, own6, gate4 = addr4(n, 1), gate6 = gateway6(64);
	struct rtnl_mac own_mac, gate_mac = mac_of(&gate4);
	struct net_names names;
	int r, outer, inner;

	r = add_link(n, s, &names, e);
	if (r < 0)
		return r;
	own4 = addr4(n, host_of(n, s->index));
	own6 = addr6(n, host_of(n, s->index));
	own_mac = mac_of(&own4);
	outer = rtnl_index(n->rtnl_fd, names.ifname, e);
	inner = rtnl_index(inner_rtnl, "eth0", e);
	if (outer < 0 || inner < 0)
		return MIN(outer, inner);

	r = rtnl_set_up(inner_rtnl, inner, e);
	if (r == 0)
		r = rtnl_stop_asking(inner_rtnl, inner, AF_INET, e);
	if (r == 0)
		r = settle_end(n->rtnl_fd, outer, &gate4, &own4, &own_mac, e);
	if (r == 0)
		r = rtnl_add_route(n->rtnl_fd, outer, &own4, NULL, e);
	if (r == 0)
		r = settle_end(inner_rtnl, inner, &own4, &gate4, &gate_mac, e);
	if (r == 0)
		r = rtnl_add_route(inner_rtnl, inner, NULL, &gate4, e);
	if (r < 0 || !n->ipv6)
		return r;
	r = rtnl_stop_asking(inner_rtnl, inner, AF_INET6, e);
	if (r == 0)
		r = settle_end(n->rtnl_fd, outer, &gate6, &own6, &own_mac, e);
	if (r == 0)
		r = rtnl_add_route(n->rtnl_fd, outer, &own6, NULL, e);
	if (r == 0)
		r = settle_end(inner_rtnl, inner, &own6, &gate6, &gate_mac, e);
	if (r == 0)
		r = rtnl_add_route(inner_rtnl, inner, NULL, &gate6, e);
	return r;
}

static int try_slot(struct net *n, bool linked, struct net_slot *ret, struct err *e)
{
	struct net_slot s = { .ns_fd = -EBADF, .index = NET_NO_ADDR };
	autofd int rtnl = -EBADF;
	int r = 0;

	if (linked) {
		r = free_index(n, &s.index, e);
		if (r < 0)
			return r;
		net_claim(n, s.index);
	}
	if (unshare(CLONE_NEWNET) < 0) {
		r = err_sys(e, "make a network namespace");
	} else {
		s.ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
		r = s.ns_fd < 0 ? err_sys(e, "open a network namespace") : settle(n, &rtnl, e);
		net_leave(n);
	}
	if (r == 0 && linked)
		r = link_up(n, &s, rtnl, e);
	if (r < 0)
		net_release(n, &s);
	else
		*ret = s;
	return r;
}

/* An address may be on its way out with the namespace of a runner that was killed, or belong to one
 * that does not share our /run: the next number is tried. */
static int make_slot(struct net *n, bool linked, struct net_slot *ret, struct err *e)
{
	int r = -EEXIST;

	for (unsigned tries = 0; r == -EEXIST && tries < 4 * NET_POOL_MAX; tries++)
		r = try_slot(n, linked, ret, e);
	return r;
}

void net_release(struct net *n, struct net_slot *s)
{
	fd_close(&s->ns_fd);
	unclaim(n, s->index);
	s->index = NET_NO_ADDR;
}

int net_take(struct net *n, bool linked, struct net_slot *ret, struct err *e)
{
	if (linked && !n->wired)
		return err_set(e, ENOTSUP, "this host cannot give sandboxes a network");
	if (linked && n->n_linked > 0) {
		*ret = n->linked[--n->n_linked];
		return 0;
	}
	if (!linked && n->n_bare > 0) {
		*ret = n->bare[--n->n_bare];
		return 0;
	}
	return make_slot(n, linked, ret, e);
}

int net_refill(struct net *n, struct err *e)
{
	int r;

	if (n->n_bare < n->want) {
		r = make_slot(n, false, &n->bare[n->n_bare], e);
		n->n_bare += r == 0;
	} else if (n->wired && n->n_linked < n->want) {
		r = make_slot(n, true, &n->linked[n->n_linked], e);
		n->n_linked += r == 0;
	} else {
		return 0;
	}
	return r < 0 ? r : 1;
}

int net_setup(struct net *n, const char *tag, struct blocks *blocks, struct err *e)
{
	uint64_t hash = 0xcbf29ce484222325;

	if (!span_copy(span_str(tag), n->tag, sizeof(n->tag)))
		return err_set(e, EINVAL, "tag '%s' is too long", tag);
	n->blocks = blocks;
	n->pool4.s_addr = htonl(10u << 24 | 200u << 16);
	/* RFC 4193: fd, 40 bits of our own, a subnet */
	for (const char *p = tag; *p != '\0'; p++)
		hash = (hash ^ (unsigned char)*p) * 0x100000001b3;
	n->pool6.s6_addr[0] = 0xfd;
	memcpy(&n->pool6.s6_addr[1], &hash, 5);
	if (n->mtu == 0)
		n->mtu = 1400;
	n->host_ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (n->host_ns_fd < 0)
		return err_sys(e, "open the host's network namespace");
	return rtnl_open(&n->rtnl_fd, e);
}

int net_set_pool(struct net *n, const char *address, struct err *e)
{
	struct in_addr a;

	if (inet_pton(AF_INET, address, &a) != 1 || (ntohl(a.s_addr) & 0xffff) != 0)
		return err_set(e, EINVAL, "'%s' is not the first address of a /16", address);
	n->pool4 = a;
	return 0;
}

int net_dial(const struct net *n, int ns_fd, enum msg_family family, uint16_t port, int *ret_fd,
	     struct err *e)
{
	const struct sockaddr_in to4 = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	const struct sockaddr_in6 to6 = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT,
	};
	bool v6 = family == MSG_IP6;
	autofd int fd = -EBADF;
	int r;

	r = net_enter(ns_fd, e);
	if (r < 0)
		return r;
	fd = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? err_sys(e, "open a socket in the sandbox") : 0;
	net_leave(n);
	if (r < 0)
		return r;
	r = v6 ? connect(fd, (const struct sockaddr *)&to6, sizeof(to6))
	       : connect(fd, (const struct sockaddr *)&to4, sizeof(to4));
	if (r < 0 && errno != EINPROGRESS)
		return err_sys(e, "connect to port %u of the sandbox", port);
	*ret_fd = TAKE_FD(fd);
	return 0;
}
