#include "base/clock.h"

#include <stdio.h>
#include <time.h>

static const char month_names[12][4] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
static const char day_names[7][4] = { "Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat" };

static struct timespec now(clockid_t id)
{
	struct timespec ts = { 0 };

	(void)clock_gettime(id, &ts);
	return ts;
}

uint64_t clock_mono_us(void)
{
	struct timespec ts = now(CLOCK_MONOTONIC);

	return (uint64_t)ts.tv_sec * 1000000u + (uint64_t)ts.tv_nsec / 1000u;
}

uint64_t clock_mono_ms(void)
{
	return clock_mono_us() / 1000u;
}

int64_t clock_boot_us(void)
{
	struct timespec ts = now(CLOCK_BOOTTIME);

	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_wall_us(void)
{
	struct timespec ts = now(CLOCK_REALTIME);

	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_wall_ms(void)
{
	return clock_wall_us() / 1000;
}

/* Days since 1970-01-01 of a Gregorian date and back (no time zone data, no locale, no lock). */
static int64_t days_from_date(int64_t y, int m, int d)
{
	y -= m <= 2;
	int64_t era = (y >= 0 ? y : y - 399) / 400;
	int64_t yoe = y - era * 400;
	int64_t doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;

	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

struct date {
	int year, month, day, hour, min, sec, weekday;
};

static struct date date_from_wall(int64_t s)
{
	int64_t days = s / 86400, rest = s % 86400;

	if (rest < 0) {
		rest += 86400;
		days--;
	}
	int64_t z = days + 719468;
	int64_t era = (z >= 0 ? z : z - 146096) / 146097;
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;
	int month = (int)(mp < 10 ? mp + 3 : mp - 9);

	return (struct date){
		.year = (int)(yoe + era * 400 + (month <= 2)),
		.month = month,
		.day = (int)(doy - (153 * mp + 2) / 5 + 1),
		.hour = (int)(rest / 3600),
		.min = (int)(rest / 60 % 60),
		.sec = (int)(rest % 60),
		.weekday = (int)(((days % 7) + 11) % 7), /* 1970-01-01 was a Thursday */
	};
}

size_t clock_rfc3339(int64_t wall_us, char out[CLOCK_RFC3339_SIZE])
{
	int64_t s = wall_us / 1000000, us = wall_us % 1000000;
	int n;

	if (us < 0) {
		us += 1000000;
		s--;
	}
	struct date d = date_from_wall(s);

	n = snprintf(out, CLOCK_RFC3339_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d", d.year, d.month,
		     d.day, d.hour, d.min, d.sec);
	if (us != 0)
		n += snprintf(out + n, CLOCK_RFC3339_SIZE - (size_t)n, ".%06d", (int)us);
	n += snprintf(out + n, CLOCK_RFC3339_SIZE - (size_t)n, "Z");
	return (size_t)n;
}

/* Exactly n digits at the front of *s. */
static bool take_digits(struct span *s, size_t n, int *ret)
{
	uint64_t v;

	if (s->len < n || !span_u64(span_first(*s, n), &v))
		return false;
	*ret = (int)v;
	*s = span_skip(*s, n);
	return true;
}

static bool take_char(struct span *s, const char *any_of)
{
	if (s->len == 0 || s->p[0] == '\0' || strchr(any_of, s->p[0]) == NULL)
		return false;
	*s = span_skip(*s, 1);
	return true;
}

static bool date_valid(const struct date *d)
{
	static const int lens[12] = { 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = d->year % 4 == 0 && (d->year % 100 != 0 || d->year % 400 == 0);

	if (d->year < 1 || d->month < 1 || d->month > 12 || d->day < 1)
		return false;
	if (d->day > lens[d->month - 1] || (d->month == 2 && d->day == 29 && !leap))
		return false;
	return d->hour < 24 && d->min < 60 && d->sec < 61;
}

static int64_t wall_from_date(const struct date *d)
{
	return days_from_date(d->year, d->month, d->day) * 86400 + d->hour * 3600 + d->min * 60 +
	       d->sec;
}

bool clock_parse_rfc3339(struct span s, int64_t *ret_wall_us)
{
	struct date d = { 0 };
	int64_t us = 0, offset_s = 0;

	if (!take_digits(&s, 4, &d.year) || !take_char(&s, "-") || !take_digits(&s, 2, &d.month) ||
	    !take_char(&s, "-") || !take_digits(&s, 2, &d.day) || !take_char(&s, "Tt ") ||
	    !take_digits(&s, 2, &d.hour) || !take_char(&s, ":") || !take_digits(&s, 2, &d.min) ||
	    !take_char(&s, ":") || !take_digits(&s, 2, &d.sec) || !date_valid(&d))
		return false;
	if (take_char(&s, ".,")) {
		int64_t scale = 100000;
		size_t digits = 0;

		for (; s.len > 0 && s.p[0] >= '0' && s.p[0] <= '9'; s = span_skip(s, 1)) {
			us += (s.p[0] - '0') * scale;
			scale /= 10;
			digits++;
		}
		if (digits == 0)
			return false;
	}
	if (s.len > 0 && !take_char(&s, "Zz")) {
		int sign = s.p[0] == '-' ? -1 : 1, h, m = 0;

		if (!take_char(&s, "+-") || !take_digits(&s, 2, &h))
			return false;
		if ((take_char(&s, ":") || s.len > 0) && !take_digits(&s, 2, &m))
			return false;
		if (h > 23 || m > 59)
			return false;
		offset_s = sign * (h * 3600 + m * 60);
	}
	if (s.len > 0)
		return false;
	*ret_wall_us = (wall_from_date(&d) - offset_s) * 1000000 + us;
	return true;
}

size_t clock_http(int64_t wall_s, char out[CLOCK_HTTP_SIZE])
{
	struct date d = date_from_wall(wall_s);

	(void)snprintf(out, CLOCK_HTTP_SIZE, "%s, %02d %s %04d %02d:%02d:%02d GMT",
		       day_names[d.weekday], d.day, month_names[d.month - 1], d.year % 10000,
		       d.hour, d.min, d.sec);
	return CLOCK_HTTP_SIZE - 1;
}

bool clock_parse_http(struct span s, int64_t *ret_wall_s)
{
	struct date d = { .weekday = -1 };

	if (s.len != CLOCK_HTTP_SIZE - 1)
		return false;
	for (int w = 0; w < 7 && d.weekday < 0; w++)
		if (memcmp(s.p, day_names[w], 3) == 0)
			d.weekday = w; /* a name, though nobody minds which */
	s = span_skip(s, 3);
	if (d.weekday < 0 || !take_char(&s, ",") || !take_char(&s, " "))
		return false;
	if (!take_digits(&s, 2, &d.day) || !take_char(&s, " "))
		return false;
	for (int m = 0; m < 12 && d.month == 0; m++)
		if (memcmp(s.p, month_names[m], 3) == 0)
			d.month = m + 1;
	s = span_skip(s, 3);
	if (!take_char(&s, " ") || !take_digits(&s, 4, &d.year) || !take_char(&s, " ") ||
	    !take_digits(&s, 2, &d.hour) || !take_char(&s, ":") || !take_digits(&s, 2, &d.min) ||
	    !take_char(&s, ":") || !take_digits(&s, 2, &d.sec) || !span_is(s, " GMT") ||
	    !date_valid(&d))
		return false;
	*ret_wall_s = wall_from_date(&d);
	return true;
}

bool clock_parse_duration(struct span s, uint64_t *ret_ms)
{
	static const struct {
		const char *unit;
		uint64_t ms;
	} units[] = {
		{ "ms", 1 }, { "s", 1000 }, { "m", 60000 }, { "h", 3600000 }, { "d", 86400000 }
	};
	uint64_t total = 0;

	if (s.len == 0)
		return false;
	if (span_u64(s, &total)) {
		if (__builtin_mul_overflow(total, 1000u, &total))
			return false;
		*ret_ms = total;
		return true;
	}
	while (s.len > 0) {
		size_t digits = 0, letters;
		uint64_t v, scale = 0;

		while (digits < s.len && s.p[digits] >= '0' && s.p[digits] <= '9')
			digits++;
		if (!span_u64(span_first(s, digits), &v))
			return false;
		for (letters = digits; letters < s.len; letters++)
			if (s.p[letters] < 'a' || s.p[letters] > 'z')
				break;
		for (size_t i = 0; i < sizeof(units) / sizeof(units[0]) && scale == 0; i++)
			if (span_is(span_of(s.p + digits, letters - digits), units[i].unit))
				scale = units[i].ms;
		if (scale == 0 || __builtin_mul_overflow(v, scale, &v) ||
		    __builtin_add_overflow(total, v, &total))
			return false;
		s = span_skip(s, letters);
	}
	*ret_ms = total;
	return true;
}
