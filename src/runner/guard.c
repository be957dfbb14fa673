#include "runner/guard.h"

#include <errno.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/util.h"
#include "sandbox/nft.h"

/* The value of the attribute of this type in a notice, or NULL. */
static const void *find_attr(const struct nlmsghdr *h, uint16_t type, size_t *ret_len)
{
	size_t at = NLMSG_LENGTH(sizeof(struct nfgenmsg));
	const char *base = (const char *)h;

	while (at + sizeof(struct nlattr) <= h->nlmsg_len) {
		struct nlattr a;

		memcpy(&a, base + at, sizeof(a));
		if (a.nla_len < sizeof(a) || a.nla_len > h->nlmsg_len - at)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == type) {
			*ret_len = a.nla_len - sizeof(a);
			return base + at + sizeof(a);
		}
		at += (size_t)NLA_ALIGN(a.nla_len);
	}
	return NULL;
}

/* Tables, chains, rules and sets all have the table's name as their first attribute. */
static bool is_about_us(const struct runner *r, const struct nlmsghdr *h)
{
	char ours[NFT_NAME_SIZE];
	const char *name;
	size_t len;

	nft_table_name(&r->net, ours);
	name = find_attr(h, NFTA_TABLE_NAME, &len);
	return name != NULL && len == strlen(ours) + 1 && memcmp(name, ours, len) == 0;
}

/* Every transaction ends with a notice, which like all of them bears the port of the socket that
 * the changes came from: by default its process's number, in the process's own namespace. The
 * number that the kernel adds as an attribute is that of the first namespace, which in a container
 * is not ours. One transaction per process: afterwards its number may be anybody's. */
static bool was_us(struct runner *r, const struct nlmsghdr *h)
{
	if (r->nft_pid <= 0 || h->nlmsg_pid != (uint32_t)r->nft_pid)
		return false;
	r->nft_pid = 0;
	return true;
}

static void put_back(struct runner *r)
{
	struct err e = ERR_INIT;

	r->filter_changed = false;
	log_warn("somebody changed the packet filter of sandboxes: putting it back");
	if (nft_install(&r->net, &r->policy, &r->nft_pid, &e) == 0)
		return;
	/* no filter, no network for anybody new */
	log_error("the packet filter cannot be put back", { "why", e.msg });
	r->net.wired = false;
	r->features &= ~(uint32_t)MSG_CAN_NETWORK;
}

static void take_notice(struct runner *r, const struct nlmsghdr *h)
{
	if (NFNL_SUBSYS_ID(h->nlmsg_type) != NFNL_SUBSYS_NFTABLES)
		return;
	switch (NFNL_MSG_TYPE(h->nlmsg_type)) {
	case NFT_MSG_NEWGEN:
		/* ours makes the table anew, so that nothing before it counts any more */
		r->filter_changed = was_us(r, h) ? false : r->filter_changed || r->filter_touched;
		r->filter_touched = false;
		break;
	case NFT_MSG_NEWRULE: /* an "accept" in front is as bad as a missing "drop" */
	case NFT_MSG_DELTABLE:
	case NFT_MSG_DELCHAIN:
	case NFT_MSG_DELRULE:
	case NFT_MSG_DELSET:
	case NFT_MSG_DELSETELEM:
		if (is_about_us(r, h))
			r->filter_touched = true;
		break;
	default:
		break;
	}
}

/* All notices there are. The last change decides: whoever answers each of several in a row takes
 * the notices of his own answers for somebody else's. */
static void read_notices(struct runner *r)
{
	static _Alignas(struct nlmsghdr) char data[32768];

	for (;;) {
		ssize_t n = recv(r->guard.fd, data, sizeof(data), MSG_DONTWAIT);
		size_t left = n > 0 ? (size_t)n : 0;

		if (n < 0 && errno == ENOBUFS) { /* some were lost: assume the worst */
			r->filter_changed = true;
			continue;
		}
		if (n <= 0)
			return;
		for (struct nlmsghdr *h = (struct nlmsghdr *)(void *)data; NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left))
			take_notice(r, h);
	}
}

static void on_notice(struct watch *w, uint32_t events UNUSED)
{
	struct runner *r = CONTAINER_OF(w, struct runner, guard);

	read_notices(r);
	if (r->filter_changed)
		put_back(r);
}

int guard_start(struct runner *r, struct err *e)
{
	struct sockaddr_nl at = {
		.nl_family = AF_NETLINK,
		.nl_groups = 1u << (NFNLGRP_NFTABLES - 1),
	};
	autofd int fd = -EBADF;
	int q;

	fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_NETFILTER);
	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_sys(e, "watch the packet filter");
	r->nft_pid = 0; /* its notice was before our time */
	q = loop_add(&r->loop, &r->guard, fd, EPOLLIN, on_notice);
	if (q < 0)
		return err_code(e, q, "watch the packet filter");
	fd = -EBADF;
	return 0;
}
