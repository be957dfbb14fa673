/* The handlers that the table in routes.c names, by the file they live in. */
#ifndef OSB_SERVER_ROUTES_H
#define OSB_SERVER_ROUTES_H

#include "server/api.h"

/* routes_create.c */
void route_create(struct http_req *r);

/* routes_sandbox.c */
void route_get(struct http_req *r);
void route_delete(struct http_req *r);
void route_metadata(struct http_req *r);
void route_pause(struct http_req *r);
void route_resume(struct http_req *r);
void route_renew(struct http_req *r);

/* routes_list.c */
void route_list(struct http_req *r);

/* endpoints.c */
void route_endpoint(struct http_req *r);

/* diagnostics.c */
void route_logs(struct http_req *r);
void route_events(struct http_req *r);
void route_inspect(struct http_req *r);
void route_summary(struct http_req *r);

/* metrics_page.c */
void route_metrics(struct http_req *r);

/* routes.c: the table as Markdown */
void route_docs(struct buf *out);

#endif
