/* Into sandboxes: /sandboxes/{id}/proxy/{port}/... to whatever listens at that port inside.
 *
 * 44772 is execd, through its socket; it takes the token that the endpoint route gives out. 18080
 * is the egress policy, which the server answers for itself (egress.c). Any other port is dialed
 * inside the sandbox's network namespace, on its loopback. No API key is asked for here, for the
 * official clients send none; who does not know the id has nothing to ask for, and secureAccess
 * adds a token.
 */
#ifndef OSB_SERVER_GATEWAY_H
#define OSB_SERVER_GATEWAY_H

#include "http/server.h"
#include "server/sandbox.h"

#define GATEWAY_EXECD_PORT    44772
#define GATEWAY_EGRESS_PORT   18080

#define GATEWAY_EXECD_HEADER  "X-EXECD-ACCESS-TOKEN"
#define GATEWAY_SECURE_HEADER "OpenSandbox-Secure-Access"

/* "[/v1]/sandboxes/{id}/proxy/{digits}" and what follows it. */
bool gateway_is_path(struct span path);
void gateway_handle(struct http_req *r);

/* The sandbox ends: every exchange with it is cut. */
void gateway_close(struct sandbox *sb);

/* egress.c: port 18080. `path` is what follows the port. */
void egress_handle(struct http_req *r, const struct sandbox *sb, struct span path);

#endif
