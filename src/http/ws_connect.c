/* How a client opens a WebSocket (RFC 6455 section 4.1): asks for it, and believes no answer that
 * it has not checked. */
#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "http/websocket.h"

/* A client's handshake under way. */
struct connecting {
	struct websocket_connect_options opt;
	struct io_loop *loop;
	char *protocols;
	char accept[WS_ACCEPT_SIZE];
	bool settled; /* opened or failed */
};

static void connect_free(struct connecting *cn)
{
	free(cn->protocols);
	free(cn);
}

static void connect_failed(struct connecting *cn, int status, const char *why)
{
	if (cn->settled)
		return;
	cn->settled = true;
	cn->opt.failed(cn->opt.ws.user, status, why);
}

static void connect_on_head(struct http_call *c, const struct h1_head *head)
{
	struct connecting *cn = http_call_user(c);
	int status = head->status;

	http_call_cancel(c);
	connect_failed(cn, status, h1_status_text(status));
	connect_free(cn);
}

static bool is_offered(const char *protocols, struct span choice)
{
	struct span rest = span_str(protocols);

	while (rest.p != NULL)
		if (span_eq(span_trim(span_cut(&rest, ',')), choice))
			return true;
	return false;
}

/* Is the 101 an answer to our question, and to nothing we did not ask? NULL or what is wrong. */
static const char *check_answer(const struct connecting *cn, const struct h1_head *head)
{
	const struct h1_field *accept = h1_find(head, "sec-websocket-accept");
	const struct h1_field *protocol = h1_find(head, "sec-websocket-protocol");

	if (!span_caseis(head->upgrade_to, "websocket"))
		return "the upstream chose another protocol than WebSocket";
	if (accept == NULL || !span_is(accept->value, cn->accept))
		return "the upstream's handshake does not answer ours";
	if (h1_find(head, "sec-websocket-extensions") != NULL)
		return "the upstream chose an extension that was not offered";
	if (protocol != NULL && (h1_next(head, protocol) != NULL || protocol->value.len == 0 ||
				 !is_offered(cn->protocols, protocol->value)))
		return "the upstream chose a subprotocol that was not offered";
	return NULL;
}

static void connect_on_upgrade(struct http_call *c, const struct h1_head *head, struct wire *w)
{
	struct connecting *cn = http_call_user(c);
	const struct h1_field *field = h1_find(head, "sec-websocket-protocol");
	const char *wrong = check_answer(cn, head);
	autofree char *protocol = NULL;
	struct websocket *ws;

	if (wrong != NULL) {
		connect_failed(cn, 0, wrong);
		return; /* the wire is closed behind us */
	}
	if (field != NULL)
		protocol = span_dup(field->value);
	ws = field == NULL || protocol != NULL ? websocket_on_wire(cn->loop, &cn->opt.ws, w) : NULL;
	if (ws == NULL) {
		connect_failed(cn, 0, "out of memory");
		return;
	}
	cn->settled = true;
	cn->opt.opened(ws, protocol);
}

static void connect_done(struct http_call *c, int error, const char *why)
{
	struct connecting *cn = http_call_user(c);

	(void)error;
	connect_failed(cn, 0, why); /* unless it is settled */
	connect_free(cn);
}

int websocket_connect(struct http_upstream *u, const struct websocket_connect_options *opt,
		      struct err *e)
{
	struct connecting *cn = calloc(1, sizeof(*cn));
	struct h1_field *fields = calloc(opt->n_fields + 4, sizeof(*fields));
	unsigned char nonce[16];
	char key[WS_KEY_SIZE];
	struct http_call *call;
	unsigned n = opt->n_fields;
	int r;

	if (cn == NULL || fields == NULL) {
		free(fields);
		free(cn);
		return err_code(e, ENOMEM, "WebSocket");
	}
	rand_bytes(nonce, sizeof(nonce));
	ws_make_key(nonce, key);
	(void)ws_accept_key(span_str(key), cn->accept);
	cn->opt = *opt;
	cn->loop = http_upstream_loop(u);
	cn->protocols = opt->protocols != NULL ? strdup(opt->protocols) : NULL;
	for (unsigned i = 0; i < n; i++)
		fields[i] = opt->fields[i];
	fields[n++] = (struct h1_field){ SPAN_LIT("Upgrade"), SPAN_LIT("websocket") };
	fields[n++] = (struct h1_field){ SPAN_LIT("Sec-WebSocket-Version"), SPAN_LIT("13") };
	fields[n++] = (struct h1_field){ SPAN_LIT("Sec-WebSocket-Key"), span_str(key) };
	if (cn->protocols != NULL)
		fields[n++] = (struct h1_field){ SPAN_LIT("Sec-WebSocket-Protocol"),
						 span_str(cn->protocols) };
	r = http_call_start(u,
			    &(struct http_call_options){
				    .method = "GET",
				    .target = opt->target,
				    .fields = fields,
				    .n_fields = n,
				    .upgrade = true,
				    .user = cn,
				    .on_head = connect_on_head,
				    .on_upgrade = connect_on_upgrade,
				    .done = connect_done,
			    },
			    &call, e);
	free(fields);
	if (r < 0)
		connect_free(cn);
	return r;
}
