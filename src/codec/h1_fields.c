/* Looking things up: fields of a parsed head, and the words for reasons, methods and statuses. */
#include "codec/h1.h"

#include <string.h>

#include "base/util.h"
#include "codec/chars.h"

static struct span shifted(struct span s, const char *from, const char *to)
{
	return s.p != NULL ? span_of(to + (s.p - from), s.len) : s;
}

void h1_head_move(struct h1_head *head, const char *from, const char *to)
{
	struct span *const single[] = {
		&head->method_name, &head->target, &head->path,       &head->query,
		&head->host,        &head->reason, &head->upgrade_to,
	};

	for (size_t i = 0; i < ARRAY_LEN(single); i++)
		*single[i] = shifted(*single[i], from, to);
	for (unsigned i = 0; i < head->n_fields; i++) {
		head->fields[i].name = shifted(head->fields[i].name, from, to);
		head->fields[i].value = shifted(head->fields[i].value, from, to);
	}
}

static const struct h1_field *find_from(const struct h1_head *head, unsigned i, struct span name)
{
	for (; i < head->n_fields; i++)
		if (span_caseeq(head->fields[i].name, name))
			return &head->fields[i];
	return NULL;
}

const struct h1_field *h1_find(const struct h1_head *head, const char *name)
{
	return find_from(head, 0, span_str(name));
}

const struct h1_field *h1_next(const struct h1_head *head, const struct h1_field *after)
{
	return find_from(head, (unsigned)(after - head->fields) + 1, after->name);
}

static bool has_token(const struct h1_head *head, const char *name, struct span token)
{
	for (const struct h1_field *f = h1_find(head, name); f != NULL; f = h1_next(head, f)) {
		struct span rest = f->value;

		while (rest.p != NULL)
			if (span_caseeq(span_trim(span_cut(&rest, ',')), token))
				return true;
	}
	return false;
}

bool h1_has_token(const struct h1_head *head, const char *name, const char *token)
{
	return token[0] != '\0' && has_token(head, name, span_str(token));
}

bool h1_is_hop_by_hop(const struct h1_head *head, struct span name)
{
	static const char hop[][20] = { "connection",
					"keep-alive",
					"proxy-connection",
					"te",
					"trailer",
					"transfer-encoding",
					"upgrade",
					"http2-settings",
					"proxy-status",
					"proxy-authenticate",
					"proxy-authorization" };

	for (size_t i = 0; i < ARRAY_LEN(hop); i++)
		if (span_caseis(name, hop[i]))
			return true;
	return name.len > 0 && has_token(head, "connection", name);
}

bool h1_is_token(struct span s)
{
	return s.len > 0 && chars_all(s, CHARS_TOKEN);
}

bool h1_is_field_value(struct span s)
{
	return chars_find_ctl(s.p, s.len) == s.len;
}

static const struct {
	const char *text;
	int status;
} reasons[H1_REASON_COUNT] = {
	[H1_OK] = { "no error", 200 },
	[H1_BAD_LINE_END] = { "a line does not end in CR LF", 400 },
	[H1_BAD_BYTE] = { "control byte in the head", 400 },
	[H1_BAD_METHOD] = { "bad method", 400 },
	[H1_BAD_TARGET] = { "bad request target", 400 },
	[H1_BAD_VERSION] = { "HTTP version not supported", 505 },
	[H1_BAD_STATUS_LINE] = { "bad status line", 400 },
	[H1_BAD_FIELD_NAME] = { "bad header field name", 400 },
	[H1_BAD_FIELD_VALUE] = { "bad header field value", 400 },
	[H1_BAD_HOST] = { "missing, repeated or bad Host", 400 },
	[H1_BAD_LENGTH] = { "repeated or bad Content-Length", 400 },
	[H1_LENGTH_AND_CHUNKED] = { "both Content-Length and Transfer-Encoding", 400 },
	[H1_BAD_TRANSFER_CODING] = { "transfer coding not supported", 501 },
	[H1_BAD_EXPECT] = { "expectation not supported", 417 },
	[H1_BAD_UPGRADE] = { "upgrade of a request with a body", 400 },
	[H1_BAD_CHUNK] = { "bad chunk in the body", 400 },
	[H1_TARGET_TOO_LONG] = { "request target too long", 414 },
	[H1_HEAD_TOO_LARGE] = { "header section too large", 431 },
	[H1_TOO_MANY_FIELDS] = { "too many header fields", 431 },
};

const char *h1_reason_text(enum h1_reason r)
{
	return (unsigned)r < H1_REASON_COUNT ? reasons[r].text : "unknown";
}

int h1_reason_status(enum h1_reason r)
{
	return (unsigned)r < H1_REASON_COUNT ? reasons[r].status : 400;
}

const char *h1_method_name(enum h1_method m)
{
	static const char names[][8] = {
		[H1_GET] = "GET",         [H1_HEAD] = "HEAD",     [H1_POST] = "POST",
		[H1_PUT] = "PUT",         [H1_DELETE] = "DELETE", [H1_PATCH] = "PATCH",
		[H1_OPTIONS] = "OPTIONS", [H1_OTHER_METHOD] = "",
	};

	return (unsigned)m < ARRAY_LEN(names) ? names[m] : "";
}

static const struct {
	int status;
	const char *text;
} statuses[] = {
	/* in order: looked up by halving */
	{ 100, "Continue" },
	{ 101, "Switching Protocols" },
	{ 103, "Early Hints" },
	{ 200, "OK" },
	{ 201, "Created" },
	{ 202, "Accepted" },
	{ 203, "Non-Authoritative Information" },
	{ 204, "No Content" },
	{ 205, "Reset Content" },
	{ 206, "Partial Content" },
	{ 207, "Multi-Status" },
	{ 300, "Multiple Choices" },
	{ 301, "Moved Permanently" },
	{ 302, "Found" },
	{ 303, "See Other" },
	{ 304, "Not Modified" },
	{ 307, "Temporary Redirect" },
	{ 308, "Permanent Redirect" },
	{ 400, "Bad Request" },
	{ 401, "Unauthorized" },
	{ 402, "Payment Required" },
	{ 403, "Forbidden" },
	{ 404, "Not Found" },
	{ 405, "Method Not Allowed" },
	{ 406, "Not Acceptable" },
	{ 407, "Proxy Authentication Required" },
	{ 408, "Request Timeout" },
	{ 409, "Conflict" },
	{ 410, "Gone" },
	{ 411, "Length Required" },
	{ 412, "Precondition Failed" },
	{ 413, "Content Too Large" },
	{ 414, "URI Too Long" },
	{ 415, "Unsupported Media Type" },
	{ 416, "Range Not Satisfiable" },
	{ 417, "Expectation Failed" },
	{ 421, "Misdirected Request" },
	{ 422, "Unprocessable Content" },
	{ 423, "Locked" },
	{ 425, "Too Early" },
	{ 426, "Upgrade Required" },
	{ 428, "Precondition Required" },
	{ 429, "Too Many Requests" },
	{ 431, "Request Header Fields Too Large" },
	{ 451, "Unavailable For Legal Reasons" },
	{ 500, "Internal Server Error" },
	{ 501, "Not Implemented" },
	{ 502, "Bad Gateway" },
	{ 503, "Service Unavailable" },
	{ 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
	{ 507, "Insufficient Storage" },
	{ 508, "Loop Detected" },
	{ 511, "Network Authentication Required" },
};

const char *h1_status_text(int status)
{
	size_t low = 0, high = ARRAY_LEN(statuses);

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (statuses[mid].status == status)
			return statuses[mid].text;
		if (statuses[mid].status < status)
			low = mid + 1;
		else
			high = mid;
	}
	return "Unknown";
}
