/* GET /sandboxes/{id}/endpoints/{port}: where a port is reached. */
#include <string.h>

#include "server/gateway.h"
#include "server/routes.h"

/* What the client is to prepend: the configured address, or how it reached us itself. */
static struct span base_of(const struct http_req *r)
{
	const struct server *s = api_server(r);
	struct span base = span_str(s->config.public_address);

	if (base.len == 0)
		return r->head->host.len > 0 ? r->head->host : span_str(s->address);
	if (span_starts(base, "http://"))
		base = span_skip(base, 7);
	else if (span_starts(base, "https://"))
		base = span_skip(base, 8);
	while (span_ends(base, "/"))
		base.len--;
	return base;
}

static bool read_query(struct http_req *r)
{
	struct span proxy = http_query(r, "use_server_proxy", 0);
	struct span expires = http_query(r, "expires", 0);
	struct refusal rf;
	uint64_t at;
	bool flag;

	if (proxy.p != NULL && !request_flag(proxy, &flag)) {
		(void)refuse_at(&rf, "query.use_server_proxy", "must be true or false");
		api_refusal(r, &rf);
		return false;
	}
	if (expires.p == NULL)
		return true;
	if (!span_u64(expires, &at)) {
		(void)refuse_at(&rf, "query.expires", "must be Unix seconds");
		api_refusal(r, &rf);
	} else if (proxy.p != NULL && flag) {
		api_error(r, E_INVALID_PARAMETER,
			  "expires cannot be combined with use_server_proxy");
	} else {
		api_error(r, E_UNSUPPORTED_API, "signed endpoints are not offered here");
	}
	return false;
}

static void write_endpoint(struct http_req *r, const struct sandbox *sb, int64_t port)
{
	struct buf out = BUF_INIT(KIB(4));
	struct jw w = JW_INIT(&out);
	bool execd = port == GATEWAY_EXECD_PORT;
	const char *endpoint;

	endpoint = arena_printf(&r->arena, "%.*s/sandboxes/%s/proxy/%lld", SPAN_FMT(base_of(r)),
				sb->rec.id, (long long)port);
	if (endpoint == NULL) {
		api_error(r, E_INTERNAL, "out of memory");
		return;
	}
	jw_object(&w);
	jw_field_cstr(&w, "endpoint", endpoint);
	if (execd || sb->rec.secure_token != NULL) {
		jw_key(&w, "headers");
		jw_object(&w);
		if (execd)
			jw_field_cstr(&w, GATEWAY_EXECD_HEADER, sb->rec.token);
		if (sb->rec.secure_token != NULL)
			jw_field_cstr(&w, GATEWAY_SECURE_HEADER, sb->rec.secure_token);
		jw_end(&w);
	}
	jw_end(&w);
	api_json(r, 200, &out);
}

void route_endpoint(struct http_req *r)
{
	struct sandbox *sb;
	struct refusal rf;
	int64_t port;

	if (!read_query(r))
		return;
	if (!request_number(http_param(r, "port"), INT64_MIN, INT64_MAX, &port)) {
		(void)refuse_at(&rf, "path.port", "must be a whole number");
		api_refusal(r, &rf);
		return;
	}
	if (port < 1 || port > 65535) {
		api_error(r, E_INVALID_PORT, "the port must be from 1 to 65535");
		return;
	}
	sb = api_sandbox(r, false);
	if (sb != NULL)
		write_endpoint(r, sb, port);
}
