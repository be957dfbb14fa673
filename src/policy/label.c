#include "policy/label.h"

#include <errno.h>

#include "base/util.h"

static bool is_lower_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_alnum(char c)
{
	return is_lower_alnum(c) || (c >= 'A' && c <= 'Z');
}

bool label_is_dns(struct span s, size_t max)
{
	if (s.len == 0 || s.len > max || !is_lower_alnum(s.p[0]) || !is_lower_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_lower_alnum(s.p[i]) && s.p[i] != '-')
			return false;
	return true;
}

static bool is_name(struct span s)
{
	if (s.len == 0 || s.len > 63 || !is_alnum(s.p[0]) || !is_alnum(s.p[s.len - 1]))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (!is_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

static bool is_subdomain(struct span s)
{
	struct span rest = s;

	if (s.len == 0 || s.len > 253)
		return false;
	while (rest.p != NULL)
		if (!label_is_dns(span_cut(&rest, '.'), 63))
			return false;
	return true;
}

bool label_is_key(struct span s)
{
	ptrdiff_t at = span_find(s, '/');

	if (at < 0)
		return is_name(s);
	return is_subdomain(span_first(s, (size_t)at)) && is_name(span_skip(s, (size_t)at + 1));
}

bool label_is_value(struct span s)
{
	return s.len == 0 || is_name(s);
}

bool label_is_reserved(struct span key)
{
	return span_starts(key, LABEL_RESERVED_PREFIX);
}

int label_check(struct span key, struct span value, struct err *e)
{
	int show = (int)MIN(key.len, (size_t)70);

	if (label_is_reserved(key))
		return err_set(e, EINVAL, "metadata key '%.*s' uses the reserved prefix %s", show,
			       key.p, LABEL_RESERVED_PREFIX);
	if (!label_is_key(key))
		return err_set(e, EINVAL, "metadata key '%.*s' is not a valid label key", show,
			       key.p);
	if (!label_is_value(value))
		return err_set(e, EINVAL,
			       "metadata value of '%.*s' is not a valid label value (at most 63 "
			       "letters, digits, '-', '_' or '.', a letter or digit at both ends)",
			       show, key.p);
	return 0;
}
