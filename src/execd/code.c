/* The code-interpreter routes, without an interpreter: they say so. */
#include "execd/api.h"

static void not_supported(struct http_req *r)
{
	api_error(
		r, 501, API_NOT_SUPPORTED,
		"code contexts are not supported by this build; run an interpreter with /command");
}

void code_run(struct http_req *r)
{
	not_supported(r);
}

void code_context_create(struct http_req *r)
{
	not_supported(r);
}

void code_contexts_list(struct http_req *r)
{
	not_supported(r);
}

void code_contexts_delete(struct http_req *r)
{
	not_supported(r);
}

void code_context_get(struct http_req *r)
{
	not_supported(r);
}

void code_context_delete(struct http_req *r)
{
	not_supported(r);
}
