/* How addresses and networks in settings must look, and how many a runner takes. */
#ifndef OSB_POLICY_NETADDR_H
#define OSB_POLICY_NETADDR_H

#include <stdbool.h>

#define NETADDR_MAX_DNS  3 /* resolv.conf(5) knows no more */
#define NETADDR_MAX_OPEN 16

/* An IPv4 or IPv6 address in figures. */
bool netaddr_is_address(const char *text);
/* The same with /BITS behind it, or without: a network of one. */
bool netaddr_is_network(const char *text);

#endif
