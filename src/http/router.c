#include "http/router.h"

#include <string.h>

#include "codec/url.h"

static struct span next_segment(struct span *rest)
{
	/* *rest begins with the slash before the segment */
	*rest = span_skip(*rest, 1);
	ptrdiff_t at = span_find(*rest, '/');
	struct span seg = at < 0 ? *rest : span_first(*rest, (size_t)at);

	*rest = span_skip(*rest, seg.len);
	return seg;
}

static bool decode_segment(struct http_req *r, struct span raw, struct span *ret)
{
	ptrdiff_t len;
	char *out;

	if (span_find(raw, '%') < 0) {
		*ret = raw;
		return true;
	}
	out = arena_alloc(&r->arena, raw.len);
	len = out != NULL ? url_decode(raw, URL_PATH, out, raw.len) : -ENOMEM;
	if (len < 0)
		return false;
	*ret = span_of(out, (size_t)len);
	return true;
}

/* Does the path fit the pattern? Fills r->params. *bad: the path itself is broken. */
static bool fits(const char *pattern, struct span path, struct http_req *r, bool *bad)
{
	struct span want = span_str(pattern);

	r->n_params = 0;
	while (want.len > 0) {
		struct span seg_want, seg, decoded;

		seg_want = next_segment(&want);
		if (span_starts(seg_want, "{") && span_ends(seg_want, "...}")) {
			/* the rest, raw, without its leading slash */
			struct span tail = path.len > 0 ? span_skip(path, 1) : path;

			r->params[r->n_params++] = (struct http_param){
				.name = seg_want.p + 1,
				.name_len = seg_want.len - 5,
				.value = tail.p != NULL ? tail : SPAN_LIT(""),
			};
			return true;
		}
		if (path.len == 0)
			return false;
		seg = next_segment(&path);
		if (!decode_segment(r, seg, &decoded)) {
			*bad = true;
			return false;
		}
		if (span_starts(seg_want, "{")) {
			if (decoded.len == 0 || r->n_params == ARRAY_LEN(r->params))
				return false;
			r->params[r->n_params++] = (struct http_param){
				.name = seg_want.p + 1,
				.name_len = seg_want.len - 2,
				.value = decoded,
			};
		} else if (!span_eq(seg_want, decoded)) {
			return false;
		}
	}
	return path.len == 0;
}

static bool method_fits(const struct http_router *router, int want, enum h1_method m)
{
	return want == HTTP_ANY || want == (int)m ||
	       (router->head_as_get && m == H1_HEAD && want == H1_GET);
}

static bool strip_prefix(struct span *path, const char *prefix)
{
	size_t n = prefix != NULL ? strlen(prefix) : 0;

	if (n == 0 || !span_starts(*path, prefix) || path->len == n || path->p[n] != '/')
		return false;
	*path = span_skip(*path, n);
	return true;
}

/* "GET, POST" of the rows that fit the path. */
static const char *add_allow(struct http_req *r, const char *so_far, int method)
{
	const char *name = h1_method_name((enum h1_method)method);

	if (so_far == NULL)
		return name;
	return strstr(so_far, name) != NULL ? so_far
					    : arena_printf(&r->arena, "%s, %s", so_far, name);
}

enum http_match http_router_match(const struct http_router *router, struct http_req *r,
				  const char **ret_allow)
{
	struct span path = r->head->path;
	const char *allow = NULL;
	bool bad = false;

	if (path.len == 0 || path.p[0] != '/') /* OPTIONS * */
		return HTTP_NO_PATH;
	(void)strip_prefix(&path, router->prefix);
	for (unsigned i = 0; i < router->n_routes; i++) {
		const struct http_route *route = &router->routes[i];

		if (!fits(route->path, path, r, &bad)) {
			if (bad)
				return HTTP_BAD_PATH;
			continue;
		}
		if (method_fits(router, route->method, r->head->method)) {
			r->route = route;
			return HTTP_MATCHED;
		}
		allow = add_allow(r, allow, route->method);
	}
	r->n_params = 0;
	if (allow == NULL)
		return HTTP_NO_PATH;
	if (ret_allow != NULL)
		*ret_allow = allow;
	return HTTP_NO_METHOD;
}

void http_router_handle(const struct http_router *router, struct http_req *r)
{
	const char *allow = NULL;

	switch (http_router_match(router, r, &allow)) {
	case HTTP_MATCHED:
		r->route->handler(r);
		break;
	case HTTP_NO_PATH:
		http_refuse(r, 404, "no such path");
		break;
	case HTTP_NO_METHOD:
		http_header(r, "Allow", allow);
		http_refuse(r, 405, "method not allowed");
		break;
	case HTTP_BAD_PATH:
		http_refuse(r, 400, "the path has a broken percent-escape");
		break;
	}
}
