/* The host's packet filter for sandboxes: one table per instance, written once.
 *
 * No rule names a sandbox. Interfaces are matched by the instance's prefix, sources are checked
 * against the routing table, so that making and deleting sandboxes never touches the filter. */
#ifndef OSB_SANDBOX_NFT_H
#define OSB_SANDBOX_NFT_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "policy/netaddr.h"
#include "sandbox/net.h"

/* Destinations that an operator opens although they are private. CIDR texts, checked. */
struct nft_policy {
	const char *open[NETADDR_MAX_OPEN];
	unsigned n_open;
};

#define NFT_NAME_SIZE 32
void nft_table_name(const struct net *n, char out[NFT_NAME_SIZE]);

/* `count`: with a limit of connections for each sandbox, which not every kernel can hold. */
int nft_write(struct buf *b, const struct net *n, const struct nft_policy *p, bool count,
	      struct err *e);

/* Install or replace the table through the nft program; *ret_pid is the process that did it, by
 * which its traces in the kernel's notices can be told from others'. */
int nft_install(const struct net *n, const struct nft_policy *p, pid_t *ret_pid, struct err *e);
int nft_remove(const struct net *n, struct err *e);

#endif
