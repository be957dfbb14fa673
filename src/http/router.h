/* Routes are a table; the table also makes the docs.
 *
 *	static const struct http_route routes[] = {
 *		{ H1_GET, "/ping", ping },
 *		{ H1_GET, "/files/{id}", file_get },
 *		{ HTTP_ANY, "/proxy/{port}/{path...}", proxy },
 *	};
 *
 * "{name}" matches one segment, not empty; "{name...}" the rest, possibly empty, slashes included
 * and NOT decoded. Literal segments match what the client sent after percent-decoding. The first
 * row that matches wins, so put the special before the general. */
#ifndef OSB_HTTP_ROUTER_H
#define OSB_HTTP_ROUTER_H

#include "http/server.h"

#define HTTP_ANY (-1)

struct http_route {
	int method; /* enum h1_method or HTTP_ANY */
	const char *path;
	http_handler *handler;
	const void *data; /* for handlers that serve several rows */
	const char *doc;  /* one line */
};

struct http_router {
	const struct http_route *routes;
	unsigned n_routes;
	const char *prefix; /* optional path prefix that is also accepted ("/v1"), or NULL */
	bool head_as_get;   /* HEAD goes to the GET row; the layer leaves the body out */
};

enum http_match {
	HTTP_MATCHED,
	HTTP_NO_PATH,
	HTTP_NO_METHOD, /* the path exists with other methods; `ret_allow` lists them */
	HTTP_BAD_PATH,  /* broken percent-escape, NUL */
};

/* Fills r->route and r->params. ret_allow (arena) may be NULL. */
enum http_match http_router_match(const struct http_router *router, struct http_req *r,
				  const char **ret_allow);

/* Match and call, answering 404, 405 (with Allow) or 400 through http_refuse. */
void http_router_handle(const struct http_router *router, struct http_req *r);

#endif
