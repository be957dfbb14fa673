/* The configuration reader: what it takes and as what, what it refuses and in which words, and the
 * keys that nobody asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/util.h"
#include "codec/jsonw.h"
#include "codec/toml.h"

static void write_node(struct jw *w, const struct toml_node *n)
{
	switch (n->type) {
	case TOML_STRING:
		jw_str(w, n->string);
		break;
	case TOML_INTEGER:
		jw_i64(w, n->integer);
		break;
	case TOML_FLOAT:
		if (isfinite(n->real))
			jw_f64(w, n->real);
		else
			jw_cstr(w, isnan(n->real) ? "nan" : n->real > 0 ? "inf" : "-inf");
		break;
	case TOML_BOOLEAN:
		jw_bool(w, n->boolean);
		break;
	case TOML_ARRAY:
	case TOML_TABLE:
		if (n->type == TOML_TABLE)
			jw_object(w);
		else
			jw_array(w);
		toml_for_each (it, n) {
			if (n->type == TOML_TABLE)
				jw_key_span(w, it->key);
			write_node(w, it);
		}
		jw_end(w);
		break;
	}
}

static void accepted(void **state)
{
	static const struct {
		const char *in, *out; /* as JSON */
	} cases[] = {
		{ "", "{}" },
		{ "\n\r\n# only a comment\n  \t # and another", "{}" },
		{ "\xef\xbb\xbf"
		  "a=1",
		  "{\"a\":1}" },
		{ "a = 1", "{\"a\":1}" },
		{ " a\t=\t1 # one\r\nb=2\n", "{\"a\":1,\"b\":2}" },
		/* keys */
		{ "a-b_C9 = 1\n1234 = 2", "{\"a-b_C9\":1,\"1234\":2}" },
		{ "\"a b\" = 1\n'c.d' = 2\n\"\" = 3\n\"\\u00e9\" = 4",
		  "{\"a b\":1,\"c.d\":2,\"\":3,\"\xc3\xa9\":4}" },
		{ "a.b = 1\na . c = 2\na.'d.e' = 3", "{\"a\":{\"b\":1,\"c\":2,\"d.e\":3}}" },
		{ "3.14 = 1", "{\"3\":{\"14\":1}}" },
		/* strings */
		{ "a = \"\"\nb = ''", "{\"a\":\"\",\"b\":\"\"}" },
		{ "a = \"\\b\\t\\n\\f\\r\\\"\\\\\\u0041\\U0001F600\"",
		  "{\"a\":\"\\b\\t\\n\\f\\r\\\"\\\\A\xf0\x9f\x98\x80\"}" },
		{ "a = 'C:\\dir\\n'", "{\"a\":\"C:\\\\dir\\\\n\"}" },
		{ "a = \"# no comment\" # but this is", "{\"a\":\"# no comment\"}" },
		{ "a = \"\"\"\nfirst\r\nsecond\"\"\"", "{\"a\":\"first\\nsecond\"}" },
		{ "a = \"\"\"one \\\n   \n  two\\n\"\"\"", "{\"a\":\"one two\\n\"}" },
		{ "a = \"\"\"x\"\"y\"\"\"\"\"", "{\"a\":\"x\\\"\\\"y\\\"\\\"\"}" },
		{ "a = '''\n'' \\n '''''", "{\"a\":\"'' \\\\n ''\"}" },
		{ "a = \"\"\"\"\"\"\nb = ''''''", "{\"a\":\"\",\"b\":\"\"}" },
		/* numbers */
		{ "a = [0, +0, -0, 7, -17, 1_000, 9223372036854775807, -9223372036854775808]",
		  "{\"a\":[0,0,0,7,-17,1000,9223372036854775807,-9223372036854775808]}" },
		{ "a = [0xff, 0xDEAD_beef, 0o755, 0b1010_0101, 0x7fffffffffffffff, 0x00]",
		  "{\"a\":[255,3735928559,493,165,9223372036854775807,0]}" },
		{ "a = [1.5, -0.25, 1e3, 1E-2, 6.02e+23, 9_0.1_5, 0e0]",
		  "{\"a\":[1.5,-0.25,1000.0,0.01,6.02e+23,90.15,0.0]}" },
		{ "a = [inf, +inf, -inf, nan, -nan]",
		  "{\"a\":[\"inf\",\"inf\",\"-inf\",\"nan\",\"nan\"]}" },
		{ "a = true\nb = false", "{\"a\":true,\"b\":false}" },
		/* arrays and inline tables */
		{ "a = []\nb = [ [ ], [1,], [\"x\", true, {c = 1}] ]",
		  "{\"a\":[],\"b\":[[],[1],[\"x\",true,{\"c\":1}]]}" },
		{ "a = [ # comment\n 1, # one\n\n 2\n # end\n , ]", "{\"a\":[1,2]}" },
		{ "a = {}\nb = { c = 1, d.e = 2, d.f = { g = [] } }",
		  "{\"a\":{},\"b\":{\"c\":1,\"d\":{\"e\":2,\"f\":{\"g\":[]}}}}" },
		/* tables */
		{ "x = 0\n[a]\nb = 1\n[a.c]\nd = 2\n[ e . \"f g\" ]\nh = 3",
		  "{\"x\":0,\"a\":{\"b\":1,\"c\":{\"d\":2}},\"e\":{\"f g\":{\"h\":3}}}" },
		{ "[a.b.c]\nx = 1\n[a]\ny = 2\n[a.b]\nz = 3",
		  "{\"a\":{\"b\":{\"c\":{\"x\":1},\"z\":3},\"y\":2}}" },
		{ "[a]\n[b]\n", "{\"a\":{},\"b\":{}}" },
		{ "[fruit]\napple.color = 1\napple.taste.sweet = true\n[fruit.apple.texture]\ns = 2",
		  "{\"fruit\":{\"apple\":{\"color\":1,\"taste\":{\"sweet\":true},"
		  "\"texture\":{\"s\":2}}}}" },
		{ "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2\n[[a]]\nb = 3",
		  "{\"a\":[{\"b\":1},{\"c\":{\"d\":2}},{\"b\":3}]}" },
		{ "[[a.b]]\n[[a.b.c]]\nx = 1\n[[a.b.c]]\n[[a.b]]\ny = 2",
		  "{\"a\":{\"b\":[{\"c\":[{\"x\":1},{}]},{\"y\":2}]}}" },
	};
	struct buf out = BUF_INIT(4096);

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena arena = ARENA_INIT(1 << 20);
		struct toml_node *root = NULL;
		struct err e = ERR_INIT;
		struct jw w = JW_INIT(&out);

		if (toml_parse(&arena, span_str(cases[i].in), &root, &e) < 0)
			fail_msg("%s: %s", cases[i].in, e.msg);
		buf_clear(&out);
		write_node(&w, root);
		assert_string_equal(buf_cstr(&out), cases[i].out);
		arena_free(&arena);
	}
	buf_free(&out);
}

static void refused(void **state)
{
	static const struct {
		struct span in;
		const char *words;
	} cases[] = {
		{ SPAN_LIT("a"), "line 1, column 2: '=' is expected" },
		{ SPAN_LIT("a b = 1"), "line 1, column 3: '=' is expected" },
		{ SPAN_LIT("= 1"), "line 1, column 1: a key is expected" },
		{ SPAN_LIT("a. = 1"), "line 1, column 4: a key is expected" },
		{ SPAN_LIT("a..b = 1"), "line 1, column 3: a key is expected" },
		{ SPAN_LIT("\xc3\xa9 = 1"), "line 1, column 1: a key is expected" },
		{ SPAN_LIT("\"\"\"a\"\"\" = 1"), "line 1, column 3: '=' is expected" },
		{ SPAN_LIT("a ="), "line 1, column 4: a value is expected" },
		{ SPAN_LIT("\na =\nb = 1"), "line 2, column 4: a value is expected" },
		{ SPAN_LIT("a = 1 b = 2"),
		  "line 1, column 7: something unexpected at the end of the line" },
		{ SPAN_LIT("a = \"x\" y"),
		  "line 1, column 9: something unexpected at the end of the line" },
		{ SPAN_LIT("a = 1\rb = 2"),
		  "line 1, column 6: something unexpected at the end of the line" },
		/* strings */
		{ SPAN_LIT("x = 1\na = \"open"), "line 2, column 6: this string does not end" },
		{ SPAN_LIT("a = \"open\nb = \"\""), "line 1, column 6: this string does not end" },
		{ SPAN_LIT("a = '''\nopen''\n\n"), "line 2, column 1: this string does not end" },
		{ SPAN_LIT("a = \"\\q\""), "line 1, column 7: unknown escape" },
		{ SPAN_LIT("a = \"\\ \n\""), "line 1, column 7: unknown escape" },
		{ SPAN_LIT("a = \"\"\"\n\n\\ x\"\"\""), "line 3, column 2: unknown escape" },
		{ SPAN_LIT("a = \"\\u12\""), "line 1, column 8: hexadecimal digits expected" },
		{ SPAN_LIT("a = \"\\ud800\""), "line 1, column 8: no such character" },
		{ SPAN_LIT("a = \"\\U00110000\""), "line 1, column 8: no such character" },
		{ SPAN_LIT("a = \"\\u0000\""), "line 1, column 8: no such character" },
		{ SPAN_LIT("a = \"\x01\""), "line 1, column 6: control character in a string" },
		{ SPAN_LIT("# \x7f"), "line 1, column 3: control character in a comment" },
		{ SPAN_LIT("a = 1\nb = \"\xff\""), "line 2, column 6: not UTF-8" },
		{ SPAN_LIT("a = 1\nb\0 = 2"), "line 2, column 2: a NUL character" },
		/* numbers */
		{ SPAN_LIT("a = 01"), "line 1, column 5: '01' is not a value" },
		{ SPAN_LIT("a = -01"), "line 1, column 5: '-01' is not a value" },
		{ SPAN_LIT("a = 1_"), "line 1, column 5: '1_' is not a value" },
		{ SPAN_LIT("a = _1"), "line 1, column 5: '_1' is not a value" },
		{ SPAN_LIT("a = 1__0"), "line 1, column 5: '1__0' is not a value" },
		{ SPAN_LIT("a = 1."), "line 1, column 5: '1.' is not a value" },
		{ SPAN_LIT("a = .5"), "line 1, column 5: '.5' is not a value" },
		{ SPAN_LIT("a = 1.e5"), "line 1, column 5: '1.e5' is not a value" },
		{ SPAN_LIT("a = 1e"), "line 1, column 5: '1e' is not a value" },
		{ SPAN_LIT("a = 1._5"), "line 1, column 5: '1._5' is not a value" },
		{ SPAN_LIT("a = 1e999"), "line 1, column 5: '1e999' is not a value" },
		{ SPAN_LIT("a = 9223372036854775808"),
		  "line 1, column 5: '9223372036854775808' is not a value" },
		{ SPAN_LIT("a = 0x8000000000000000"),
		  "line 1, column 5: '0x8000000000000000' is not a value" },
		{ SPAN_LIT("a = 0x"), "line 1, column 5: '0x' is not a value" },
		{ SPAN_LIT("a = 0x_1"), "line 1, column 5: '0x_1' is not a value" },
		{ SPAN_LIT("a = 0x1_"), "line 1, column 5: '0x1_' is not a value" },
		{ SPAN_LIT("a = 0b2"), "line 1, column 5: '0b2' is not a value" },
		{ SPAN_LIT("a = +0x1"), "line 1, column 5: '+0x1' is not a value" },
		{ SPAN_LIT("a = 0XFF"), "line 1, column 5: '0XFF' is not a value" },
		{ SPAN_LIT("a = True"), "line 1, column 5: 'True' is not a value" },
		{ SPAN_LIT("a = yes"), "line 1, column 5: 'yes' is not a value" },
		{ SPAN_LIT("a = 1979-05-27T07:32:00Z"),
		  "line 1, column 5: dates and times are not supported, use a string" },
		{ SPAN_LIT("a = 1979-05-27"),
		  "line 1, column 5: dates and times are not supported, use a string" },
		{ SPAN_LIT("a = 07:32:00"),
		  "line 1, column 5: dates and times are not supported, use a string" },
		/* arrays and inline tables */
		{ SPAN_LIT("a = [1 2]"), "line 1, column 8: ',' or ']' is expected" },
		{ SPAN_LIT("a = [,]"), "line 1, column 6: a value is expected" },
		{ SPAN_LIT("a = [1\n\n"), "line 3, column 1: ',' or ']' is expected" },
		{ SPAN_LIT("a = {b = 1"), "line 1, column 11: ',' or '}' is expected" },
		{ SPAN_LIT("a = {b = 1,}"), "line 1, column 12: a key is expected" },
		{ SPAN_LIT("a = {\nb = 1}"), "line 1, column 6: a key is expected" },
		{ SPAN_LIT("a = {b = 1, b = 2}"),
		  "line 1, column 13: 'a.b' is defined already in line 1" },
		/* twice */
		{ SPAN_LIT("a = 1\na = 2"), "line 2, column 1: 'a' is defined already in line 1" },
		{ SPAN_LIT("[s]\na = 1\n\n'a' = 2"),
		  "line 4, column 1: 's.a' is defined already in line 2" },
		{ SPAN_LIT("[a]\n[a]"), "line 2, column 2: 'a' is defined already in line 1" },
		{ SPAN_LIT("a.b = 1\n[a]"), "line 2, column 2: 'a' is defined already in line 1" },
		{ SPAN_LIT("a.b = 1\na = 1"),
		  "line 2, column 1: 'a' is defined already in line 1" },
		{ SPAN_LIT("a = 1\na.b = 1"),
		  "line 2, column 1: 'a' is defined already in line 1" },
		{ SPAN_LIT("a = {}\na.b = 1"),
		  "line 2, column 1: 'a' is defined already in line 1" },
		{ SPAN_LIT("a = {}\n[a.b]"), "line 2, column 2: 'a' is defined already in line 1" },
		{ SPAN_LIT("a = []\n[[a]]"), "line 2, column 3: 'a' is defined already in line 1" },
		{ SPAN_LIT("a = [{}]\n[a.b]"),
		  "line 2, column 2: 'a' is defined already in line 1" },
		{ SPAN_LIT("[a]\n[[a]]"), "line 2, column 3: 'a' is defined already in line 1" },
		{ SPAN_LIT("[[a]]\n[a]"), "line 2, column 2: 'a' is defined already in line 1" },
		{ SPAN_LIT("[a.b.c]\nz = 9\n[a]\nb.c.t = 1"),
		  "line 4, column 1: 'a.b' is defined already in line 1" },
		{ SPAN_LIT("[[a]]\nb = 1\n[[a]]\n[a.c]\n[a.c]"),
		  "line 5, column 2: 'a[1].c' is defined already in line 4" },
		/* headers */
		{ SPAN_LIT("[]"), "line 1, column 2: a key is expected" },
		{ SPAN_LIT("[a"), "line 1, column 3: ']' is expected" },
		{ SPAN_LIT("[[a]"), "line 1, column 5: ']]' is expected" },
		{ SPAN_LIT("[a] b = 1"),
		  "line 1, column 5: something unexpected at the end of the line" },
		{ SPAN_LIT("a = [[[[[[[[[[[[[[[[[[[1]]"), "line 1, column 21: nested too deeply" },
		{ SPAN_LIT("a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = 1"),
		  "line 1, column 33: a key has too many parts" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct arena arena = ARENA_INIT(1 << 20);
		struct toml_node *root = NULL;
		struct err e = ERR_INIT;

		assert_int_equal(toml_parse(&arena, cases[i].in, &root, &e), -EINVAL);
		assert_string_equal(e.msg, cases[i].words);
		assert_null(root);
		assert_int_equal(toml_parse(&arena, cases[i].in, &root, NULL), -EINVAL);
		arena_free(&arena);
	}
}

static void bounded(void **state)
{
	struct arena arena = ARENA_INIT(64 << 20), tiny = ARENA_INIT(1000);
	struct buf text = BUF_INIT(2 << 20);
	struct toml_node *root = NULL;
	struct err e = ERR_INIT;

	(void)state;
	for (int i = 0; i < TOML_MAX_NODES; i++)
		(void)buf_add_str(&text, i == 0 ? "a = [" : "1,\n");
	(void)buf_add_str(&text, "]");
	assert_int_equal(toml_parse(&arena, buf_span(&text), &root, &e), -EMSGSIZE);
	assert_string_equal(e.msg, "line 16383: more than 16384 values");
	assert_int_equal(toml_parse(&tiny, buf_span(&text), &root, &e), -ENOMEM);
	arena_free(&tiny);

	buf_clear(&text);
	while (text.len <= TOML_MAX_BYTES)
		(void)buf_add_str(&text, "# a comment and nothing else\n");
	assert_int_equal(toml_parse(&arena, buf_span(&text), &root, &e), -EMSGSIZE);
	text.len = TOML_MAX_BYTES;
	assert_int_equal(toml_parse(&arena, buf_span(&text), &root, &e), 0);
	arena_free(&arena);
	buf_free(&text);
}

static const char sample[] = "title = \"x\"\n"
			     "[server]\n"
			     "host = \"127.0.0.1\"\n"
			     "port = 8080\n"
			     "prot = 1\n"
			     "ratio = 0.5\n"
			     "debug = true\n"
			     "tls = { cert = \"c\", key = \"k\" }\n"
			     "paths = [\"/a\", \"/b\"]\n"
			     "[nobody.asked]\n"
			     "x = 1\n"
			     "[[volume]]\n"
			     "name = \"v\"\n"
			     "[[volume]]\n"
			     "nmae = \"w\"\n"
			     "[labels]\n"
			     "any = \"thing\"\n";

static void getters(void **state)
{
	struct arena arena = ARENA_INIT(1 << 20);
	struct toml_node *root = NULL, *n = NULL;
	struct err e = ERR_INIT;
	const char *s = "before";
	int64_t i = 0;
	double d = 0;
	bool b = false;

	(void)state;
	assert_int_equal(toml_parse(&arena, span_str(sample), &root, &e), 0);
	assert_int_equal(toml_get_str(root, "server.host", &s, &e), 1);
	assert_string_equal(s, "127.0.0.1");
	assert_int_equal(toml_get_i64(root, "server.port", 1, 65535, &i, &e), 1);
	assert_int_equal(i, 8080);
	assert_int_equal(toml_get_f64(root, "server.ratio", &d, &e), 1);
	assert_true(d == 0.5);
	assert_int_equal(toml_get_f64(root, "server.port", &d, &e), 1);
	assert_true(d == 8080);
	assert_int_equal(toml_get_bool(root, "server.debug", &b, &e), 1);
	assert_true(b);
	assert_int_equal(toml_get_table(root, "server.tls", &n, &e), 1);
	assert_int_equal(toml_get_str(n, "cert", &s, &e), 1);
	assert_string_equal(s, "c");
	assert_int_equal(toml_get_array(root, "server.paths", &n, &e), 1);
	assert_int_equal(n->count, 2);
	assert_int_equal(toml_need(n->last, TOML_STRING, &e), 0);
	assert_string_equal(n->last->string.p, "/b");
	assert_ptr_equal(toml_get(root, "server"), toml_child(root, SPAN_LIT("server")));

	/* absent: nothing is touched */
	assert_int_equal(toml_get_str(root, "server.nothing", &s, &e), 0);
	assert_int_equal(toml_get_str(root, "no.such.table", &s, &e), 0);
	assert_string_equal(s, "c");
	assert_null(toml_get(root, "nothing"));

	/* of another kind */
	assert_int_equal(toml_get_str(root, "server.port", &s, &e), -EINVAL);
	assert_string_equal(e.msg, "line 4: 'server.port' must be a string, not an integer");
	assert_int_equal(toml_get_i64(root, "server.port", 1, 1023, &i, &e), -EINVAL);
	assert_string_equal(e.msg, "line 4: 'server.port' must be between 1 and 1023");
	assert_int_equal(toml_get_bool(root, "server.host", &b, &e), -EINVAL);
	assert_int_equal(toml_get_f64(root, "server.host", &d, &e), -EINVAL);
	assert_string_equal(e.msg, "line 3: 'server.host' must be a number, not a string");
	assert_int_equal(toml_get_table(root, "title", &n, &e), -EINVAL);
	assert_int_equal(toml_get_i64(root, "title.x", 0, 1, &i, &e), -EINVAL);
	assert_string_equal(e.msg, "line 1: 'title' must be a table, not a string");
	assert_int_equal(toml_get_array(root, "volume", &n, &e), 1);
	assert_int_equal(toml_get_i64(n->first, "name", 0, 1, &i, &e), -EINVAL);
	assert_string_equal(e.msg, "line 13: 'volume[0].name' must be an integer, not a string");
	assert_int_equal(toml_need(n->first, TOML_STRING, &e), -EINVAL);
	assert_string_equal(e.msg, "line 12: 'volume[0]' must be a string, not a table");
	arena_free(&arena);

	assert_int_equal(toml_parse(&arena, SPAN_LIT("x = inf"), &root, &e), 0);
	assert_int_equal(toml_get_f64(root, "x", &d, &e), -EINVAL);
	assert_string_equal(e.msg, "line 1: 'x' must be finite");
	arena_free(&arena);
}

static void unused_keys(void **state)
{
	static const struct {
		const char *path;
		unsigned line;
	} expected[] = {
		{ "server.prot", 5 },
		{ "server.tls.key", 8 },
		{ "nobody", 10 },
		{ "volume[1].nmae", 15 },
	};
	struct arena arena = ARENA_INIT(1 << 20);
	struct toml_node *root = NULL, *n = NULL, *v = NULL;
	struct err e = ERR_INIT;
	const char *s;
	int64_t i;
	double d;
	bool b;
	char path[64];
	size_t k = 0;

	(void)state;
	assert_int_equal(toml_parse(&arena, span_str(sample), &root, &e), 0);
	assert_int_equal(toml_get_str(root, "title", &s, &e), 1);
	assert_int_equal(toml_get_str(root, "server.host", &s, &e), 1);
	assert_int_equal(toml_get_i64(root, "server.port", 1, 65535, &i, &e), 1);
	assert_int_equal(toml_get_f64(root, "server.ratio", &d, &e), 1);
	assert_int_equal(toml_get_bool(root, "server.debug", &b, &e), 1);
	assert_int_equal(toml_get_str(root, "server.tls.cert", &s, &e), 1);
	assert_int_equal(toml_get_array(root, "server.paths", &n, &e), 1);
	assert_int_equal(toml_get_array(root, "volume", &v, &e), 1);
	toml_for_each (it, v)
		(void)toml_get_str(it, "name", &s, &e);
	assert_int_equal(toml_get_table(root, "labels", &n, &e), 1);
	toml_use_all(n);

	for (n = NULL; (n = toml_next_unused(root, n)) != NULL; k++) {
		assert_true(k < ARRAY_LEN(expected));
		toml_path(n, path, sizeof(path));
		assert_string_equal(path, expected[k].path);
		assert_int_equal(n->line, expected[k].line);
	}
	assert_int_equal(k, ARRAY_LEN(expected));

	toml_use_all(root);
	assert_null(toml_next_unused(root, NULL));
	toml_path(v->last->first, path, 6); /* cut, but ended */
	assert_int_equal(strlen(path), 5);
	arena_free(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accepted),    cmocka_unit_test(refused),
		cmocka_unit_test(bounded),     cmocka_unit_test(getters),
		cmocka_unit_test(unused_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
