/* What may not be asked for, and what comes of all manners of answers. */
#include "http_calls.h"

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
