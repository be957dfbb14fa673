/* /v1/isolated/...: sessions in namespaces of their own. Not available yet, and says so. */
#include "execd/api.h"

void isolated_capabilities(struct http_req *r)
{
	struct buf out = BUF_INIT(KIB(1));
	struct jw w = JW_INIT(&out);

	jw_object(&w);
	jw_field_bool(&w, "available", false);
	jw_field_cstr(&w, "message", "isolated sessions are not supported by this execd");
	jw_field_bool(&w, "setpriv_available", false);
	jw_field_bool(&w, "userns_available", false);
	jw_field_bool(&w, "commit_supported", false);
	jw_field_bool(&w, "diff_supported", false);
	jw_end(&w);
	api_json(r, 200, &out);
}

static void unavailable(struct http_req *r)
{
	api_error(r, 503, API_NOT_SUPPORTED, "isolation unavailable");
}

void isolated_create(struct http_req *r)
{
	unavailable(r);
}

void isolated_list(struct http_req *r)
{
	unavailable(r);
}

void isolated_get(struct http_req *r)
{
	unavailable(r);
}

void isolated_delete(struct http_req *r)
{
	unavailable(r);
}

void isolated_run(struct http_req *r)
{
	unavailable(r);
}

void isolated_diff(struct http_req *r)
{
	unavailable(r);
}

void isolated_commit(struct http_req *r)
{
	unavailable(r);
}

void isolated_files(struct http_req *r)
{
	unavailable(r);
}
