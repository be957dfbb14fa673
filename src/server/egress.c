/* Port 18080 of every sandbox: the egress policy, as far as there is one. Nothing is claimed that
 * is not so: reading it tells what holds, changing it is refused. */
#include "server/api.h"
#include "server/gateway.h"

static void policy(struct http_req *r, const struct sandbox *sb)
{
	struct buf out = BUF_INIT(KIB(2));
	struct jw w = JW_INIT(&out);
	bool network = sb->rec.network != 0;

	jw_object(&w);
	jw_field_cstr(&w, "status", "ok");
	jw_field_cstr(&w, "mode", network ? "allow_all" : "deny_all");
	jw_field_cstr(&w, "enforcementMode", "none");
	jw_field_cstr(&w, "reason",
		      network ? "no policy was asked for; private ranges, the host and other "
				"sandboxes are closed by the runtime"
			      : "this sandbox has no network");
	jw_key(&w, "policy");
	jw_object(&w);
	jw_field_cstr(&w, "defaultAction", network ? "allow" : "deny");
	jw_key(&w, "egress");
	jw_array(&w);
	jw_end(&w);
	jw_end(&w);
	jw_end(&w);
	api_json(r, 200, &out);
}

void egress_handle(struct http_req *r, const struct sandbox *sb, struct span path)
{
	bool reads = r->head->method == H1_GET || r->head->method == H1_HEAD;

	api_set_request_id(r);
	if (span_is(path, "/healthz") && reads) {
		struct buf out = BUF_INIT(64);

		(void)buf_add_str(&out, "{\"status\":\"ok\"}");
		api_json(r, 200, &out);
	} else if (span_is(path, "/policy") && reads) {
		policy(r, sb);
	} else if (span_is(path, "/policy")) {
		api_error(r, E_POLICY_FIXED, "this server enforces no egress policy");
	} else if (span_starts(path, "/credential-vault")) {
		api_error(r, E_VAULT_NOT_IMPLEMENTED, "this server has no credential vault");
	} else {
		api_error(r, E_NOT_FOUND, "no such path");
	}
}
