#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int err_vset(struct err *e, int code, const char *fmt, va_list ap)
{
	code = abs(code);
	if (code == 0)
		code = EINVAL; /* an error must never read as success */
	if (e != NULL) {
		e->code = code;
		(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	}
	return -code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_vset(e, code, fmt, ap);
	va_end(ap);
	return r;
}

static void append_reason(struct err *e, int code)
{
	/* strerrordesc_np: no locale, no lock, safe in a cloned child */
	const char *why = strerrordesc_np(abs(code));
	size_t len, room;

	if (e == NULL)
		return;
	if (why == NULL)
		why = "error";
	/* words too long give way at their end: the reason matters more than all of a path */
	len = strlen(e->msg);
	room = sizeof(e->msg) - sizeof(": ") - strlen(why);
	if (len > room)
		len = room;
	(void)snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", why);
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int code = errno;
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_vset(e, code, fmt, ap);
	va_end(ap);
	append_reason(e, r);
	return r;
}

int err_code(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = err_vset(e, code, fmt, ap);
	va_end(ap);
	append_reason(e, r);
	return r;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
	char was[sizeof(((struct err *)0)->msg)];
	va_list ap;
	size_t len;

	if (e == NULL)
		return -EIO;
	memcpy(was, e->msg, sizeof(was));
	va_start(ap, fmt);
	(void)err_vset(e, e->code, fmt, ap);
	va_end(ap);
	len = strlen(e->msg);
	(void)snprintf(e->msg + len, sizeof(e->msg) - len, ": %s", was);
	return -e->code;
}
