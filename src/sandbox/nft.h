/* The host's packet filter for sandboxes: one table per instance, written once.
 *
 * No rule names a sandbox. Interfaces are matched by the instance's prefix, sources are checked
 * against the routing table, so that making and deleting sandboxes never touches the filter. */
#ifndef OSB_SANDBOX_NFT_H
#define OSB_SANDBOX_NFT_H

#include "base/buf.h"
#include "base/err.h"
#include "sandbox/net.h"

#define NFT_MAX_OPEN 16

/* Destinations that an operator opens although they are private. CIDR texts, checked. */
struct nft_policy {
	const char *open[NFT_MAX_OPEN];
	unsigned n_open;
};

int nft_write(struct buf *b, const struct net *n, const struct nft_policy *p, struct err *e);

/* Install (or with an empty policy text, replace) the table through the nft program. */
int nft_install(const struct net *n, const struct nft_policy *p, struct err *e);
int nft_remove(const struct net *n, struct err *e);

#endif
