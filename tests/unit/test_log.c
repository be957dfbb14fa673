/* One event is one line, whatever bytes a client put into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/span.h"
#include "base/util.h"

static char line[KIB(64)];
static size_t line_len;

/* What the log wrote since the last call. */
static void read_line(int fd)
{
	ssize_t n = pread(fd, line, sizeof(line) - 1, 0);

	assert_true(n >= 0);
	line_len = (size_t)n;
	line[line_len] = '\0';
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
}

static int setup(void **state)
{
	int *fd = malloc(sizeof(*fd));

	if (fd == NULL)
		return -1;
	*fd = memfd_create("log", MFD_CLOEXEC);
	log_set_fd(*fd);
	*state = fd;
	return *fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	int *fd = *state;

	log_set_fd(STDERR_FILENO);
	log_setup("opensandbox", LOG_INFO, LOG_TEXT);
	fd_close(fd);
	free(fd);
	return 0;
}

/* Take one JSON string of known-safe characters off the front; false if that is not what is there:
 * no control characters, complete escapes only, no byte outside ASCII unless `high`. */
static bool take_string(struct span *s, bool high)
{
	size_t i = 1;

	if (s->len < 2 || s->p[0] != '"')
		return false;
	for (; i < s->len && s->p[i] != '"'; i++) {
		unsigned char c = (unsigned char)s->p[i];
		uint64_t v;

		if (c < 0x20 || c == 0x7f || (c >= 0x80 && !high))
			return false;
		if (c != '\\')
			continue;
		if (i + 1 < s->len && (s->p[i + 1] == '"' || s->p[i + 1] == '\\'))
			i++;
		else if (i + 5 < s->len && s->p[i + 1] == 'u' &&
			 span_hex_u64(span_of(s->p + i + 2, 4), &v))
			i += 5;
		else
			return false;
	}
	if (i >= s->len)
		return false;
	*s = span_skip(*s, i + 1);
	return true;
}

/* The whole of `line` is one object of strings, and a newline. */
static void assert_json_line(bool high)
{
	struct span s = span_of(line, line_len);
	bool good = span_starts(s, "{");

	s = span_skip(s, 1);
	while (good) {
		good = take_string(&s, high) && span_starts(s, ":");
		if (!good)
			break;
		s = span_skip(s, 1);
		good = take_string(&s, high) && s.len > 0;
		if (!good || s.p[0] != ',')
			break;
		s = span_skip(s, 1);
	}
	if (!good || !span_is(s, "}\n"))
		fail_msg("not one JSON object and a newline: %.200s ... at '%.*s'", line,
			 SPAN_FMT(s));
}

static void text_line(void **state)
{
	int fd = *(int *)*state;
	struct span rest;
	int64_t when;

	log_setup("prog", LOG_INFO, LOG_TEXT);
	log_info("sandbox started", { "id", "abc" }, { "image", "two words" }, { "none", NULL });
	read_line(fd);
	rest = span_of(line, line_len);
	assert_true(clock_parse_rfc3339(span_cut(&rest, ' '), &when));
	assert_true(span_is(rest,
			    "info  prog: sandbox started id=abc image=\"two words\" none=\"\"\n"));
}

static void json_line(void **state)
{
	int fd = *(int *)*state;

	log_setup("prog", LOG_INFO, LOG_JSON);
	log_warn("odd \"thing\"", { "path", "a\\b" });
	read_line(fd);
	assert_json_line(false);
	assert_non_null(strstr(line, "\"level\":\"warn\",\"program\":\"prog\","
				     "\"msg\":\"odd \\\"thing\\\"\",\"path\":\"a\\\\b\"}\n"));
}

static void levels(void **state)
{
	int fd = *(int *)*state;
	enum log_level level = LOG_DEBUG;

	log_setup("prog", LOG_WARN, LOG_TEXT);
	assert_true(log_enabled(LOG_ERROR));
	assert_true(log_enabled(LOG_WARN));
	assert_false(log_enabled(LOG_INFO));
	log_info("not to be seen");
	log_write(LOG_DEBUG, "nor this", NULL, 0);
	read_line(fd);
	assert_int_equal(line_len, 0);
	log_error("seen");
	read_line(fd);
	assert_true(span_ends(span_of(line, line_len), " error prog: seen\n"));
	assert_true(log_parse_level("Error", &level));
	assert_int_equal(level, LOG_ERROR);
	assert_true(log_parse_level("WARNING", &level));
	assert_int_equal(level, LOG_WARN);
	assert_true(log_parse_level("error", &level));
	assert_false(log_parse_level("loud", &level));
	assert_false(log_parse_level("", &level));
	assert_int_equal(level, LOG_ERROR);
}

static void values_cannot_forge(void **state)
{
	static const char *const hostile[] = {
		"a\nerror prog: forged",
		"a\r\n\r\n",
		"\x1b[2J",
		"\"} {\"level\":\"error\"",
		"\\",
		"\x7f",
		"a=b",
		"\\u0041\\",
		"\xc2\x9b;31m", /* the same as ESC [ to a terminal */
		"\xff\xfe",
		"\xc0\xaf",         /* overlong slash */
		"\xed\xa0\x80",     /* surrogate */
		"\xf4\x90\x80\x80", /* beyond Unicode */
		"\xe2\x82",         /* cut short */
		"\xf0\x9f\x92",
		"\x80",
	};
	int fd = *(int *)*state;

	for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
		log_setup("prog", LOG_INFO, LOG_JSON);
		log_info(hostile[i], { "value", hostile[i] });
		read_line(fd);
		assert_json_line(false);
		log_setup("prog", LOG_INFO, LOG_TEXT);
		log_info("m", { "value", hostile[i] });
		read_line(fd);
		assert_ptr_equal(strchr(line, '\n'), line + line_len - 1);
		assert_non_null(strstr(line, "prog: m value=\""));
		for (size_t k = 0; k + 1 < line_len; k++)
			assert_in_range((unsigned char)line[k], ' ', '~');
	}
}

static void text_of_all_tongues_passes(void **state)
{
	int fd = *(int *)*state;

	log_setup("prog", LOG_INFO, LOG_JSON);
	log_info("gr\xc3\xbc\xc3\x9f", { "v", "\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x92\xa1" });
	read_line(fd);
	assert_json_line(true);
	assert_non_null(strstr(line, "\"gr\xc3\xbc\xc3\x9f\""));
	assert_non_null(strstr(line, "\"\xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x92\xa1\""));
}

/* Slide a value of escapes over the limit, so that the cut falls on every kind of place. */
static void long_lines_are_cut_in_order(void **state)
{
	static char value[KIB(16)], pad[KIB(16)];
	static const char *const units[] = { "x", "\n", "\"", "\xc3\xbc", "\xf0\x9f\x92\xa1" };
	int fd = *(int *)*state;

	for (size_t u = 0; u < ARRAY_LEN(units); u++) {
		size_t len = strlen(units[u]);

		for (size_t at = 0; at + len < sizeof(value); at += len)
			memcpy(value + at, units[u], len + 1);
		for (size_t n = 8000; n < 8240; n++) {
			memset(pad, 'p', n);
			pad[n] = '\0';
			log_setup("prog", LOG_INFO, LOG_JSON);
			log_info("m", { "pad", pad }, { "a", "1" }, { "b", "\n" }, { "v", value });
			read_line(fd);
			assert_json_line(true);
			assert_true(line_len <= KIB(8));
			assert_non_null(strstr(line, " (cut)\"}\n"));
		}
	}
	log_setup("prog", LOG_INFO, LOG_TEXT);
	log_info(value, { "v", value });
	read_line(fd);
	assert_true(line_len <= KIB(8));
	assert_true(span_ends(span_of(line, line_len), " (cut)\n"));
}

static void lines_up_to_the_limit_are_whole(void **state)
{
	static char value[KIB(8)];
	size_t longest = 0, whole = 0;
	int fd = *(int *)*state;

	log_setup("prog", LOG_INFO, LOG_JSON);
	for (size_t n = 7900; n < 8190; n++) {
		memset(value, 'v', n);
		value[n] = '\0';
		log_info("m", { "v", value });
		read_line(fd);
		assert_json_line(false);
		longest = MAX(longest, line_len);
		whole += strstr(line, "(cut)") == NULL;
	}
	assert_int_equal(longest, KIB(8));
	assert_true(whole > 0);
}

static void errno_survives(void **state)
{
	log_setup("prog", LOG_INFO, LOG_TEXT);
	log_set_fd(-1);
	errno = ENOTTY;
	log_error("nowhere to go");
	assert_int_equal(errno, ENOTTY);
	log_set_fd(*(int *)*state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(text_line, setup, teardown),
		cmocka_unit_test_setup_teardown(json_line, setup, teardown),
		cmocka_unit_test_setup_teardown(levels, setup, teardown),
		cmocka_unit_test_setup_teardown(values_cannot_forge, setup, teardown),
		cmocka_unit_test_setup_teardown(text_of_all_tongues_passes, setup, teardown),
		cmocka_unit_test_setup_teardown(long_lines_are_cut_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(lines_up_to_the_limit_are_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(errno_survives, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
