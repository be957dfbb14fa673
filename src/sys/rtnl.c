#include "sys/rtnl.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/span.h"
#include "base/util.h"

/* A request under construction. Ours are small and of known shape, so running over is a bug that
 * shows as -EMSGSIZE, not an overrun. */
struct request {
	_Alignas(struct nlmsghdr) char data[512];
	size_t len;
	bool full;
};

static void *put(struct request *q, const void *p, size_t len)
{
	char *at = q->data + q->len;

	if (q->full || NLMSG_ALIGN(len) > sizeof(q->data) - q->len) {
		q->full = true;
		return NULL;
	}
	memset(at, 0, NLMSG_ALIGN(len));
	if (len > 0)
		memcpy(at, p, len);
	q->len += NLMSG_ALIGN(len);
	return at;
}

static void begin(struct request *q, uint16_t type, uint16_t flags, const void *body, size_t len)
{
	struct nlmsghdr h = {
		.nlmsg_type = type,
		.nlmsg_flags = (uint16_t)(NLM_F_REQUEST | NLM_F_ACK | flags),
	};

	q->len = 0;
	q->full = false;
	put(q, &h, sizeof(h));
	put(q, body, len);
}

static struct rtattr *attr(struct request *q, uint16_t type, const void *p, size_t len)
{
	struct rtattr a = { .rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len) };
	struct rtattr *at = put(q, &a, sizeof(a));

	if (len > 0)
		put(q, p, len);
	return at;
}

static void attr_str(struct request *q, uint16_t type, const char *s)
{
	attr(q, type, s, strlen(s) + 1);
}

static void attr_u32(struct request *q, uint16_t type, uint32_t v)
{
	attr(q, type, &v, sizeof(v));
}

static void attr_end(struct request *q, struct rtattr *at)
{
	if (at != NULL && !q->full)
		at->rta_len = (uint16_t)(q->data + q->len - (char *)at);
}

static int ask(int fd, struct request *q, struct err *e, const char *what)
{
	struct nlmsghdr *h = (struct nlmsghdr *)(void *)q->data;
	_Alignas(struct nlmsghdr) char answer[2048];
	const struct nlmsgerr *result;
	ssize_t n;

	if (q->full)
		return err_set(e, EMSGSIZE, "%s: request too long", what);
	h->nlmsg_len = (uint32_t)q->len;
	if (send(fd, q->data, q->len, 0) < 0)
		return err_sys(e, "%s", what);
	do
		n = recv(fd, answer, sizeof(answer), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "%s", what);
	h = (struct nlmsghdr *)(void *)answer;
	if (!NLMSG_OK(h, (size_t)n) || h->nlmsg_type != NLMSG_ERROR ||
	    h->nlmsg_len < NLMSG_LENGTH(sizeof(*result)))
		return err_set(e, EPROTO, "%s: odd answer", what);
	result = NLMSG_DATA(h);
	return result->error == 0 ? 0 : err_code(e, result->error, "%s", what);
}

int rtnl_open(int *ret_fd, struct err *e)
{
	struct sockaddr_nl kernel = { .nl_family = AF_NETLINK };
	autofd int fd = -EBADF;
	int one = 1;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	if (fd < 0)
		return err_sys(e, "open netlink");
	if (connect(fd, (struct sockaddr *)&kernel, sizeof(kernel)) < 0)
		return err_sys(e, "connect netlink");
	/* acknowledgements need not repeat the request */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof(one));
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Else there is one per processor, all but one of which the kernel at once puts out of use, and
 * waits until nobody can be using them (an RCU grace period). */
static void one_queue(struct request *q)
{
	attr_u32(q, IFLA_NUM_TX_QUEUES, 1);
	attr_u32(q, IFLA_NUM_RX_QUEUES, 1);
}

static void one_end(struct request *q, const char *name, const struct rtnl_mac *mac, uint32_t mtu)
{
	attr_str(q, IFLA_IFNAME, name);
	attr(q, IFLA_ADDRESS, mac->b, sizeof(mac->b));
	attr_u32(q, IFLA_MTU, mtu);
	one_queue(q);
}

int rtnl_add_veth(int fd, const struct rtnl_veth *v, struct err *e)
{
	struct ifinfomsg up = { .ifi_flags = IFF_UP, .ifi_change = IFF_UP }, down = { 0 };
	struct rtattr *info, *data, *other;
	struct request q;

	begin(&q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, &up, sizeof(up));
	one_end(&q, v->name, &v->mac, v->mtu);
	info = attr(&q, IFLA_LINKINFO, NULL, 0);
	attr_str(&q, IFLA_INFO_KIND, "veth");
	data = attr(&q, IFLA_INFO_DATA, NULL, 0);
	other = attr(&q, VETH_INFO_PEER, NULL, 0);
	put(&q, &down, sizeof(down));
	one_end(&q, v->peer, &v->peer_mac, v->mtu);
	attr_u32(&q, IFLA_NET_NS_FD, (uint32_t)v->peer_ns_fd);
	attr_end(&q, other);
	attr_end(&q, data);
	attr_end(&q, info);
	return ask(fd, &q, e, "add veth pair");
}

int rtnl_set_up(int fd, int index, struct err *e)
{
	struct ifinfomsg up = { .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP };
	struct request q;

	begin(&q, RTM_NEWLINK, 0, &up, sizeof(up));
	return ask(fd, &q, e, "set link up");
}

int rtnl_delete_link(int fd, int index, struct err *e)
{
	struct ifinfomsg link = { .ifi_index = index };
	struct request q;

	begin(&q, RTM_DELLINK, 0, &link, sizeof(link));
	return ask(fd, &q, e, "delete link");
}

int rtnl_index(int fd, const char *name, struct err *e)
{
	struct ifreq req;

	memset(&req, 0, sizeof(req));
	if (!span_copy(span_str(name), req.ifr_name, sizeof(req.ifr_name)))
		return err_set(e, ENAMETOOLONG, "interface name '%s' is too long", name);
	if (ioctl(fd, SIOCGIFINDEX, &req) < 0)
		return err_sys(e, "find interface '%s'", name);
	return req.ifr_ifindex;
}

static size_t addr_len(const struct rtnl_addr *a)
{
	return a->family == AF_INET6 ? sizeof(a->v6) : sizeof(a->v4);
}

int rtnl_add_addr(int fd, int index, const struct rtnl_addr *a, struct err *e)
{
	struct ifaddrmsg m = {
		.ifa_family = a->family,
		.ifa_prefixlen = a->prefix_len,
		.ifa_index = (uint32_t)index,
		/* there is nobody else on the link, so no wait for duplicates */
		.ifa_flags = a->family == AF_INET6 ? IFA_F_NODAD : 0,
	};
	struct request q;

	begin(&q, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	attr(&q, IFA_LOCAL, &a->v4, addr_len(a));
	attr(&q, IFA_ADDRESS, &a->v4, addr_len(a));
	return ask(fd, &q, e, "add address");
}

int rtnl_add_route(int fd, int index, const struct rtnl_addr *to, const struct rtnl_addr *via,
		   struct err *e)
{
	struct rtmsg m = {
		.rtm_family = to != NULL ? to->family : via->family,
		.rtm_dst_len = to != NULL ? to->prefix_len : 0,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = via != NULL ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
		.rtm_flags = via != NULL ? RTNH_F_ONLINK : 0,
	};
	struct request q;

	begin(&q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, &m, sizeof(m));
	if (to != NULL)
		attr(&q, RTA_DST, &to->v4, addr_len(to));
	if (via != NULL)
		attr(&q, RTA_GATEWAY, &via->v4, addr_len(via));
	attr_u32(&q, RTA_OIF, (uint32_t)index);
	return ask(fd, &q, e, "add route");
}

int rtnl_add_neighbour(int fd, int index, const struct rtnl_addr *a, const struct rtnl_mac *mac,
		       struct err *e)
{
	struct ndmsg m = {
		.ndm_family = a->family,
		.ndm_ifindex = index,
		.ndm_state = NUD_PERMANENT,
	};
	struct request q;

	begin(&q, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, &m, sizeof(m));
	attr(&q, NDA_DST, &a->v4, addr_len(a));
	attr(&q, NDA_LLADDR, mac->b, sizeof(mac->b));
	return ask(fd, &q, e, "add neighbour");
}

int rtnl_stop_asking(int fd, int index, uint8_t family, struct err *e)
{
	struct ndtmsg m = { .ndtm_family = family };
	struct rtattr *parms;
	struct request q;

	begin(&q, RTM_SETNEIGHTBL, 0, &m, sizeof(m));
	attr_str(&q, NDTA_NAME, family == AF_INET6 ? "ndisc_cache" : "arp_cache");
	parms = attr(&q, NDTA_PARMS, NULL, 0);
	attr_u32(&q, NDTPA_IFINDEX, (uint32_t)index);
	attr_u32(&q, NDTPA_MCAST_PROBES, 0);
	attr_end(&q, parms);
	return ask(fd, &q, e, "stop neighbour discovery");
}
