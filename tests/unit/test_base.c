/* Errors, memory and containers: what every other layer leans on. Time has test_clock.c, the log
 * test_log.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "base/path.h"
#include "base/rand.h"
#include "base/span.h"
#include "base/util.h"

/* ---- err ---- */

static void err_says_code_and_words(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&e, ENOENT, "no %s here", "image"), -ENOENT);
	assert_int_equal(e.code, ENOENT);
	assert_string_equal(e.msg, "no image here");
	assert_int_equal(err_set(&e, -EPERM, "given as a return value"), -EPERM);
	assert_int_equal(e.code, EPERM);
}

static void err_never_reads_as_success(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(err_set(&e, 0, "code forgotten"), -EINVAL);
	assert_int_equal(e.code, EINVAL);
	errno = 0;
	assert_int_equal(err_sys(&e, "errno forgotten"), -EINVAL);
	assert_string_equal(e.msg, "errno forgotten: Invalid argument");
	e = ERR_INIT;
	assert_int_equal(err_wrap(&e, "wrapped nothing"), -EINVAL);
}

static void err_sys_and_code_add_the_reason(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	errno = EACCES;
	assert_int_equal(err_sys(&e, "open '%s'", "/x"), -EACCES);
	assert_string_equal(e.msg, "open '/x': Permission denied");
	assert_int_equal(err_code(&e, -ENOSPC, "write"), -ENOSPC);
	assert_string_equal(e.msg, "write: No space left on device");
	assert_int_equal(err_code(&e, 99999, "odd"), -99999);
	assert_string_equal(e.msg, "odd: error");
}

static void err_wrap_puts_words_in_front(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	(void)err_set(&e, EBUSY, "inner");
	assert_int_equal(err_wrap(&e, "while doing %d", 7), -EBUSY);
	assert_string_equal(e.msg, "while doing 7: inner");
	assert_int_equal(e.code, EBUSY);
}

static void err_takes_null(void **state)
{
	(void)state;
	errno = EIO;
	assert_int_equal(err_sys(NULL, "x"), -EIO);
	assert_int_equal(err_set(NULL, ENOMEM, "x"), -ENOMEM);
	assert_int_equal(err_code(NULL, ENODEV, "x"), -ENODEV);
	assert_true(err_wrap(NULL, "x") < 0);
}

static void err_cuts_long_words(void **state)
{
	struct err e = ERR_INIT;
	char longer[1000];

	(void)state;
	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	errno = EIO;
	assert_int_equal(err_sys(&e, "%s", longer), -EIO);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	for (int i = 0; i < 100; i++)
		assert_int_equal(err_wrap(&e, "again and again"), -EIO);
	assert_int_equal(strlen(e.msg), sizeof(e.msg) - 1);
	assert_memory_equal(e.msg, "again and again: again", 22);
}

/* ---- util ---- */

static void take_leaves_nothing_behind(void **state)
{
	autofd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	autofree char *p = strdup("x");
	char *q = TAKE(p);
	int given;

	(void)state;
	assert_null(p);
	assert_string_equal(q, "x");
	free(q);
	assert_true(fd >= 0);
	given = TAKE_FD(fd);
	assert_int_equal(fd, -EBADF);
	assert_int_equal(fcntl(given, F_GETFD), FD_CLOEXEC);
	fd_close(&given);
	assert_int_equal(given, -EBADF);
	fd_close(&given); /* twice does no harm */
}

static int open_and_leave(void)
{
	autofd int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	errno = ENOTTY;
	return fd;
}

static void autofd_closes_and_keeps_errno(void **state)
{
	int fd = open_and_leave();

	(void)state;
	assert_int_equal(errno, ENOTTY);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(errno, EBADF);
}

/* ---- span ---- */

static void span_compares(void **state)
{
	struct span none = { NULL, 0 };

	(void)state;
	assert_true(span_eq(none, SPAN_LIT("")));
	assert_true(span_is(none, ""));
	assert_false(span_is(none, "a"));
	assert_true(span_is(SPAN_LIT("abc"), "abc"));
	assert_false(span_is(SPAN_LIT("abc"), "abd"));
	assert_false(span_is(SPAN_LIT("abc"), "abcd"));
	assert_false(span_eq(SPAN_LIT("a\0b"), SPAN_LIT("a\0c")));
	assert_int_equal(span_str(NULL).len, 0);
	assert_true(span_caseis(SPAN_LIT("Content-Length"), "content-LENGTH"));
	assert_false(span_caseis(SPAN_LIT("a"), "b"));
	assert_true(span_caseeq(none, none));
	/* '@' and '`', '[' and '{' differ in the case bit alone, and are not letters */
	assert_false(span_caseis(SPAN_LIT("@["), "`{"));
	assert_false(span_caseis(SPAN_LIT("\xc4"), "\xe4"));
	assert_true(span_starts(SPAN_LIT("abc"), "ab"));
	assert_true(span_starts(none, ""));
	assert_false(span_starts(SPAN_LIT("a"), "ab"));
	assert_true(span_ends(SPAN_LIT("abc"), "bc"));
	assert_true(span_ends(none, ""));
	assert_false(span_ends(SPAN_LIT("c"), "bc"));
}

static void span_finds_and_cuts(void **state)
{
	struct span rest = SPAN_LIT("a,,b");

	(void)state;
	assert_int_equal(span_find(rest, 'b'), 3);
	assert_int_equal(span_find(rest, 'x'), -1);
	assert_int_equal(span_find((struct span){ NULL, 0 }, 'x'), -1);
	assert_int_equal(span_find(SPAN_LIT("a\0b"), '\0'), 1);
	assert_true(span_is(span_cut(&rest, ','), "a"));
	assert_true(span_is(span_cut(&rest, ','), ""));
	assert_true(span_is(span_cut(&rest, ','), "b"));
	assert_null(rest.p);
	assert_true(span_is(span_cut(&rest, ','), ""));
	/* a separator at the end leaves an empty part that is there, unlike nothing at all */
	rest = SPAN_LIT("a,");
	assert_true(span_is(span_cut(&rest, ','), "a"));
	assert_non_null(rest.p);
	assert_int_equal(rest.len, 0);
}

static void span_trims_blanks_only(void **state)
{
	(void)state;
	assert_true(span_is(span_trim(SPAN_LIT(" \t a b\t ")), "a b"));
	assert_true(span_is(span_trim(SPAN_LIT(" \t ")), ""));
	assert_true(span_is(span_trim(SPAN_LIT("\r\na\v")), "\r\na\v"));
	assert_int_equal(span_trim((struct span){ NULL, 0 }).len, 0);
}

static void span_u64_takes_digits_only(void **state)
{
	static const char *const bad[] = { "",         " 1",
					   "1 ",       "+1",
					   "-1",       "0x1",
					   "1a",       "18446744073709551616",
					   "\x31\xb1", "99999999999999999999999",
					   "1.0",      "1_000" };
	uint64_t v = 42;

	(void)state;
	assert_true(span_u64(SPAN_LIT("0"), &v));
	assert_int_equal(v, 0);
	assert_true(span_u64(SPAN_LIT("000000000000000000000000000012"), &v));
	assert_int_equal(v, 12);
	assert_true(span_u64(SPAN_LIT("18446744073709551615"), &v));
	assert_true(v == UINT64_MAX);
	v = 42;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(span_u64(span_str(bad[i]), &v));
	assert_false(span_u64(SPAN_LIT("1\0"), &v));
	assert_false(span_u64((struct span){ NULL, 0 }, &v));
	assert_int_equal(v, 42); /* written on success alone */
}

static void span_i64_knows_its_limits(void **state)
{
	int64_t v = 42;

	(void)state;
	assert_true(span_i64(SPAN_LIT("-9223372036854775808"), &v));
	assert_true(v == INT64_MIN);
	assert_true(span_i64(SPAN_LIT("9223372036854775807"), &v));
	assert_true(v == INT64_MAX);
	assert_true(span_i64(SPAN_LIT("-0"), &v));
	assert_int_equal(v, 0);
	v = 42;
	assert_false(span_i64(SPAN_LIT("-9223372036854775809"), &v));
	assert_false(span_i64(SPAN_LIT("9223372036854775808"), &v));
	assert_false(span_i64(SPAN_LIT("-"), &v));
	assert_false(span_i64(SPAN_LIT("--1"), &v));
	assert_false(span_i64(SPAN_LIT(""), &v));
	assert_int_equal(v, 42);
}

static void span_hex_knows_its_limits(void **state)
{
	uint64_t v = 42;

	(void)state;
	assert_true(span_hex_u64(SPAN_LIT("dEadBEEF09"), &v));
	assert_true(v == 0xdeadbeef09u);
	assert_true(span_hex_u64(SPAN_LIT("ffffffffffffffff"), &v));
	assert_true(v == UINT64_MAX);
	v = 42;
	assert_false(span_hex_u64(SPAN_LIT("10000000000000000"), &v));
	assert_false(span_hex_u64(SPAN_LIT("0x10"), &v));
	assert_false(span_hex_u64(SPAN_LIT("g"), &v));
	assert_false(span_hex_u64(SPAN_LIT("\x10"), &v)); /* '0' but for one bit */
	assert_false(span_hex_u64(SPAN_LIT("\xc1"), &v));
	assert_false(span_hex_u64(SPAN_LIT(""), &v));
	assert_int_equal(v, 42);
}

static void span_copies_whole_or_not(void **state)
{
	char dst[4] = "zzz";
	char *copy;

	(void)state;
	assert_false(span_copy(SPAN_LIT("abcd"), dst, sizeof(dst)));
	assert_string_equal(dst, "zzz");
	assert_true(span_copy(SPAN_LIT("abc"), dst, sizeof(dst)));
	assert_string_equal(dst, "abc");
	assert_true(span_copy((struct span){ NULL, 0 }, dst, 1));
	assert_string_equal(dst, "");
	assert_false(span_copy((struct span){ NULL, 0 }, dst, 0));
	copy = span_dup(SPAN_LIT("abc"));
	assert_string_equal(copy, "abc");
	free(copy);
	copy = span_dup((struct span){ NULL, 0 });
	assert_string_equal(copy, "");
	free(copy);
	assert_null(span_dup(SPAN_LIT("a\0b"))); /* what follows a NUL must not get lost unseen */
}

static void span_secrets_differ_everywhere(void **state)
{
	char secret[] = "correct horse battery";

	(void)state;
	for (size_t i = 0; i < sizeof(secret) - 1; i++) {
		char other[sizeof(secret)];

		memcpy(other, secret, sizeof(secret));
		other[i] ^= 1;
		assert_false(span_eq_secret(span_str(other), span_str(secret)));
		assert_false(span_eq_secret(span_of(secret, i), span_str(secret)));
		assert_false(span_eq_secret(span_str(secret), span_of(secret, i)));
	}
	assert_true(span_eq_secret(span_str(secret), SPAN_LIT("correct horse battery")));
	/* a repetition must not pass for the thing repeated */
	assert_false(span_eq_secret(SPAN_LIT("abab"), SPAN_LIT("ab")));
	assert_false(span_eq_secret(SPAN_LIT("x"), (struct span){ NULL, 0 }));
	assert_false(span_eq_secret((struct span){ NULL, 0 }, SPAN_LIT("x")));
}

/* ---- buf ---- */

static void buf_grows_to_its_maximum(void **state)
{
	struct buf b = BUF_INIT(1000);

	(void)state;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(buf_add_char(&b, (char)('a' + i % 26)), 0);
	assert_int_equal(b.len, 1000);
	assert_true(b.cap <= 1000);
	assert_false(buf_failed(&b));
	assert_int_equal(buf_add_char(&b, 'x'), -EMSGSIZE);
	assert_true(buf_failed(&b));
	assert_int_equal(b.len, 1000);
	assert_int_equal(b.data[999], 'a' + 999 % 26);
	buf_free(&b);
	assert_null(b.data);
	assert_int_equal(b.max, 1000); /* usable again, with its limit */
	assert_int_equal(buf_add_str(&b, "again"), 0);
	buf_free(&b);
}

static void buf_remembers_the_first_failure(void **state)
{
	struct buf b = BUF_INIT(4);

	(void)state;
	assert_int_equal(buf_add_str(&b, "12345"), -EMSGSIZE);
	assert_int_equal(b.len, 0);
	assert_int_equal(buf_add_str(&b, "1"), -EMSGSIZE); /* no holes: nothing after it either */
	assert_null(buf_cstr(&b));
	assert_null(buf_take(&b, NULL));
	buf_clear(&b);
	assert_int_equal(buf_add_str(&b, "1234"), 0);
	assert_null(buf_cstr(&b)); /* the NUL does not fit */
	buf_free(&b);
}

static void buf_reserve_survives_absurd_sizes(void **state)
{
	struct buf b = BUF_INIT(SIZE_MAX);

	(void)state;
	assert_int_equal(buf_add_str(&b, "x"), 0);
	assert_int_equal(buf_reserve(&b, SIZE_MAX), -EMSGSIZE);
	assert_true(buf_failed(&b));
	assert_true(span_is(buf_span(&b), "x"));
	buf_free(&b);
	b = BUF_INIT(0);
	assert_int_equal(buf_reserve(&b, 0), 0);
	assert_int_equal(buf_add(&b, NULL, 0), 0);
	assert_int_equal(buf_add_span(&b, (struct span){ NULL, 0 }), 0);
	assert_int_equal(buf_add_char(&b, 'x'), -EMSGSIZE);
	buf_free(&b);
	buf_free(NULL);
}

static void buf_prints(void **state)
{
	AUTO(buf_free) struct buf *b = &BUF_INIT(64);

	(void)state;
	assert_int_equal(buf_printf(b, "%s=%d;", "a", 1), 0);
	assert_int_equal(buf_add_u64(b, 0), 0);
	assert_int_equal(buf_add_char(b, ';'), 0);
	assert_int_equal(buf_add_u64(b, UINT64_MAX), 0);
	assert_string_equal(buf_cstr(b), "a=1;0;18446744073709551615");
	assert_int_equal(buf_printf(b, "%100d", 1), -EMSGSIZE);
	assert_true(buf_failed(b));
	assert_int_equal(b->len, strlen("a=1;0;18446744073709551615"));
}

static void buf_consumes_from_the_front(void **state)
{
	AUTO(buf_free) struct buf *b = &BUF_INIT(64);

	(void)state;
	buf_consume(b, 5); /* nothing there */
	assert_int_equal(buf_add_str(b, "hello world"), 0);
	buf_consume(b, 0);
	buf_consume(b, 6);
	assert_true(span_is(buf_span(b), "world"));
	buf_consume(b, SIZE_MAX);
	assert_int_equal(b->len, 0);
}

static void buf_take_gives_away(void **state)
{
	struct buf b = BUF_INIT(64);
	size_t len = 99;
	char *p;

	(void)state;
	p = buf_take(&b, &len);
	assert_string_equal(p, "");
	assert_int_equal(len, 0);
	free(p);
	assert_int_equal(buf_add(&b, "a\0b", 3), 0);
	p = buf_take(&b, &len);
	assert_int_equal(len, 3);
	assert_memory_equal(p, "a\0b", 4);
	assert_null(b.data);
	assert_int_equal(b.max, 64);
	free(p);
}

/* ---- arena ---- */

static void arena_aligns_and_does_not_overlap(void **state)
{
	struct arena a = ARENA_INIT(KIB(64));
	unsigned char *p[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(p); i++) {
		p[i] = arena_alloc(&a, i);
		assert_non_null(p[i]);
		assert_int_equal((uintptr_t)p[i] % _Alignof(max_align_t), 0);
		memset(p[i], (int)i, i);
	}
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		for (size_t k = 0; k < i; k++)
			assert_int_equal(p[i][k], i);
	arena_free(&a);
	assert_null(a.blocks);
	arena_free(&a); /* twice does no harm */
	arena_free(NULL);
}

static void arena_is_bounded(void **state)
{
	struct arena a = ARENA_INIT(KIB(8));
	size_t got = 0;

	(void)state;
	assert_null(arena_alloc(&a, KIB(8) + 1));
	while (got < MIB(1) && arena_alloc(&a, 100) != NULL)
		got += 100;
	assert_true(got >= KIB(6));
	assert_true(got <= KIB(8) + KIB(1)); /* at most one block more */
	arena_free(&a);
	assert_non_null(arena_alloc(&a, KIB(8))); /* all of it again */
	arena_free(&a);
}

static void arena_survives_absurd_sizes(void **state)
{
	struct arena a = ARENA_INIT(SIZE_MAX);

	(void)state;
	for (size_t i = 0; i < 16; i++) /* those malloc must never see */
		assert_null(arena_alloc(&a, SIZE_MAX - i));
	assert_null(arena_zalloc(&a, SIZE_MAX));
	assert_null(arena_dup(&a, span_of("x", SIZE_MAX)));
	assert_non_null(arena_alloc(&a, 1));
	assert_null(arena_alloc(&a, SIZE_MAX - 15));
	arena_free(&a);
}

static void arena_copies(void **state)
{
	struct arena a = ARENA_INIT(KIB(4));
	char *p = arena_zalloc(&a, 100);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(p[i], 0);
	assert_string_equal(arena_strdup(&a, "abc"), "abc");
	assert_string_equal(arena_dup(&a, (struct span){ NULL, 0 }), "");
	assert_memory_equal(arena_dup(&a, SPAN_LIT("a\0b")), "a\0b", 4);
	assert_string_equal(arena_printf(&a, "%d-%s", 7, "x"), "7-x");
	assert_null(arena_printf(&a, "%5000d", 1));
	arena_free(&a);
}

/* ---- list ---- */

struct item {
	int n;
	struct list node;
};

static void list_keeps_order(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[4] = { { .n = 0 }, { .n = 1 }, { .n = 2 }, { .n = 3 } };
	int expect = 0;

	(void)state;
	assert_true(list_empty(&head));
	assert_null(LIST_FIRST(&head, struct item, node));
	list_push_back(&head, &items[1].node);
	list_push_back(&head, &items[2].node);
	list_push_front(&head, &items[0].node);
	list_push_back(&head, &items[3].node);
	assert_ptr_equal(LIST_FIRST(&head, struct item, node), &items[0]);
	list_for_each (it, &head)
		assert_int_equal(LIST_ENTRY(it, struct item, node)->n, expect++);
	assert_int_equal(expect, 4);
}

static void list_removes_while_walking(void **state)
{
	struct list head = LIST_INIT(head);
	struct item items[5] = { 0 };
	int left = 0;

	(void)state;
	for (int i = 0; i < 5; i++) {
		items[i].n = i;
		list_push_back(&head, &items[i].node);
	}
	list_for_each_safe (it, &head) {
		if (LIST_ENTRY(it, struct item, node)->n % 2 == 0)
			list_remove(it);
	}
	list_for_each (it, &head)
		left = left * 10 + LIST_ENTRY(it, struct item, node)->n;
	assert_int_equal(left, 13);
	list_remove(&items[1].node);
	list_remove(&items[1].node); /* twice does no harm */
	list_remove(&items[3].node);
	assert_true(list_empty(&head));
	assert_true(list_empty(&items[3].node));
}

/* ---- map ---- */

static void map_puts_gets_removes(void **state)
{
	struct map m;
	int a, b;
	void *old = &a;

	(void)state;
	map_init(&m);
	assert_null(map_get(&m, SPAN_LIT("k")));
	assert_null(map_remove(&m, SPAN_LIT("k")));
	assert_int_equal(map_put(&m, SPAN_LIT("k"), &a, &old), 0);
	assert_null(old);
	assert_int_equal(map_put(&m, SPAN_LIT("k"), &b, &old), 0);
	assert_ptr_equal(old, &a);
	assert_int_equal(m.count, 1);
	assert_ptr_equal(map_get(&m, SPAN_LIT("k")), &b);
	assert_null(map_get(&m, SPAN_LIT("kk")));
	assert_ptr_equal(map_remove(&m, SPAN_LIT("k")), &b);
	assert_int_equal(m.count, 0);
	assert_null(map_get(&m, SPAN_LIT("k")));
	map_free(&m);
	map_free(&m);
}

static void map_takes_any_bytes_as_key(void **state)
{
	struct map m;
	int values[4];

	(void)state;
	map_init(&m);
	assert_int_equal(map_put(&m, (struct span){ NULL, 0 }, &values[0], NULL), 0);
	assert_int_equal(map_put(&m, SPAN_LIT("\0"), &values[1], NULL), 0);
	assert_int_equal(map_put(&m, SPAN_LIT("\0\0"), &values[2], NULL), 0);
	assert_int_equal(map_put(&m, SPAN_LIT("12345678"), &values[3], NULL), 0);
	assert_ptr_equal(map_get(&m, (struct span){ NULL, 0 }), &values[0]);
	assert_ptr_equal(map_get(&m, SPAN_LIT("")), &values[0]);
	assert_ptr_equal(map_get(&m, SPAN_LIT("\0")), &values[1]);
	assert_ptr_equal(map_get(&m, SPAN_LIT("\0\0")), &values[2]);
	assert_ptr_equal(map_get(&m, SPAN_LIT("12345678")), &values[3]);
	assert_null(map_get(&m, SPAN_LIT("1234567")));
	assert_ptr_equal(map_remove(&m, (struct span){ NULL, 0 }), &values[0]);
	map_free(&m);
}

static void map_holds_many(void **state)
{
	static int values[5000];
	struct map_cursor cursor = { 0 };
	struct span key;
	struct map m;
	char name[16];
	size_t seen = 0;
	int *v;

	(void)state;
	map_init(&m);
	for (int i = 0; i < 5000; i++) {
		(void)snprintf(name, sizeof(name), "key-%d", i);
		values[i] = i;
		assert_int_equal(map_put(&m, span_str(name), &values[i], NULL), 0);
	}
	memset(name, 0, sizeof(name)); /* the map has its own copies */
	assert_int_equal(m.count, 5000);
	while ((v = map_next(&m, &cursor, &key)) != NULL) {
		(void)snprintf(name, sizeof(name), "key-%d", *v);
		assert_true(span_is(key, name));
		seen++;
		if (*v % 2 == 0) /* the entry just seen may go */
			assert_ptr_equal(map_remove(&m, span_str(name)), v);
	}
	assert_int_equal(seen, 5000);
	assert_int_equal(m.count, 2500);
	for (int i = 0; i < 5000; i++) {
		(void)snprintf(name, sizeof(name), "key-%d", i);
		v = map_get(&m, span_str(name));
		assert_ptr_equal(v, i % 2 == 0 ? NULL : &values[i]);
	}
	map_free(&m);
	cursor = (struct map_cursor){ 0 };
	assert_null(map_next(&m, &cursor, NULL));
}

static void map_order_differs_between_maps(void **state)
{
	struct map_cursor ca = { 0 }, cb = { 0 };
	struct map a, b;
	bool same = true;
	static int values[64];

	(void)state;
	map_init(&a);
	map_init(&b);
	for (int i = 0; i < 64; i++) {
		struct span key = span_of(&values[i], sizeof(values[i]));

		values[i] = i;
		assert_int_equal(map_put(&a, key, &values[i], NULL), 0);
		assert_int_equal(map_put(&b, key, &values[i], NULL), 0);
	}
	for (int i = 0; i < 64; i++)
		same = same && map_next(&a, &ca, NULL) == map_next(&b, &cb, NULL);
	assert_false(same); /* the seed is in use: nobody can aim at a bucket */
	map_free(&a);
	map_free(&b);
}

/* ---- rand ---- */

static void rand_ids_look_as_documented(void **state)
{
	char uuid[RAND_UUID_SIZE], hex[2 * 100 + 1], token[4 * 10 + 1];

	(void)state;
	for (int i = 0; i < 1000; i++) {
		rand_uuid(uuid);
		assert_int_equal(strlen(uuid), 36);
		assert_int_equal(strspn(uuid, "0123456789abcdef-"), 36);
		for (int at = 8; at <= 23; at += 5)
			assert_int_equal(uuid[at], '-');
		assert_int_equal(uuid[14], '4');
		assert_non_null(strchr("89ab", uuid[19]));
	}
	rand_hex(hex, 100);
	assert_int_equal(strlen(hex), 200);
	assert_int_equal(strspn(hex, "0123456789abcdef"), 200);
	rand_hex(hex, 0);
	assert_string_equal(hex, "");
	rand_token(token, 30);
	assert_int_equal(strlen(token), 40);
	assert_int_equal(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789-_"),
			 40);
}

static void rand_does_not_repeat(void **state)
{
	char a[RAND_UUID_SIZE], b[RAND_UUID_SIZE];
	unsigned seen = 0;
	uint64_t set = 0;

	(void)state;
	rand_uuid(a);
	rand_uuid(b);
	assert_string_not_equal(a, b);
	assert_true(rand_u64() != rand_u64());
	/* every bit of 64 draws is set at least once: fails by chance once in 2^58 runs */
	for (int i = 0; i < 64; i++)
		set |= rand_u64();
	for (uint64_t bit = set; bit != 0; bit >>= 1)
		seen += (unsigned)(bit & 1);
	assert_int_equal(seen, 64);
	rand_bytes(NULL, 0);
}

/* ---- path ---- */

static void path_joins(void **state)
{
	char out[8];

	(void)state;
	assert_int_equal(path_join(out, sizeof(out), "a/b", "c"), 0);
	assert_string_equal(out, "a/b/c");
	assert_int_equal(path_join(out, sizeof(out), "/", "c"), 0);
	assert_string_equal(out, "/c");
	assert_int_equal(path_join(out, sizeof(out), "a", "/c"), 0);
	assert_string_equal(out, "/c");
	assert_int_equal(path_join(out, sizeof(out), "", "c"), 0);
	assert_string_equal(out, "c");
	assert_int_equal(path_join(out, sizeof(out), "abc", "def"), 0); /* 7 and the NUL */
	assert_int_equal(path_join(out, sizeof(out), "abc", "defg"), -ENAMETOOLONG);
}

static void path_cleans(void **state)
{
	static const struct {
		const char *cwd, *path, *clean;
	} cases[] = {
		{ "/w", "", "/w" },
		{ "/w", ".", "/w" },
		{ "/w", "a", "/w/a" },
		{ "/w", "/a", "/a" },
		{ "/w/", "a//b/./c/", "/w/a/b/c" },
		{ "/w", "..", "/" },
		{ "/w", "../../../etc/passwd", "/etc/passwd" },
		{ "/", "/..", "/" },
		{ "/", "/../../..", "/" },
		{ "/", "/a/../../b", "/b" },
		{ "/", "/a/b/c/../../d", "/a/d" },
		{ "/", "//", "/" },
		{ "/", "/...", "/..." },
		{ "/", "/..a/.b/c..", "/..a/.b/c.." },
		{ "/", "/a/..b/../c", "/a/c" },
		{ "/x/../y", "z", "/y/z" },
	};
	char out[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(path_clean(out, sizeof(out), cases[i].cwd, cases[i].path), 0);
		assert_string_equal(out, cases[i].clean);
	}
}

static void path_clean_stays_in_its_buffer(void **state)
{
	char out[9] = "";

	(void)state;
	assert_int_equal(path_clean(out, 8, "/", "/abcdef"), 0); /* 7 and the NUL */
	assert_string_equal(out, "/abcdef");
	assert_int_equal(path_clean(out, 8, "/", "/abcdefg"), -ENAMETOOLONG);
	assert_int_equal(path_clean(out, 8, "/abcdefg", "x"), -ENAMETOOLONG);
	assert_int_equal(out[8], '\0');
	assert_int_equal(path_clean(out, 1, "/", "/"), -ENAMETOOLONG);
	assert_int_equal(path_clean(out, 0, "/", "/"), -ENAMETOOLONG);
	assert_int_equal(path_clean(out, 2, "/", "/"), 0);
	assert_string_equal(out, "/");
}

static void path_below_minds_the_slash(void **state)
{
	(void)state;
	assert_true(path_below("/a", "/a"));
	assert_true(path_below("/a/b", "/a"));
	assert_true(path_below("/a", "/"));
	assert_true(path_below("/", "/"));
	assert_false(path_below("/ab", "/a"));
	assert_false(path_below("/", "/a"));
	assert_false(path_below("/b/a", "/a"));
	assert_false(path_below("a", "/"));
	assert_false(path_below("/etc", "")); /* nothing lies below a directory without a name */
}

static void path_names_and_parts(void **state)
{
	char out[8], name[256];

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_true(path_is_name(SPAN_LIT("a")));
	assert_true(path_is_name(SPAN_LIT("...")));
	assert_true(path_is_name(span_of(name, 255)));
	assert_false(path_is_name(span_of(name, 256)));
	assert_false(path_is_name(SPAN_LIT("")));
	assert_false(path_is_name((struct span){ NULL, 0 }));
	assert_false(path_is_name(SPAN_LIT(".")));
	assert_false(path_is_name(SPAN_LIT("..")));
	assert_false(path_is_name(SPAN_LIT("a/b")));
	assert_false(path_is_name(SPAN_LIT("a\0b")));
	assert_string_equal(path_base("/a/b"), "b");
	assert_string_equal(path_base("b"), "b");
	assert_string_equal(path_base("/"), "");
	assert_int_equal(path_dir(out, sizeof(out), "/a/b"), 0);
	assert_string_equal(out, "/a");
	assert_int_equal(path_dir(out, sizeof(out), "/a"), 0);
	assert_string_equal(out, "/");
	assert_int_equal(path_dir(out, sizeof(out), "a"), 0);
	assert_string_equal(out, ".");
	assert_int_equal(path_dir(out, 2, "/a/b"), -ENAMETOOLONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_says_code_and_words),
		cmocka_unit_test(err_never_reads_as_success),
		cmocka_unit_test(err_sys_and_code_add_the_reason),
		cmocka_unit_test(err_wrap_puts_words_in_front),
		cmocka_unit_test(err_takes_null),
		cmocka_unit_test(err_cuts_long_words),
		cmocka_unit_test(take_leaves_nothing_behind),
		cmocka_unit_test(autofd_closes_and_keeps_errno),
		cmocka_unit_test(span_compares),
		cmocka_unit_test(span_finds_and_cuts),
		cmocka_unit_test(span_trims_blanks_only),
		cmocka_unit_test(span_u64_takes_digits_only),
		cmocka_unit_test(span_i64_knows_its_limits),
		cmocka_unit_test(span_hex_knows_its_limits),
		cmocka_unit_test(span_copies_whole_or_not),
		cmocka_unit_test(span_secrets_differ_everywhere),
		cmocka_unit_test(buf_grows_to_its_maximum),
		cmocka_unit_test(buf_remembers_the_first_failure),
		cmocka_unit_test(buf_reserve_survives_absurd_sizes),
		cmocka_unit_test(buf_prints),
		cmocka_unit_test(buf_consumes_from_the_front),
		cmocka_unit_test(buf_take_gives_away),
		cmocka_unit_test(arena_aligns_and_does_not_overlap),
		cmocka_unit_test(arena_is_bounded),
		cmocka_unit_test(arena_survives_absurd_sizes),
		cmocka_unit_test(arena_copies),
		cmocka_unit_test(list_keeps_order),
		cmocka_unit_test(list_removes_while_walking),
		cmocka_unit_test(map_puts_gets_removes),
		cmocka_unit_test(map_takes_any_bytes_as_key),
		cmocka_unit_test(map_holds_many),
		cmocka_unit_test(map_order_differs_between_maps),
		cmocka_unit_test(rand_ids_look_as_documented),
		cmocka_unit_test(rand_does_not_repeat),
		cmocka_unit_test(path_joins),
		cmocka_unit_test(path_cleans),
		cmocka_unit_test(path_clean_stays_in_its_buffer),
		cmocka_unit_test(path_below_minds_the_slash),
		cmocka_unit_test(path_names_and_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
