/* Calls, their connections and their dialers, in one loop with the other side. */
#include "http_fixture.h"

#include <stdio.h>

#define OK_EMPTY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

/* What a call told. */
struct seen {
	struct http_call *call;
	unsigned n_done, n_head, n_continue, n_drain;
	int error, status;
	char why[128];
	struct buf body;
	/* what to do in a callback */
	bool cancel_in_head, cancel_in_data, pause_in_data, free_in_head;
	uint64_t to_write; /* by on_drain */
};

static void on_continue(struct http_call *c)
{
	((struct seen *)http_call_user(c))->n_continue++;
}

static void on_head(struct http_call *c, const struct h1_head *head)
{
	struct seen *s = http_call_user(c);

	s->n_head++;
	s->status = head->status;
	if (s->cancel_in_head)
		http_call_cancel(c);
	if (s->free_in_head)
		http_upstream_free(TAKE(fx.upstream));
}

static void on_data(struct http_call *c, struct span data)
{
	struct seen *s = http_call_user(c);

	assert_true(data.len > 0);
	assert_int_equal(buf_add_span(&s->body, data), 0);
	if (s->cancel_in_data)
		http_call_cancel(c);
	if (s->pause_in_data)
		http_call_pause(c);
}

/* Writes as long as it may, then ends the body. */
static void on_drain(struct http_call *c)
{
	static const char piece[KIB(16)];
	struct seen *s = http_call_user(c);

	s->n_drain++;
	while (s->to_write > 0) {
		size_t n = (size_t)MIN(s->to_write, sizeof(piece));
		int r = http_call_write(c, piece, n);

		assert_true(r >= 0);
		s->to_write -= n;
		if (r == WIRE_FULL)
			return;
	}
	http_call_end_body(c);
}

static void on_done(struct http_call *c, int error, const char *why)
{
	struct seen *s = http_call_user(c);

	s->n_done++;
	s->error = error;
	(void)snprintf(s->why, sizeof(s->why), "%s", why);
	s->call = NULL;
	http_call_cancel(c); /* allowed, and does nothing */
}

static struct http_call_options options(struct seen *s, const char *method, const char *target)
{
	*s = (struct seen){ .body = BUF_INIT(MIB(64)) };
	return (struct http_call_options){
		.method = method,
		.target = span_str(target),
		.user = s,
		.on_continue = on_continue,
		.on_head = on_head,
		.on_data = on_data,
		.on_drain = on_drain,
		.done = on_done,
	};
}

static void start_with(struct seen *s, const struct http_call_options *opt)
{
	struct err e = ERR_INIT;

	assert_int_equal(http_call_start(fx.upstream, opt, &s->call, &e), 0);
}

static void start(struct seen *s, const char *method, const char *target)
{
	struct http_call_options opt = options(s, method, target);

	start_with(s, &opt);
	assert_int_equal(s->n_done, 0); /* never before the start has returned */
}

static void expect(struct seen *s, int error, int status, const char *body)
{
	WAIT_FOR(s->n_done > 0);
	assert_int_equal(s->n_done, 1);
	assert_int_equal(s->error, error);
	assert_int_equal(s->status, status);
	if (body != NULL)
		assert_true(span_is(buf_span(&s->body), body));
	buf_free(&s->body);
}

/* --- against the server --- */

static void echo_body(struct http_req *r, struct span body)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%.*s %zu", SPAN_FMT(r->head->method_name), body.len);

	http_header_span(r, SPAN_LIT("X-Target"), r->head->target);
	http_reply(r, 200, NULL, span_of(text, (size_t)n));
}

static void stream_data(struct http_req *r, struct span data)
{
	if (http_write(r, data.p, data.len) == WIRE_FULL)
		http_pause_body(r);
}

static void handle(struct http_req *r)
{
	if (span_is(r->head->path, "/stream")) {
		r->on_data = stream_data;
		r->on_end = http_end;
		r->on_drain = http_resume_body;
		http_stream_body(r);
		http_start(r, 200, HTTP_LENGTH_UNKNOWN);
		return;
	}
	http_read_body(r, MIB(2), echo_body);
}

static void test_with_server(void **state)
{
	struct seen one, two, three;
	struct http_call_options opt;

	(void)state;
	use_server(handle);
	use_default_upstream(DIAL_SERVER);
	start(&one, "GET", "/x?y=%zz");
	expect(&one, 0, 200, "GET 0");
	start(&one, "HEAD", "/");
	expect(&one, 0, 200, "");
	start(&one, "PURGE", "/");
	expect(&one, 0, 200, "PURGE 0");

	opt = options(&two, "POST", "/");
	opt.body = SPAN_LIT("hello");
	start_with(&two, &opt);
	expect(&two, 0, 200, "POST 5");

	opt = options(&two, "PUT", "/");
	opt.body_length = 1 << 20;
	start_with(&two, &opt);
	two.to_write = 1 << 20;
	on_drain(two.call);
	expect(&two, 0, 200, "PUT 1048576");
	assert_true(two.n_drain > 2); /* it was told to stop, and to go on */

	opt = options(&three, "POST", "/");
	opt.body_length = HTTP_LENGTH_UNKNOWN;
	start_with(&three, &opt);
	assert_int_equal(http_call_write(three.call, "abc", 3), 0);
	assert_int_equal(http_call_write(three.call, "", 0), 0);
	assert_int_equal(http_call_write(three.call, "defg", 4), 0);
	http_call_end_body(three.call);
	assert_int_equal(http_call_write(three.call, "x", 1), -EPIPE);
	expect(&three, 0, 200, "POST 7");
	assert_int_equal(fx.n_dials, 1); /* all of that on one connection */
}

static void test_streaming_both_ways(void **state)
{
	const uint64_t total = 20 << 20;
	struct seen s;
	struct http_call_options opt = options(&s, "POST", "/stream");

	(void)state;
	use_server(handle);
	use_default_upstream(DIAL_SERVER);
	opt.body_length = HTTP_LENGTH_UNKNOWN;
	start_with(&s, &opt);
	s.to_write = total;
	on_drain(s.call);
	WAIT_FOR(s.body.len > 0);
	/* we stop reading: the server stops reading us, and so we stop writing */
	http_call_pause(s.call);
	for (uint64_t last = 0; last != s.to_write;) {
		last = s.to_write;
		for (int i = 0; i < 50; i++)
			(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
	}
	assert_true(s.to_write > total / 2);
	http_call_resume(s.call);
	WAIT_FOR(s.n_done > 0);
	assert_int_equal(s.body.len, total);
	expect(&s, 0, 200, NULL);
}

/* --- the pool --- */

static void test_line(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct seen s[5];

	(void)state;
	opt.max_connections = 2;
	use_upstream(DIAL_PEER, &opt);
	for (unsigned i = 0; i < 5; i++)
		start(&s[i], "GET", i == 0 ? "/0" : i == 1 ? "/1" : i == 2 ? "/2" : "/more");
	(void)peer_head(&fx.peers[0]);
	(void)peer_head(&fx.peers[1]);
	assert_int_equal(fx.n_dials, 2);
	http_call_cancel(s[3].call); /* one in line */
	peer_say(&fx.peers[1], OK_EMPTY);
	expect(&s[1], 0, 200, "");
	assert_non_null(strstr(peer_head(&fx.peers[1]), "GET /2 "));
	peer_say(&fx.peers[1], "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
	expect(&s[2], 0, 200, "");
	WAIT_FOR(fx.peers[1].ended);
	(void)peer_head(&fx.peers[2]); /* its place is free for a new one */
	peer_say(&fx.peers[2], OK_EMPTY);
	expect(&s[4], 0, 200, "");
	assert_int_equal(fx.n_dials, 3);
	http_call_cancel(s[0].call);
	WAIT_FOR(fx.peers[0].ended);
	assert_int_equal(s[0].n_done + s[3].n_done, 0);
}

static void test_idle_connections(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct seen s[3];

	(void)state;
	opt.max_idle = 2;
	opt.idle_timeout_ms = 1;
	use_upstream(DIAL_PEER, &opt);
	for (unsigned i = 0; i < 3; i++)
		start(&s[i], "GET", "/");
	for (unsigned i = 0; i < 3; i++) {
		(void)peer_head(&fx.peers[i]);
		peer_say(&fx.peers[i], OK_EMPTY);
	}
	for (unsigned i = 0; i < 3; i++)
		expect(&s[i], 0, 200, "");
	for (unsigned i = 0; i < 3; i++) /* one is too many, the others too old */
		WAIT_FOR(fx.peers[i].ended);
}

static void test_idle_peer_speaks(void **state)
{
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_PEER);
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	peer_say(&fx.peers[0], OK_EMPTY);
	expect(&s, 0, 200, "");
	peer_say(&fx.peers[0], "HTTP/1.1 408 Request Timeout\r\n\r\n");
	start(&s, "POST", "/"); /* sees it without the loop's help */
	(void)peer_head(&fx.peers[1]);
	WAIT_FOR(fx.peers[0].ended);
	peer_say(&fx.peers[1], OK_EMPTY);
	expect(&s, 0, 200, "");
}

/* --- dialing --- */

static void test_dial_refused(void **state)
{
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_REFUSE);
	start(&s, "GET", "/");
	expect(&s, -ECONNREFUSED, 0, "");
	assert_string_equal(s.why, "nobody at home");
}

static void test_dial_later(void **state)
{
	struct http_call_options opt;
	struct seen s;
	int fds[2];

	(void)state;
	use_default_upstream(DIAL_LATER);
	opt = options(&s, "POST", "/");
	opt.body_length = HTTP_LENGTH_UNKNOWN;
	start_with(&s, &opt);
	s.to_write = 200000; /* what is written meanwhile waits, up to the soft limit */
	on_drain(s.call);
	WAIT_FOR(fx.pending != NULL);
	assert_true(s.to_write > 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	(void)peer_new(fds[1]);
	http_dialed(TAKE(fx.pending), fds[0], NULL);
	assert_non_null(strstr(peer_head(&fx.peers[0]), "Transfer-Encoding: chunked"));
	WAIT_FOR(peer_has(&fx.peers[0], "\r\n0\r\n\r\n"));
	assert_true(fx.peers[0].in.len > 200000);
	peer_say(&fx.peers[0], OK_EMPTY);
	expect(&s, 0, 200, "");
}

static void test_dial_cancelled(void **state)
{
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_LATER);
	start(&s, "GET", "/");
	WAIT_FOR(fx.pending != NULL);
	http_call_cancel(s.call);
	assert_int_equal(fx.n_cancels, 1);
	assert_null(fx.pending);
	assert_int_equal(s.n_done, 0);
}

static void test_dial_answered_too_late(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct seen s;
	int fds[2];

	(void)state;
	opt.dial_cancel = NULL;
	use_upstream(DIAL_LATER, &opt);
	start(&s, "GET", "/");
	WAIT_FOR(fx.pending != NULL);
	http_upstream_free(TAKE(fx.upstream));
	assert_int_equal(s.n_done, 1);
	assert_int_equal(s.error, -ECANCELED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	(void)peer_new(fds[1]);
	http_dialed(TAKE(fx.pending), fds[0], NULL);
	WAIT_FOR(fx.peers[0].ended); /* the descriptor was closed */
}

static void test_address(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct err e = ERR_INIT;
	char address[64];
	struct seen s;
	int fd;

	(void)state;
	opt.dial = NULL;
	opt.address = "example.org:80";
	assert_int_equal(http_upstream_new(&fx.loop, &opt, &fx.upstream, &e), -EINVAL);
	opt.address = "127.0.0.1:0";
	opt.dial = dial;
	assert_int_equal(http_upstream_new(&fx.loop, &opt, &fx.upstream, &e), -EINVAL);
	opt.dial = NULL;

	use_server(handle);
	assert_int_equal(listener_bind("127.0.0.1:0", 16, &fd, &e), 0);
	assert_int_equal(listener_address(fd, address, sizeof(address)), 0);
	assert_int_equal(http_server_listen(&fx.server, fd, &e), 0);
	opt.address = address;
	use_upstream(DIAL_ADDRESS, &opt);
	memset(address, 'x', sizeof(address)); /* it was copied */
	start(&s, "GET", "/");
	expect(&s, 0, 200, "GET 0");
}

static void test_address_refused(void **state)
{
	struct http_upstream_options opt = upstream_options();
	char address[64];
	struct seen s;
	int fd;

	(void)state;
	assert_int_equal(listener_bind("127.0.0.1:0", 1, &fd, NULL), 0);
	assert_int_equal(listener_address(fd, address, sizeof(address)), 0);
	(void)close(fd);
	opt.dial = NULL;
	opt.address = address;
	use_upstream(DIAL_ADDRESS, &opt);
	start(&s, "GET", "/");
	expect(&s, -ECONNREFUSED, 0, "");
}

/* --- time --- */

/* Start a call and see it dialed: on a busy machine its time may be over before its turn comes. */
static void start_dialed(struct seen *s)
{
	unsigned before = fx.n_dials;

	do {
		start(s, "GET", "/");
		WAIT_FOR(fx.n_dials > before || s->n_done > 0);
	} while (fx.n_dials == before);
}

static void test_connect_timeout(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct seen s;

	(void)state;
	opt.connect_timeout_ms = 5;
	use_upstream(DIAL_LATER, &opt);
	start_dialed(&s);
	expect(&s, -ETIMEDOUT, 0, "");
	assert_int_equal(fx.n_cancels, 1);
}

static void test_timeout_in_line(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct seen first, second;

	(void)state;
	opt.connect_timeout_ms = 200;
	opt.max_connections = 1;
	use_upstream(DIAL_PEER, &opt);
	start_dialed(&first);
	start(&second, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	expect(&second, -ETIMEDOUT, 0, "");
	peer_say(&fx.peers[0], OK_EMPTY); /* the one that has a connection is not concerned */
	expect(&first, 0, 200, "");
}

static void test_response_timeout(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct http_call_options post;
	struct seen s;

	(void)state;
	opt.response_timeout_ms = 200; /* a busy machine answers within that */
	use_upstream(DIAL_PEER, &opt);
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	peer_say(&fx.peers[0], "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 2");
	expect(&s, -ETIMEDOUT, 0, "");

	/* the caller's own slowness is not the upstream's */
	post = options(&s, "POST", "/");
	post.body_length = 1;
	start_with(&s, &post);
	(void)peer_head(&fx.peers[1]);
	for (uint64_t until = io_now_ms(&fx.loop) + 300; io_now_ms(&fx.loop) < until;) {
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		assert_int_equal(s.n_done, 0);
	}
	assert_int_equal(http_call_write(s.call, "x", 1), 0);
	http_call_end_body(s.call);
	expect(&s, -ETIMEDOUT, 0, "");

	/* a stream that is silent after its head is none either */
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[2]);
	peer_say(&fx.peers[2], "HTTP/1.1 200 OK\r\n\r\n");
	WAIT_FOR(s.n_head > 0);
	for (uint64_t until = io_now_ms(&fx.loop) + 300; io_now_ms(&fx.loop) < until;)
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
	peer_say(&fx.peers[2], "late");
	peer_close(&fx.peers[2]);
	expect(&s, 0, 200, "late");
}

/* An upstream that takes nothing of the body. */
static void test_stalled_upload(void **state)
{
	struct http_upstream_options opt = upstream_options();
	struct http_call_options post;
	struct seen s;

	(void)state;
	opt.response_timeout_ms = 20;
	use_upstream(DIAL_PEER, &opt);
	post = options(&s, "POST", "/");
	post.body_length = MIB(64);
	start_with(&s, &post);
	(void)peer_head(&fx.peers[0]);
	stream_want(&fx.peers[0].stream, 0);
	s.to_write = MIB(64);
	on_drain(s.call);
	expect(&s, -ETIMEDOUT, 0, "");

	/* also when it has begun to answer */
	post = options(&s, "POST", "/");
	post.body_length = MIB(64);
	start_with(&s, &post);
	(void)peer_head(&fx.peers[1]);
	stream_want(&fx.peers[1].stream, 0);
	peer_say(&fx.peers[1], "HTTP/1.1 200 OK\r\n\r\n");
	WAIT_FOR(s.n_head > 0);
	s.to_write = MIB(64);
	on_drain(s.call);
	expect(&s, -ETIMEDOUT, 200, "");
}

/* --- misuse and its answers --- */

static void test_bad_options(void **state)
{
	static const struct h1_field bad_name = { { "X Y", 3 }, { "v", 1 } };
	static const struct h1_field bad_value = { { "X", 1 }, { "a\r\nB: c", 7 } };
	struct http_call_options cases[8];
	struct http_call *call;
	struct err e;
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_PEER);
	for (unsigned i = 0; i < 8; i++)
		cases[i] = options(&s, "GET", "/");
	cases[0].method = "G T";
	cases[1].target = SPAN_LIT("");
	cases[2].target = SPAN_LIT("/a b");
	cases[3].target = SPAN_LIT("http://x/");
	cases[4].fields = &bad_name;
	cases[4].n_fields = 1;
	cases[5].fields = &bad_value;
	cases[5].n_fields = 1;
	cases[6].upgrade = true;
	cases[6].body = SPAN_LIT("x");
	cases[7].body = span_of("", MIB(2)); /* never read: too large is too large */
	for (unsigned i = 0; i < 7; i++)
		assert_int_equal(http_call_start(fx.upstream, &cases[i], &call, &e), -EINVAL);
	assert_int_equal(http_call_start(fx.upstream, &cases[7], &call, &e), -EMSGSIZE);
	assert_int_equal(fx.n_dials, 0);
}

static void test_framing_is_ours(void **state)
{
	static const struct h1_field fields[] = {
		{ { "content-length", 14 }, { "99", 2 } },
		{ { "Transfer-Encoding", 17 }, { "x", 1 } },
		{ { "connection", 10 }, { "close", 5 } },
		{ { "UPGRADE", 7 }, { "x", 1 } },
		{ { "host", 4 }, { "given", 5 } },
		{ { "X-Mine", 6 }, { "", 0 } },
	};
	struct http_call_options opt;
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_PEER);
	opt = options(&s, "POST", "/");
	opt.fields = fields;
	opt.n_fields = ARRAY_LEN(fields);
	start_with(&s, &opt);
	assert_string_equal(peer_head(&fx.peers[0]),
			    "POST / HTTP/1.1\r\nHost: given\r\nX-Mine: \r\n"
			    "Content-Length: 0");
	peer_say(&fx.peers[0], OK_EMPTY);
	expect(&s, 0, 200, "");
	start(&s, "GET", "/");
	assert_string_equal(peer_head(&fx.peers[0]), "GET / HTTP/1.1\r\nHost: localhost");
	http_call_cancel(s.call);
}

static void test_wrong_length(void **state)
{
	struct http_call_options opt;
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_LATER);
	opt = options(&s, "POST", "/");
	opt.body_length = 3;
	start_with(&s, &opt);
	assert_int_equal(http_call_write(s.call, "abcd", 4), -EPIPE);
	assert_int_equal(s.n_done, 0);
	expect(&s, -EINVAL, 0, "");

	opt = options(&s, "POST", "/");
	opt.body_length = 3;
	start_with(&s, &opt);
	assert_int_equal(http_call_write(s.call, "ab", 2), 0);
	http_call_end_body(s.call);
	expect(&s, -EINVAL, 0, "");

	opt = options(&s, "POST", "/");
	opt.body_length = HTTP_LENGTH_UNKNOWN;
	start_with(&s, &opt);
	for (int r = 0; r >= 0;) { /* does not stop when told */
		static const char piece[KIB(64)];

		r = http_call_write(s.call, piece, sizeof(piece));
	}
	expect(&s, -ENOBUFS, 0, "");
}

/* --- answers --- */

static void test_answers(void **state)
{
	static const struct {
		const char *method, *answer;
		bool close;
		int error, status;
		const char *body;
		bool kept;
	} cases[] = {
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", false, 0, 200, "abc",
		  true },
		{ "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		  false, 0, 200, "a", true },
		{ "GET", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", false, 0, 200, "a",
		  false },
		{ "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na",
		  false, 0, 200, "a", true },
		{ "GET", "HTTP/1.1 200\r\n\r\nto the end", true, 0, 200, "to the end", false },
		{ "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", false, 0, 200, "", true },
		{ "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", false, 0, 304,
		  "", true },
		{ "GET", "HTTP/1.1 204 No Content\r\n\r\n", false, 0, 204, "", true },
		{ "GET", "HTTP/1.1 100 Go\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
		  false, 0, 200, "", true },
		{ "GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", true, -ECONNRESET, 200,
		  "ab", false },
		{ "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", true,
		  -ECONNRESET, 200, "a", false },
		{ "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nx", false,
		  -EPROTO, 200, "a", false },
		{ "GET", "", true, -ECONNRESET, 0, "", false },
		{ "GET", "HTTP/1.1 ", true, -ECONNRESET, 0, "", false },
		{ "GET", "nonsense\r\n\r\n", false, -EPROTO, 0, "", false },
		{ "GET", "HTTP/1.1 101 Up\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", false,
		  -EPROTO, 0, "", false },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
		struct seen s;
		struct peer *p;

		fx.n_peers = 0;
		use_default_upstream(DIAL_PEER);
		start(&s, cases[i].method, "/");
		WAIT_FOR(fx.n_peers > 0);
		p = &fx.peers[0];
		(void)peer_head(p);
		/* byte by byte, the loop turning in between */
		for (const char *c = cases[i].answer; *c != '\0' && s.n_done == 0; c++) {
			assert_int_equal(write(p->stream.fd, c, 1), 1);
			(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		}
		if (cases[i].close)
			peer_close(p);
		expect(&s, cases[i].error, cases[i].status, cases[i].body);
		assert_int_equal(s.n_continue, strstr(cases[i].answer, " 100 ") != NULL);
		if (!cases[i].kept && !cases[i].close)
			WAIT_FOR(p->ended);
		else
			assert_false(p->ended);
		http_upstream_free(TAKE(fx.upstream));
		peer_close(p);
		buf_free(&p->in);
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
	}
	fx.n_peers = 0;
}

static void test_cancel_and_free_in_callbacks(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef";
	struct seen s[3];

	(void)state;
	use_default_upstream(DIAL_PEER);
	start(&s[0], "GET", "/");
	start(&s[1], "GET", "/");
	start(&s[2], "GET", "/");
	s[0].cancel_in_head = true;
	s[1].cancel_in_data = true;
	s[2].free_in_head = true;
	for (unsigned i = 0; i < 3; i++) {
		(void)peer_head(&fx.peers[i]);
		peer_say(&fx.peers[i], answer);
		WAIT_FOR(fx.peers[i].ended);
		buf_free(&s[i].body);
	}
	assert_int_equal(s[0].n_head, 1);
	assert_int_equal(s[0].n_done + s[1].n_done, 0);
	assert_int_equal(s[2].n_done, 1);
	assert_int_equal(s[2].error, -ECANCELED);
	assert_null(fx.upstream);
}

static void test_pause_holds_the_end_back(void **state)
{
	struct seen s;

	(void)state;
	use_default_upstream(DIAL_PEER);
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	s.pause_in_data = true;
	peer_say(&fx.peers[0], "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			       "1\r\na\r\n1\r\nb\r\n0\r\n\r\n");
	for (size_t i = 1; i <= 2; i++) {
		WAIT_FOR(s.body.len == i);
		for (int k = 0; k < 20; k++)
			(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		assert_int_equal(s.body.len, i);
		assert_int_equal(s.n_done, 0);
		http_call_resume(s.call);
	}
	expect(&s, 0, 200, "ab");
	/* and the connection listens again */
	s.pause_in_data = false;
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	peer_say(&fx.peers[0], OK_EMPTY);
	expect(&s, 0, 200, "");
}

static void test_sent_again(void **state)
{
	static const char *const methods[] = { "GET", "PUT", "DELETE", "POST" };

	(void)state;
	use_default_upstream(DIAL_PEER);
	for (unsigned i = 0; i < ARRAY_LEN(methods); i++) {
		bool again = strcmp(methods[i], "POST") != 0;
		struct http_call_options opt;
		struct peer *p;
		struct seen s;

		start(&s, "GET", "/first");
		WAIT_FOR(fx.n_peers == 2 * i + 1);
		p = &fx.peers[2 * i];
		(void)peer_head(p);
		peer_say(p, OK_EMPTY);
		expect(&s, 0, 200, "");
		opt = options(&s, methods[i], "/again");
		opt.body = SPAN_LIT("whole body");
		start_with(&s, &opt);
		WAIT_FOR(peer_has(p, "whole body"));
		peer_close(p);
		if (!again) {
			expect(&s, -ECONNRESET, 0, "");
			continue;
		}
		WAIT_FOR(fx.n_peers == 2 * i + 2);
		p = &fx.peers[2 * i + 1];
		WAIT_FOR(peer_has(p, "whole body"));
		assert_true(peer_has(p, methods[i]));
		peer_say(p, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
		expect(&s, 0, 200, "");
	}
}

/* Others that are as old as the one that was gone are not tried. */
static void test_sent_again_on_a_new_connection(void **state)
{
	struct seen s[2];

	(void)state;
	use_default_upstream(DIAL_PEER);
	start(&s[0], "GET", "/");
	start(&s[1], "GET", "/");
	for (unsigned i = 0; i < 2; i++) {
		(void)peer_head(&fx.peers[i]);
		peer_say(&fx.peers[i], OK_EMPTY);
		expect(&s[i], 0, 200, "");
	}
	start(&s[0], "GET", "/again");
	(void)peer_head(&fx.peers[1]); /* the last used first */
	peer_close(&fx.peers[1]);
	WAIT_FOR(fx.n_peers == 3);
	(void)peer_head(&fx.peers[2]);
	peer_say(&fx.peers[2], OK_EMPTY);
	expect(&s[0], 0, 200, "");
	assert_int_equal(fx.peers[0].in.len, 0);
}

/* An upstream that has heard enough: its answer counts, whether it hangs up (so that our next write
 * fails before we read) or only stops listening. The connection is not used again. */
static void test_early_answer(void **state)
{
	(void)state;
	use_default_upstream(DIAL_PEER);
	for (unsigned i = 0; i < 2; i++) {
		struct http_call_options opt;
		struct peer *p;
		struct seen s;

		opt = options(&s, "POST", "/");
		opt.body_length = GIB(1);
		start_with(&s, &opt);
		WAIT_FOR(fx.n_peers == i + 1);
		p = &fx.peers[i];
		(void)peer_head(p);
		stream_want(&p->stream, 0);
		s.to_write = GIB(1);
		on_drain(s.call); /* as much as goes */
		peer_say(p, "HTTP/1.1 413 No\r\nContent-Length: 6\r\n\r\nenough");
		if (i == 0)
			peer_close(p);
		expect(&s, 0, 413, "enough");
		stream_want(&p->stream, p->open ? STREAM_READABLE : 0);
		WAIT_FOR(p->ended || !p->open);
	}
}

static void test_trickling_head(void **state)
{
	struct http_upstream_options opt = upstream_options();
	uint64_t next = 0;
	struct seen s;

	(void)state;
	opt.response_timeout_ms = 100;
	use_upstream(DIAL_PEER, &opt);
	start(&s, "GET", "/");
	(void)peer_head(&fx.peers[0]);
	peer_say(&fx.peers[0], "HTTP/1.1 200 OK\r\nX: ");
	while (s.n_done == 0) {
		if (io_now_ms(&fx.loop) >= next && !fx.peers[0].ended) {
			peer_say(&fx.peers[0], "a");
			next = io_now_ms(&fx.loop) + 5;
		}
		(void)uv_run(&fx.loop.uv, UV_RUN_NOWAIT);
		assert_false(fx.late);
	}
	expect(&s, -ETIMEDOUT, 0, "");
}

int main(void)
{
#define LOOP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		LOOP_TEST(test_with_server),
		LOOP_TEST(test_streaming_both_ways),
		LOOP_TEST(test_line),
		LOOP_TEST(test_idle_connections),
		LOOP_TEST(test_idle_peer_speaks),
		LOOP_TEST(test_dial_refused),
		LOOP_TEST(test_dial_later),
		LOOP_TEST(test_dial_cancelled),
		LOOP_TEST(test_dial_answered_too_late),
		LOOP_TEST(test_address),
		LOOP_TEST(test_address_refused),
		LOOP_TEST(test_connect_timeout),
		LOOP_TEST(test_timeout_in_line),
		LOOP_TEST(test_response_timeout),
		LOOP_TEST(test_stalled_upload),
		LOOP_TEST(test_bad_options),
		LOOP_TEST(test_framing_is_ours),
		LOOP_TEST(test_wrong_length),
		LOOP_TEST(test_answers),
		LOOP_TEST(test_cancel_and_free_in_callbacks),
		LOOP_TEST(test_pause_holds_the_end_back),
		LOOP_TEST(test_sent_again),
		LOOP_TEST(test_sent_again_on_a_new_connection),
		LOOP_TEST(test_early_answer),
		LOOP_TEST(test_trickling_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
