/* What went wrong, in words, for the one who asked.
 *
 * No allocation: a struct err can be filled in a cloned child and sent over a socket as it stands.
 * Every setter returns -code, so that `return err_sys(e, "open %s", path);` reads well. A null
 * pointer is accepted everywhere: the caller is then interested in the number only. */
#ifndef OSB_BASE_ERR_H
#define OSB_BASE_ERR_H

#include <stdarg.h>

struct err {
	int code; /* positive errno */
	char msg[252];
};

#define ERR_INIT                     \
	(struct err)                 \
	{                            \
		.code = 0, .msg = "" \
	}

/* "msg" */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int err_vset(struct err *e, int code, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

/* "msg: strerror(errno)", code = errno */
int err_sys(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "msg: strerror(code)"; code may be given as errno or as a negative return value */
int err_code(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* "msg: <what was there>", code unchanged */
int err_wrap(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
