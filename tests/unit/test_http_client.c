/* Calls, their connections, their dialers and their time, in one loop with the other side. */
#include "http_calls.h"

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
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
