/* The front of the API: request id, CORS, authentication, then the routes; and how they answer.
 *
 * Every answer leaves through api_json(), api_text(), api_empty() or api_error(), so that all of
 * them have the same fields, the same envelope and are counted alike. */
#ifndef OSB_SERVER_API_H
#define OSB_SERVER_API_H

#include "codec/jsonw.h"
#include "http/router.h"
#include "server/request.h"
#include "server/server.h"

#define API_MAX_BODY MIB(1)
#define API_MAX_PAGE 200 /* items of a list in one answer */

/* Behind r->user of every API request (not of those that the gateway passes on). */
struct api_call {
	struct server *server;
	struct http_req *req;
	uint64_t started_us;
	struct waiter waiter;             /* the one operation it may wait for */
	struct sandbox *sb;               /* held while it waits */
	struct creation *creation;        /* ... for this */
	void *own;                        /* the route's */
	void (*gone)(struct api_call *c); /* the client went before it was answered; may be NULL */
};

/* http_options.handler and .refuse */
void api_handle(struct http_req *r);
void api_refuse(struct http_req *r, int status, const char *why);

static inline struct server *api_server(const struct http_req *r)
{
	return r->server->user;
}

static inline struct api_call *api_call(const struct http_req *r)
{
	return r->user;
}

/* --- answers --- */

/* The buffer is freed. One that has failed becomes a 500. */
void api_json(struct http_req *r, int status, struct buf *body);
/* Of what has happened: if it cannot be told, the connection is cut, since an error would say that
 * it has not. */
void api_done(struct http_req *r, int status, struct buf *body);
void api_text(struct http_req *r, int status, const char *content_type, struct buf *body);
void api_empty(struct http_req *r, int status);
void api_error(struct http_req *r, enum error error, const char *fmt, ...) PRINTF(3, 4);
void api_refusal(struct http_req *r, const struct refusal *rf);
/* What every answer carries; once per request. */
void api_set_request_id(struct http_req *r);
/* The fields a browser wants to see. True if the request was answered: a preflight. */
bool api_cors(struct http_req *r);

/* --- requests --- */

/* Is the server's key in one of the request's Authorization fields? */
bool api_bears_key(const struct http_req *r);

/* The sandbox that {id} names, or NULL after a 404. `ended`: also one that has ended. */
struct sandbox *api_sandbox(struct http_req *r, bool ended);

/* The body as JSON, then `then`; what is not JSON or not declared as such is answered 422. An empty
 * body is NULL if `optional`. */
void api_read_json(struct http_req *r, bool optional,
		   void (*then)(struct http_req *r, json_t *body));

/* Wait for an operation on this sandbox with call->waiter. */
struct waiter *api_wait(struct http_req *r, struct sandbox *sb,
			void (*done)(struct waiter *w, struct sandbox *sb, enum error error,
				     const char *why));
/* In `done`: no more waiting. */
struct http_req *api_waited(struct waiter *w);

/* page and pageSize of a list, or false after a 422. */
bool api_paging(struct http_req *r, int64_t *ret_page, int64_t *ret_size);
void api_pagination(struct jw *w, int64_t page, int64_t size, int64_t total);

/* --- the rows --- */

extern const struct http_route api_routes[];
extern const unsigned api_n_routes;

#endif
