/* Single values that clients write: amounts, labels, paths, times. The input is all of these at
 * once. What is understood can be written in the plainest form and means the same then; what is not
 * leaves the result alone. */
#include "check.h"

#include "base/clock.h"
#include "base/path.h"
#include "policy/hostpath.h"
#include "policy/label.h"
#include "policy/quantity.h"

#define UNTOUCHED    0xa5a5a5a5u
#define YEAR_1_US    (INT64_C(-62135596800) * 1000000)
#define YEAR_9999_US (INT64_C(253402300800) * 1000000)

static void fuzz_quantity(struct span text)
{
	char plain[32];
	uint32_t milli = UNTOUCHED, count = UNTOUCHED, again;
	uint64_t bytes = UNTOUCHED, same;
	struct err e = ERR_INIT;

	if (quantity_cpu(text, &milli, &e) == 0) {
		CHECK(milli > 0);
		(void)snprintf(plain, sizeof(plain), "%um", milli);
		CHECK(quantity_cpu(span_str(plain), &again, &e) == 0 && again == milli);
	} else {
		CHECK(milli == UNTOUCHED && e.msg[0] != '\0');
	}
	if (quantity_bytes(text, &bytes, &e) == 0) {
		CHECK(bytes > 0);
		(void)snprintf(plain, sizeof(plain), "%llu", (unsigned long long)bytes);
		if (bytes < UINT64_C(1000000000000000000))
			CHECK(quantity_bytes(span_str(plain), &same, &e) == 0 && same == bytes);
	} else {
		CHECK(bytes == UNTOUCHED);
	}
	if (quantity_count(text, &count, &e) == 0) {
		CHECK(count > 0);
		/* a plain number is an amount of everything */
		CHECK(quantity_bytes(text, &same, &e) < 0 || same == count);
	} else {
		CHECK(count == UNTOUCHED);
	}
}

static bool has_only(struct span s, const char *chars)
{
	for (size_t i = 0; i < s.len; i++)
		if (s.p[i] == '\0' || strchr(chars, s.p[i]) == NULL)
			return false;
	return true;
}

static void fuzz_label(struct span text)
{
	static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	static const char any[] = "abcdefghijklmnopqrstuvwxyz0123456789-_."
				  "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	struct span value = text, key = span_cut(&value, '=');
	struct err e = ERR_INIT;

	if (label_is_dns(text, 63))
		CHECK(text.len > 0 && text.len <= 63 && has_only(text, lower) &&
		      label_is_value(text) && label_is_key(text));
	if (label_is_value(text))
		CHECK(text.len <= 63 && has_only(text, any));
	if (label_is_key(text)) {
		struct span name = text, prefix = span_cut(&name, '/');

		if (name.p == NULL) {
			name = prefix;
			prefix = SPAN_LIT("a");
		}
		CHECK(name.len > 0 && label_is_value(name));
		CHECK(prefix.len > 0 && prefix.len <= 253 && has_only(prefix, any));
	}
	if (value.p != NULL && label_check(key, value, &e) == 0)
		CHECK(label_is_key(key) && label_is_value(value) && !label_is_reserved(key));
}

static void fuzz_path(const char *text)
{
	char clean[4096], below[4200];
	const char *all = text;

	CHECK(!hostpath_allowed(text, NULL, 0));
	if (hostpath_is_clean(text)) {
		CHECK(path_clean(clean, sizeof(clean), "/", text) >= 0 && strcmp(clean, text) == 0);
		CHECK(hostpath_allowed(text, &all, 1));
		(void)snprintf(below, sizeof(below), "%s/x", text);
		CHECK(hostpath_allowed(below, &all, 1));
		/* a longer name is another one */
		(void)snprintf(below, sizeof(below), "%sx", text);
		CHECK(!hostpath_allowed(below, &all, 1));
	}
	if (hostpath_is_sub(text)) {
		(void)snprintf(below, sizeof(below), "/top/%s", text);
		CHECK(path_clean(clean, sizeof(clean), "/", below) >= 0);
		CHECK(strcmp(clean, below) == 0 && path_below(clean, "/top"));
	}
}

static void fuzz_time(struct span text)
{
	char out[CLOCK_RFC3339_SIZE], plain[32];
	int64_t us = UNTOUCHED, s = UNTOUCHED, same;
	uint64_t ms = UNTOUCHED, again;

	if (!clock_parse_rfc3339(text, &us)) {
		CHECK(us == UNTOUCHED);
		/* an offset can lead out of these years */
	} else if (us >= YEAR_1_US && us < YEAR_9999_US) {
		size_t n = clock_rfc3339(us, out);

		CHECK(n == strlen(out) && clock_parse_rfc3339(span_of(out, n), &same) &&
		      same == us);
	}
	if (!clock_parse_http(text, &s)) {
		CHECK(s == UNTOUCHED);
	} else if (s < YEAR_9999_US / 1000000) {
		char date[CLOCK_HTTP_SIZE];

		CHECK(clock_http(s, date) == strlen(date));
		CHECK(clock_parse_http(span_str(date), &same) && same == s);
	}
	if (!clock_parse_duration(text, &ms)) {
		CHECK(ms == UNTOUCHED);
	} else {
		(void)snprintf(plain, sizeof(plain), "%llums", (unsigned long long)ms);
		CHECK(clock_parse_duration(span_str(plain), &again) && again == ms);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	autofree char *copy = NULL, *string = NULL;
	struct span text;

	if (size > 4096)
		return 0;
	copy = check_copy(data, size);
	text = span_of(copy, size);
	fuzz_quantity(text);
	fuzz_label(text);
	fuzz_time(text);
	string = memchr(copy, '\0', size) == NULL && size < 4000 ? span_dup(text) : NULL;
	if (string != NULL)
		fuzz_path(string);
	return 0;
}
