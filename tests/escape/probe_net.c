/* Network: families, metadata services, neighbours, forged addresses. */
#include "probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* E31: families that reach past the network namespace */
static int e31(char **argv)
{
	static const struct {
		const char *name;
		int family, type, protocol;
	} kinds[] = {
		{ "AF_PACKET", AF_PACKET, SOCK_RAW, 0x0300 },
		{ "AF_VSOCK", AF_VSOCK, SOCK_STREAM, 0 },
		{ "AF_ALG", AF_ALG, SOCK_SEQPACKET, 0 },
		{ "AF_BLUETOOTH", AF_BLUETOOTH, SOCK_RAW, 0 },
		{ "AF_XDP", 44, SOCK_RAW, 0 },
		{ "AF_KEY", AF_KEY, SOCK_RAW, 2 },
		{ "raw ICMP", AF_INET, SOCK_RAW, 1 },
		{ "raw IP", AF_INET, SOCK_RAW, 255 },
		{ "raw ICMPv6", AF_INET6, SOCK_RAW, 58 },
		{ "netlink netfilter", AF_NETLINK, SOCK_RAW, 12 },
		{ "netlink uevent", AF_NETLINK, SOCK_RAW, 15 },
		{ "netlink audit", AF_NETLINK, SOCK_RAW, 9 },
		{ "netlink generic", AF_NETLINK, SOCK_RAW, 16 },
		{ "netlink xfrm", AF_NETLINK, SOCK_RAW, 6 },
		{ "netlink crypto", AF_NETLINK, SOCK_RAW, 21 },
		{ "netlink connector", AF_NETLINK, SOCK_RAW, 11 },
		{ "netlink scsi", AF_NETLINK, SOCK_RAW, 18 },
		{ "netlink rdma", AF_NETLINK, SOCK_RAW, 20 },
		{ "SCTP", AF_INET, SOCK_STREAM, 132 },
		{ "SCTP over IPv6", AF_INET6, SOCK_SEQPACKET, 132 },
		{ "DCCP", AF_INET, 6, 33 },
		{ "L2TP", AF_INET, SOCK_DGRAM, 115 },
		{ "SMC", AF_INET, SOCK_STREAM, 256 },
		{ "AF_TIPC", 30, SOCK_DGRAM, 0 },
		{ "AF_QIPCRTR", 42, SOCK_DGRAM, 0 },
		{ "AF_SMC", 43, SOCK_STREAM, 0 },
		{ "AF_RDS", 21, SOCK_SEQPACKET, 0 },
		{ "AF_CAN", 29, SOCK_RAW, 1 },
	};
	int bad = 0;

	(void)argv;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		bad |= refused(kinds[i].name,
			       socket(kinds[i].family, kinds[i].type, kinds[i].protocol));
	return bad;
}

/* On the link to the host, where addresses are the link's own. */
static unsigned scope_of(const struct sockaddr_in6 *a)
{
	return IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr) || IN6_IS_ADDR_MULTICAST(&a->sin6_addr)
		       ? if_nametoindex("eth0")
		       : 0;
}

/* An address of either kind, and a port. */
struct place {
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	};
	socklen_t len;
};

static void place_of(struct place *p, const char *address, const char *port)
{
	const in_port_t number = htons((uint16_t)atoi(port));

	memset(p, 0, sizeof(*p));
	if (strchr(address, ':') != NULL) {
		p->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = number };
		inet_pton(AF_INET6, address, &p->v6.sin6_addr);
		p->v6.sin6_scope_id = scope_of(&p->v6);
		p->len = sizeof(p->v6);
	} else {
		p->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = number };
		inet_pton(AF_INET, address, &p->v4.sin_addr);
		p->len = sizeof(p->v4);
	}
}

/* argv: addresses and ports in turn */
static int e42(char **argv)
{
	int bad = 0;

	for (; argv[0] != NULL; argv += 2) {
		struct place to;
		int fd, error = 0;
		struct pollfd p = { .events = POLLOUT };
		socklen_t len = sizeof(error);
		char what[200];
		int r;

		snprintf(what, sizeof(what), "connect %s port %s", argv[0], argv[1]);
		place_of(&to, argv[0], argv[1]);
		fd = p.fd = socket(to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		r = connect(fd, &to.any, to.len);
		if (r < 0 && errno == EINPROGRESS) {
			if (poll(&p, 1, 20000) <= 0)
				error = ETIMEDOUT;
			else
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
			errno = error;
			r = error != 0 ? -1 : 0;
		}
		bad |= refused(what, r);
		close(fd);
	}
	return bad;
}

/* The same by datagrams: whether one arrives is seen at the other end. */
static int e43_udp(char **argv)
{
	for (; argv[0] != NULL; argv += 2) {
		struct place to;
		ssize_t n = -1;
		int fd;

		place_of(&to, argv[0], argv[1]);
		fd = socket(to.any.sa_family, SOCK_DGRAM, 0);
		(void)setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &(int){ 1 }, sizeof(int));
		for (int i = 0; i < 3; i++)
			n = sendto(fd, "x", 1, 0, &to.any, to.len);
		printf("refused or lost: datagram to %s port %s: %s\n", argv[0], argv[1],
		       n < 0 ? strerror(errno) : "sent");
		close(fd);
	}
	return 0;
}

/* CVE-2020-8558: the loopback address, by way of the link to the host. argv[0]: port */
static int e44(char **argv)
{
	static const char *const addresses[] = { "127.0.0.1", "127.1.2.3" };
	int bad = 0;

	for (size_t i = 0; i < COUNT(addresses); i++) {
		struct sockaddr_in to = { .sin_family = AF_INET,
					  .sin_port = htons((uint16_t)atoi(argv[0])) };
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = 0;
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		socklen_t len = sizeof(error);

		inet_pton(AF_INET, addresses[i], &to.sin_addr);
		if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5) < 0) {
			bad |= refused("use eth0 alone", -1);
		} else if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 &&
			   errno == EINPROGRESS) {
			/* no answer within the time of a second attempt is none at all */
			if (poll(&p, 1, 1500) == 1)
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
			else
				error = ETIMEDOUT;
			errno = error;
			bad |= refused(addresses[i], error != 0 ? -1 : 0);
		} else {
			bad |= refused(addresses[i], -1);
		}
		close(fd);
	}
	return bad;
}

/* One request to the kernel's routing; 0 if it was carried out, else -1 and errno. */
static int rtnl(int type, const void *body, size_t size)
{
	struct {
		struct nlmsghdr head;
		char data[128];
	} m = { .head = { .nlmsg_len = (unsigned)NLMSG_LENGTH(size),
			  .nlmsg_type = (unsigned short)type,
			  .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE } };
	struct {
		struct nlmsghdr head;
		struct nlmsgerr err;
		char more[512];
	} answer = { 0 };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	ssize_t n = -1;

	if (fd < 0)
		return -1;
	memcpy(m.data, body, size);
	if (send(fd, &m, m.head.nlmsg_len, 0) >= 0)
		n = recv(fd, &answer, sizeof(answer), 0);
	close(fd);
	if (n < 0)
		return -1;
	errno = -answer.err.error;
	return answer.head.nlmsg_type == NLMSG_ERROR && answer.err.error == 0 ? 0 : -1;
}

/* The link itself: addresses, routes, neighbours. */
static int change_link(void)
{
	struct ifreq ifr = { .ifr_name = "eth0" };
	struct arpreq arp = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = "eth0" };
	struct rtmsg route = { .rtm_family = AF_INET,
			       .rtm_table = RT_TABLE_MAIN,
			       .rtm_protocol = RTPROT_STATIC,
			       .rtm_type = RTN_UNICAST };
	struct ifaddrmsg address = { .ifa_family = AF_INET, .ifa_prefixlen = 32, .ifa_index = 1 };
	struct ndmsg neighbour = { .ndm_family = AF_INET, .ndm_ifindex = 2, .ndm_state = 0x80 };
	struct ifinfomsg link = { .ifi_family = AF_UNSPEC };
	int bad = 0, fd = socket(AF_INET, SOCK_DGRAM, 0);

	bad |= refused("RTM_NEWROUTE", rtnl(RTM_NEWROUTE, &route, sizeof(route)));
	bad |= refused("RTM_NEWADDR", rtnl(RTM_NEWADDR, &address, sizeof(address)));
	bad |= refused("RTM_NEWNEIGH", rtnl(RTM_NEWNEIGH, &neighbour, sizeof(neighbour)));
	bad |= refused("RTM_NEWLINK", rtnl(RTM_NEWLINK, &link, sizeof(link)));
	bad |= refused("SIOCSIFADDR", ioctl(fd, SIOCSIFADDR, &ifr));
	bad |= refused("SIOCSIFHWADDR", ioctl(fd, SIOCSIFHWADDR, &ifr));
	bad |= refused("SIOCSIFFLAGS", ioctl(fd, SIOCSIFFLAGS, &ifr));
	bad |= refused("SIOCSARP", ioctl(fd, SIOCSARP, &arp));
	close(fd);
	return bad;
}

/* An address one does not have can be bound to; sending from it is another matter. */
static void send_as(const char *address, const char *to_address, const char *port)
{
	struct place from, to;
	bool six = strchr(address, ':') != NULL;
	int one = 1, fd = socket(six ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);

	place_of(&from, address, "0");
	place_of(&to, to_address, port);
	(void)setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP, six ? IPV6_FREEBIND : IP_FREEBIND,
			 &one, sizeof(one));
	if (bind(fd, &from.any, from.len) < 0)
		refused("bind to a foreign address", -1);
	else if (sendto(fd, "forged", 6, 0, &to.any, to.len) < 0)
		refused("send from a foreign address", -1);
	else
		printf("sent from a foreign address; whether it arrives is seen outside\n");
	close(fd);
}

/* Addresses that are somebody else's. argv: an address to forge, where to send, port */
static int e45(char **argv)
{
	static const struct {
		const char *name;
		int family, level, option;
	} ways[] = {
		{ "IP_TRANSPARENT", AF_INET, IPPROTO_IP, IP_TRANSPARENT },
		{ "IPV6_TRANSPARENT", AF_INET6, IPPROTO_IPV6, 75 },
		{ "SO_MARK", AF_INET, SOL_SOCKET, SO_MARK },
		{ "SO_RCVBUFFORCE", AF_INET, SOL_SOCKET, SO_RCVBUFFORCE },
	};
	int bad = 0, one = 7, fd;

	for (size_t i = 0; i < COUNT(ways); i++) {
		fd = socket(ways[i].family, SOCK_DGRAM, 0);
		bad |= refused(ways[i].name,
			       setsockopt(fd, ways[i].level, ways[i].option, &one, sizeof(one)));
		close(fd);
	}
	bad |= change_link();
	bad |= refused("raw ICMPv6, for router advertisements",
		       socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6));
	bad |= refused("a packet socket, for ARP", socket(AF_PACKET, SOCK_RAW, htons(0x0806)));
	send_as(argv[0], argv[1], argv[2]);
	return bad;
}

/* X10: programs for packets, which are compiled */
static int x10(char **argv)
{
	static const int families[] = { AF_UNIX, AF_INET, AF_INET6, AF_NETLINK };
	static const struct {
		const char *name;
		int option;
	} ways[] = { { "SO_ATTACH_FILTER", SO_ATTACH_FILTER },
		     { "SO_ATTACH_REUSEPORT_CBPF", SO_ATTACH_REUSEPORT_CBPF } };
	struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, 0xffff);
	struct sock_fprog prog = { 1, &all };
	int bad = 0, one = 1;

	(void)argv;
	for (size_t i = 0; i < COUNT(families); i++)
		for (size_t k = 0; k < COUNT(ways); k++) {
			int fd = socket(families[i], SOCK_DGRAM, 0);

			(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
			bad |= refused(ways[k].name, setsockopt(fd, SOL_SOCKET, ways[k].option,
								&prog, sizeof(prog)));
			close(fd);
		}
	return bad;
}

/* X09: keys of connections, which are in nobody's limit of memory */
static int x09(char **argv)
{
	struct {
		struct sockaddr_storage addr;
		unsigned char flags, prefix;
		unsigned short len;
		int ifindex;
		unsigned char key[80];
	} md5 = { .len = 8, .key = "canary" };
	struct sockaddr_in *to = (struct sockaddr_in *)&md5.addr;
	int fd = socket(AF_INET, SOCK_STREAM, 0), bad = 0;

	(void)argv;
	to->sin_family = AF_INET;
	to->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	bad |= refused("TCP_MD5SIG", setsockopt(fd, IPPROTO_TCP, 14, &md5, sizeof(md5)));
	bad |= refused("TCP_MD5SIG_EXT", setsockopt(fd, IPPROTO_TCP, 32, &md5, sizeof(md5)));
	bad |= refused("TCP_AO_ADD_KEY", setsockopt(fd, IPPROTO_TCP, 38, &md5, sizeof(md5)));
	close(fd);
	return bad;
}

const struct attempt net_attempts[] = {
	{ "E31", e31 }, { "E42", e42 }, { "E43-udp", e43_udp }, { "E44", e44 },
	{ "E45", e45 }, { "X09", x09 }, { "X10", x10 },         { NULL, NULL },
};
