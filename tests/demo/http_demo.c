/* A small server that shows everything src/http can do: black-box tests, interoperability tests and
 * benchmarks run against it. It is also the proof that the layer links statically and runs in an
 * empty chroot: built as http-demo-static from the subset that execd uses (no TLS, no proxy target
 * by name).
 *
 * Routes: GET / (hello), GET /bytes/{n}, GET /file/{path...} (below --root, with ranges), PUT|POST
 * /upload (counts bytes, answers their number and a checksum), POST /echo (streams the body back),
 * POST /json, POST /multipart, GET /events?n=&bytes= (event stream), GET /slow (answers when told
 * by /release), GET /ws-echo (WebSocket), ANY /proxy/{path...} (reverse proxy to --upstream). */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "codec/multipart.h"
#include "codec/range.h"
#include "http/router.h"
#ifdef DEMO_FULL
#include "http/proxy.h"
#include "http/websocket.h"
#include "io/tls.h"
#endif

static struct {
	struct io_loop loop;
	struct http_server server;
	struct io_signal term, intr;
	const char *root;
	struct list waiting; /* requests of /slow */
#ifdef DEMO_FULL
	struct http_upstream *upstream;
#endif
} demo;

static void hello(struct http_req *r)
{
	http_reply(r, 200, "text/plain", SPAN_LIT("hello\n"));
}

/* --- answers of a given size, produced as fast as the client takes them --- */

struct producer {
	uint64_t left;
	size_t piece;
	bool events;
	unsigned long n;
};

static void produce(struct http_req *r)
{
	static char zeros[KIB(64)];
	struct producer *p = r->user;

	while (p->left > 0) {
		int w;

		if (p->events) {
			char line[64];
			int n = snprintf(line, sizeof(line), "{\"n\":%lu}\n\n", p->n++);

			p->left--;
			w = http_write(r, line, (size_t)n);
		} else {
			size_t n = (size_t)MIN(p->left, (uint64_t)p->piece);

			p->left -= n;
			w = http_write(r, zeros, n);
		}
		if (w == WIRE_FULL)
			return; /* on_drain comes back here */
		if (w < 0)
			return;
	}
	http_end(r);
}

static struct producer *producer_new(struct http_req *r)
{
	struct producer *p = arena_zalloc(&r->arena, sizeof(*p));

	if (p == NULL) {
		http_refuse(r, 500, "out of memory");
		return NULL;
	}
	p->piece = KIB(64);
	r->user = p;
	r->on_drain = produce;
	return p;
}

static void bytes(struct http_req *r)
{
	struct producer *p;
	uint64_t n;

	if (!span_u64(http_param(r, "n"), &n)) {
		http_refuse(r, 400, "not a number");
		return;
	}
	p = producer_new(r);
	if (p == NULL)
		return;
	p->left = n;
	http_start(r, 200,
		   http_query(r, "chunked", 0).p != NULL ? HTTP_LENGTH_UNKNOWN : (int64_t)n);
	produce(r);
}

static void events(struct http_req *r)
{
	struct producer *p = producer_new(r);
	uint64_t n = 3;

	if (p == NULL)
		return;
	(void)span_u64(http_query(r, "n", 0), &n);
	p->left = n;
	p->events = true;
	http_header(r, "Content-Type", "text/event-stream");
	http_header(r, "Cache-Control", "no-cache");
	http_start(r, 200, HTTP_LENGTH_UNKNOWN);
	produce(r);
}

/* --- files --- */

static void file(struct http_req *r)
{
	struct span path = http_param(r, "path");
	struct range part;
	struct stat st;
	char name[512], text[RANGE_TEXT_SIZE];
	int fd;

	if (demo.root == NULL || !span_copy(path, name, sizeof(name)) || name[0] == '/' ||
	    strstr(name, "..") != NULL) {
		http_refuse(r, 404, "no such file");
		return;
	}
	int dir = open(demo.root, O_PATH | O_DIRECTORY | O_CLOEXEC);

	fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	(void)close(dir);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			(void)close(fd);
		http_refuse(r, 404, "no such file");
		return;
	}
	http_header(r, "Content-Type", "application/octet-stream");
	http_header(r, "Accept-Ranges", "bytes");
	switch (http_field(r, "range").p == NULL
			? RANGE_WHOLE
			: range_parse(http_field(r, "range"), (uint64_t)st.st_size, &part)) {
	case RANGE_WHOLE:
		http_start(r, 200, (int64_t)st.st_size);
		http_send_file(r, fd, 0);
		break;
	case RANGE_PART:
		(void)range_content_range(text, &part, (uint64_t)st.st_size);
		http_header(r, "Content-Range", text);
		http_start(r, 206, (int64_t)range_len(part));
		http_send_file(r, fd, (off_t)part.first);
		break;
	case RANGE_UNSATISFIABLE:
	case RANGE_MALFORMED:
		(void)close(fd);
		(void)range_content_range(text, NULL, (uint64_t)st.st_size);
		http_header(r, "Content-Range", text);
		http_refuse(r, 416, "range not satisfiable");
		break;
	}
}

/* --- bodies --- */

struct count {
	uint64_t bytes;
	uint64_t sum; /* FNV-1a, so that a lost or swapped byte shows */
};

static void count_data(struct http_req *r, struct span data)
{
	struct count *c = r->user;

	c->bytes += data.len;
	for (size_t i = 0; i < data.len; i++)
		c->sum = (c->sum ^ (unsigned char)data.p[i]) * 0x100000001b3u;
}

static void count_end(struct http_req *r)
{
	struct count *c = r->user;
	char *text = arena_printf(&r->arena, "{\"bytes\":%llu,\"fnv\":\"%016llx\"}",
				  (unsigned long long)c->bytes, (unsigned long long)c->sum);

	http_reply(r, 200, "application/json", span_str(text));
}

static void upload(struct http_req *r)
{
	struct count *c = arena_zalloc(&r->arena, sizeof(*c));

	if (c == NULL) {
		http_refuse(r, 500, "out of memory");
		return;
	}
	c->sum = 0xcbf29ce484222325u;
	r->user = c;
	r->on_data = count_data;
	r->on_end = count_end;
	http_stream_body(r);
}

static void echo_data(struct http_req *r, struct span data)
{
	if (http_write(r, data.p, data.len) == WIRE_FULL)
		http_pause_body(r);
}

static void echo(struct http_req *r)
{
	r->on_data = echo_data;
	r->on_drain = http_resume_body;
	r->on_end = http_end;
	http_stream_body(r); /* before the answer starts: a waiting client is told to go on */
	http_start(r, 200, HTTP_LENGTH_UNKNOWN);
}

static void echo_small_body(struct http_req *r, struct span body)
{
	http_reply(r, 200, "application/octet-stream", body);
}

static void echo_small(struct http_req *r)
{
	http_read_body(r, KIB(64), echo_small_body);
}

/* An answer that is made in memory, with one call. */
static void whole(struct http_req *r)
{
	struct buf out = BUF_INIT(MIB(16));
	uint64_t n;

	if (!span_u64(http_param(r, "n"), &n) || n > out.max || buf_reserve(&out, n) < 0) {
		http_refuse(r, 400, "not such a number");
		return;
	}
	for (; out.len < n; out.len++)
		out.data[out.len] = (char)('a' + out.len % 26);
	http_reply(r, 200, "text/plain", buf_span(&out));
	buf_free(&out);
}

static void query(struct http_req *r)
{
	struct buf out = BUF_INIT(KIB(16));
	struct span v;

	for (unsigned i = 0; (v = http_query(r, "k", i)).p != NULL; i++) {
		(void)buf_add_span(&out, v);
		(void)buf_add_char(&out, '\n');
	}
	http_reply(r, 200, "text/plain", buf_span(&out));
	buf_free(&out);
}

static void param(struct http_req *r)
{
	http_reply(r, 200, "text/plain", http_param(r, "value"));
}

/* --- multipart, part by part --- */

struct parts {
	struct multipart parser;
	struct buf out;
	uint64_t bytes;
};

static void parts_data(struct http_req *r, struct span data)
{
	struct parts *p = r->user;
	struct span piece;
	int ev;

	while ((ev = multipart_next(&p->parser, &data, &piece, NULL)) > MULTIPART_MORE) {
		if (ev == MULTIPART_PART) {
			p->bytes = 0;
			(void)buf_printf(&p->out, "%.*s", SPAN_FMT(p->parser.part.name));
		} else if (ev == MULTIPART_DATA) {
			p->bytes += piece.len;
		} else if (ev == MULTIPART_PART_END) {
			(void)buf_printf(&p->out, " %llu\n", (unsigned long long)p->bytes);
		}
	}
	if (ev < 0) {
		r->keep_alive = false;
		http_refuse(r, 400, "broken multipart body");
	}
}

static void parts_end(struct http_req *r)
{
	struct parts *p = r->user;

	if (multipart_finish(&p->parser, NULL) == 0)
		http_reply(r, 200, "text/plain", buf_span(&p->out));
	else
		http_refuse(r, 400, "the multipart body ends early");
}

static void parts_over(struct http_req *r)
{
	buf_free(&((struct parts *)r->user)->out);
}

static void parts(struct http_req *r)
{
	struct parts *p = arena_zalloc(&r->arena, sizeof(*p));

	if (p == NULL || multipart_init(&p->parser, http_field(r, "content-type"),
					&multipart_default_limits, NULL) < 0) {
		http_refuse(r, 400, "not a multipart body");
		return;
	}
	p->out = BUF_INIT(KIB(64));
	r->user = p;
	r->on_data = parts_data;
	r->on_end = parts_end;
	r->done = parts_over;
	http_stream_body(r);
}

/* --- an answer that takes its time --- */

struct waiting {
	struct list link;
	struct http_req *req;
};

static void slow_over(struct http_req *r)
{
	list_remove(&((struct waiting *)r->user)->link);
}

static void slow(struct http_req *r)
{
	struct waiting *w = arena_alloc(&r->arena, sizeof(*w));

	if (w == NULL)
		return http_refuse(r, 500, "out of memory");
	w->req = r;
	list_push_back(&demo.waiting, &w->link);
	r->user = w;
	r->done = slow_over;
}

static void release(struct http_req *r)
{
	char text[32];
	int n = 0;

	list_for_each_safe (it, &demo.waiting) {
		http_reply(LIST_ENTRY(it, struct waiting, link)->req, 200, "text/plain",
			   SPAN_LIT("released\n"));
		n++;
	}
	n = snprintf(text, sizeof(text), "%d\n", n);
	http_reply(r, 200, "text/plain", span_of(text, (size_t)n));
}

#ifdef DEMO_FULL
static void ws_message(struct websocket *ws, enum ws_opcode opcode, struct span data)
{
	if (websocket_send(ws, opcode, data.p, data.len) == WIRE_FULL)
		websocket_pause(ws);
}

static void ws_closed(struct websocket *ws, unsigned code, struct span reason)
{
	(void)ws;
	(void)code;
	(void)reason;
}

static void ws_echo(struct http_req *r)
{
	static const struct websocket_options opt = {
		.max_message = MIB(4),
		.message = ws_message,
		.drain = websocket_resume,
		.closed = ws_closed,
	};
	struct websocket *ws;
	bool none = false;

	if (!websocket_check(r, &none)) {
		if (none)
			http_refuse(r, 426, "a WebSocket is served here");
		return;
	}
	(void)websocket_accept(r, NULL, &opt, &ws, NULL);
}

static void proxy(struct http_req *r)
{
	static const char *const strip[] = { "x-secret", NULL };
	const struct h1_head *h = r->head;
	struct http_proxy_options opt = { .forwarded = true, .strip = strip };

	if (demo.upstream == NULL)
		return http_refuse(r, 503, "no --upstream");
	opt.target = span_skip(h->target, strlen("/proxy"));
	http_proxy(r, demo.upstream, &opt);
}
#endif

static const struct http_route routes[] = {
	{ H1_GET, "/", hello },
	{ H1_GET, "/bytes/{n}", bytes },
	{ H1_GET, "/whole/{n}", whole },
	{ H1_GET, "/events", events },
	{ H1_GET, "/file/{path...}", file },
	{ H1_POST, "/upload", upload },
	{ H1_PUT, "/upload", upload },
	{ H1_POST, "/echo", echo },
	{ H1_POST, "/echo-small", echo_small },
	{ H1_POST, "/multipart", parts },
	{ H1_GET, "/query", query },
	{ H1_GET, "/param/{value}", param },
	{ H1_GET, "/slow", slow },
	{ H1_POST, "/release", release },
#ifdef DEMO_FULL
	{ H1_GET, "/ws-echo", ws_echo },
	{ HTTP_ANY, "/proxy/{path...}", proxy },
#endif
};

static const struct http_router router = {
	.routes = routes,
	.n_routes = ARRAY_LEN(routes),
	.head_as_get = true,
};

static void handle(struct http_req *r)
{
	http_router_handle(&router, r);
}

static void closed(struct http_server *s)
{
	(void)s;
	io_loop_stop(&demo.loop);
}

static void drained(struct http_server *s)
{
	http_server_close(s, closed);
}

static void on_signal(struct io_signal *sig, int signum)
{
	(void)sig;
	if (demo.server.draining || signum == SIGINT)
		http_server_close(&demo.server, closed);
	else
		http_server_drain(&demo.server, drained);
}

static const struct {
	const char *name;
	size_t offset;
} numbers[] = {
	{ "head-timeout-ms", offsetof(struct http_limits, head_timeout_ms) },
	{ "body-timeout-ms", offsetof(struct http_limits, body_timeout_ms) },
	{ "idle-timeout-ms", offsetof(struct http_limits, idle_timeout_ms) },
	{ "write-timeout-ms", offsetof(struct http_limits, write_timeout_ms) },
	{ "linger-timeout-ms", offsetof(struct http_limits, linger_ms) },
};

static int usage(void)
{
	(void)fprintf(stderr,
		      "usage: http-demo [--listen ADDRESS | --port N] [--root DIR] "
		      "[--upstream ADDRESS] [--cert FILE --key FILE]\n"
		      "  [--max-connections N] [--{head,body,idle,write,linger}-timeout-ms N]\n");
	return 2;
}

#ifdef DEMO_FULL
static int accept_tls(void *context, struct stream *s, struct err *e)
{
	return tls_stream_accept(context, s, e);
}
#endif

int main(int argc, char **argv)
{
	struct http_options opt = { .limits = http_default_limits, .handler = handle };
	const char *listen_on = "127.0.0.1:8080", *cert = NULL, *key = NULL, *upstream = NULL;
	char address[128], text[64];
	struct err e = ERR_INIT;
	int fd, i;

	for (i = 1; i + 1 < argc; i += 2) {
		const char *value = argv[i + 1];
		uint64_t number = 0;
		bool known = false;

		(void)span_u64(span_str(value), &number);
		for (size_t n = 0; n < ARRAY_LEN(numbers) && !known; n++) {
			if (strncmp(argv[i], "--", 2) == 0 &&
			    strcmp(argv[i] + 2, numbers[n].name) == 0) {
				memcpy((char *)&opt.limits + numbers[n].offset, &number,
				       sizeof(number));
				known = true;
			}
		}
		if (known)
			continue;
		if (strcmp(argv[i], "--port") == 0) {
			(void)snprintf(text, sizeof(text), "127.0.0.1:%s", value);
			listen_on = text;
		} else if (strcmp(argv[i], "--listen") == 0) {
			listen_on = value;
		} else if (strcmp(argv[i], "--root") == 0) {
			demo.root = value;
		} else if (strcmp(argv[i], "--upstream") == 0) {
			upstream = value;
		} else if (strcmp(argv[i], "--cert") == 0) {
			cert = value;
		} else if (strcmp(argv[i], "--key") == 0) {
			key = value;
		} else if (strcmp(argv[i], "--max-connections") == 0) {
			opt.limits.max_connections = (unsigned)number;
		} else {
			return usage();
		}
	}
	if (i != argc)
		return usage();
	(void)signal(SIGPIPE, SIG_IGN);
	list_init(&demo.waiting);
	if (io_loop_init(&demo.loop, &e) < 0)
		goto fail;
#ifdef DEMO_FULL
	if (cert != NULL && key != NULL) {
		struct tls_context *tls;

		if (tls_context_new(cert, key, &tls, &e) < 0)
			goto fail;
		opt.secure = accept_tls;
		opt.secure_ctx = tls;
	}
	if (upstream != NULL) {
		struct http_upstream_options up = http_upstream_defaults;

		up.address = upstream;
		if (http_upstream_new(&demo.loop, &up, &demo.upstream, &e) < 0)
			goto fail;
	}
#else
	if (cert != NULL || key != NULL || upstream != NULL)
		return usage();
#endif
	if (http_server_init(&demo.loop, &demo.server, &opt, &e) < 0 ||
	    listener_bind(listen_on, 4096, &fd, &e) < 0)
		goto fail;
	(void)listener_address(fd, address, sizeof(address));
	if (http_server_listen(&demo.server, fd, &e) < 0 ||
	    io_signal_start(&demo.loop, &demo.term, SIGTERM, on_signal, &e) < 0 ||
	    io_signal_start(&demo.loop, &demo.intr, SIGINT, on_signal, &e) < 0)
		goto fail;
	(void)printf("listening on %s%s\n",
		     strncmp(address, "unix:", 5) == 0 ? ""
		     : opt.secure != NULL              ? "https://"
						       : "http://",
		     address);
	(void)fflush(stdout);
	io_loop_run(&demo.loop);
	io_signal_close(&demo.term);
	io_signal_close(&demo.intr);
#ifdef DEMO_FULL
	if (demo.upstream != NULL)
		http_upstream_free(demo.upstream);
	if (opt.secure_ctx != NULL)
		tls_context_free(opt.secure_ctx);
#endif
	io_loop_free(&demo.loop);
	return 0;
fail:
	log_error("http-demo", { "error", e.msg });
	return 1;
}
