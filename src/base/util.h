/* Small macros that every file may use: cleanup attributes, giving away, sizes, assertions. */
#ifndef OSB_BASE_UTIL_H
#define OSB_BASE_UTIL_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/param.h> /* MIN, MAX */
#include <unistd.h>

#define ARRAY_LEN(a)                    (sizeof(a) / sizeof((a)[0]))

#define KIB(n)                          ((size_t)(n) << 10)
#define MIB(n)                          ((size_t)(n) << 20)
#define GIB(n)                          ((uint64_t)(n) << 30)

#define CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define UNUSED                          __attribute__((unused))
#define PRINTF(a, b)                    __attribute__((format(printf, a, b)))

/* AUTO(x_free) struct x *v = NULL; calls x_free(v) when v goes out of scope; x_free takes NULL. */
#define AUTO_DEFINE(fn, type)                  \
	static inline void fn##_auto(type **p) \
	{                                      \
		fn(*p);                        \
	}
#define AUTO(fn) __attribute__((cleanup(fn##_auto)))

static inline void autofree_p(void *p)
{
	free(*(void **)p);
}
#define autofree __attribute__((cleanup(autofree_p)))

/* No descriptor is -EBADF (any negative number is "none"); errno survives the close. */
static inline void autofd_p(int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		(void)close(*fd);
		errno = saved;
	}
}
#define autofd __attribute__((cleanup(autofd_p)))

/* Give away: the variable is empty afterwards, the value is the result. */
#define TAKE(p)                             \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define TAKE_FD(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -EBADF;     \
		taken_;            \
	})

static inline void fd_close(int *fd)
{
	autofd_p(fd);
	*fd = -EBADF;
}

#endif
