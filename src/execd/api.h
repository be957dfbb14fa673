/* The API's common ground: who may come in, which handler serves which route, how errors look.
 *
 * Every error has a JSON body with a code for programs and a message for people; a success without
 * data is an empty 200 with "Content-Length: 0", which some clients insist on. */
#ifndef OSB_EXECD_API_H
#define OSB_EXECD_API_H

#include "base/buf.h"
#include "base/err.h"
#include "codec/json.h"
#include "execd/execd.h"
#include "http/router.h"

/* Codes that clients know. */
#define API_INVALID_BODY          "INVALID_REQUEST_BODY"
#define API_MISSING_QUERY         "MISSING_QUERY"
#define API_RUNTIME_ERROR         "RUNTIME_ERROR"
#define API_INVALID_FILE          "INVALID_FILE"
#define API_INVALID_FILE_CONTENT  "INVALID_FILE_CONTENT"
#define API_INVALID_FILE_METADATA "INVALID_FILE_METADATA"
#define API_FILE_NOT_FOUND        "FILE_NOT_FOUND"
#define API_UNKNOWN               "UNKNOWN"
#define API_CONTEXT_NOT_FOUND     "CONTEXT_NOT_FOUND"
#define API_NOT_SUPPORTED         "NOT_SUPPORTED"
#define API_ALREADY_CONNECTED     "ALREADY_CONNECTED"

#define API_JSON_TYPE             "application/json; charset=utf-8"
#define API_TEXT_TYPE             "text/plain; charset=utf-8"

/* Largest JSON body of any route but one: code may contain data. */
#define API_MAX_BODY MIB(4)
#define API_MAX_CODE MIB(16)

/* The server's handler: authentication, then api_route(). */
void api_handle(struct http_req *r);
/* Find the route and call it. For requests that have been let in already: the port proxy comes back
 * here when somebody asks for our own port, with r->head exchanged for one with the inner
 * target. */
void api_route(struct http_req *r);
/* The server's `refuse`: parse errors, limits. */
void api_refuse(struct http_req *r, int status, const char *why);

/* --- answers --- */

void api_error(struct http_req *r, int status, const char *code, const char *message);
void api_errorf(struct http_req *r, int status, const char *code, const char *fmt, ...)
	PRINTF(4, 5);
void api_ok(struct http_req *r); /* 200 without a body */
/* JSON that jsonw put into `body`, which is freed. A buffer that overflowed becomes a 500. */
void api_json(struct http_req *r, int status, struct buf *body);

/* --- questions --- */

/* Parse a collected JSON body by the API's rules: only the first value counts, what follows is
 * ignored. False: answered (400 INVALID_REQUEST_BODY). An empty body is refused unless
 * `may_be_empty`, which makes *ret NULL; so does a JSON null. Otherwise *ret is an object. */
bool api_parse(struct http_req *r, struct span body, bool may_be_empty, json_t **ret);
/* As api_parse(), for any kind of value. */
bool api_parse_value(struct http_req *r, struct span body, json_t **ret);
/* 400: the body was JSON, but not what the route takes. */
void api_invalid(struct http_req *r, const char *why);
/* The same, unless it is us who lack something. */
void api_invalid_err(struct http_req *r, const struct err *e);
/* The query parameter as a string in the request's arena, or NULL after answering MISSING_QUERY. */
const char *api_need_query(struct http_req *r, const char *key);

/* --- handlers; each lives in the file its name begins with --- */

http_handler ping_get;

http_handler command_run, command_interrupt, command_status, command_logs;
http_handler session_create, session_run, session_delete;
http_handler logs_get;

http_handler code_run, code_context_create, code_contexts_list, code_contexts_delete,
	code_context_get, code_context_delete;

http_handler files_info, files_delete, files_permissions, files_mv, files_replace, files_search,
	files_upload, files_download;
http_handler directories_list, directories_make, directories_delete;
http_handler metrics_get, metrics_watch;
http_handler pty_create, pty_get, pty_delete, pty_ws;
http_handler proxy_handle;
http_handler isolated_capabilities, isolated_create, isolated_list, isolated_get, isolated_delete,
	isolated_run, isolated_diff, isolated_commit, isolated_files;

#endif
