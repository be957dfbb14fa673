/* Clocks that a test can set without touching the machine's: preloaded into the server, it adds to
 * the wall clock and to the time since boot what the file named by OSB_CLOCKS holds (two numbers of
 * nanoseconds, mapped, so that the test can change them at any time). Timers on these clocks are
 * set accordingly; that a change of the clock wakes them is the test's to do, as the kernel
 * does. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define MAX_FDS   1024
#define SECOND_NS INT64_C(1000000000)

static const volatile int64_t *added; /* to the wall clock, to the time since boot */
static int clock_of_fd[MAX_FDS];

__attribute__((constructor)) static void open_clocks(void)
{
	const char *path = getenv("OSB_CLOCKS");
	int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *map = fd >= 0 ? mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (map == MAP_FAILED)
		abort();
	(void)close(fd);
	added = map;
}

static int64_t added_ns(clockid_t id)
{
	return id == CLOCK_REALTIME ? added[0] : id == CLOCK_BOOTTIME ? added[1] : 0;
}

static void add(struct timespec *ts, int64_t ns)
{
	int64_t sum = (int64_t)ts->tv_sec * SECOND_NS + ts->tv_nsec + ns;

	if (sum < 1)
		sum = 1; /* 0 would take the timer back */
	ts->tv_sec = (time_t)(sum / SECOND_NS);
	ts->tv_nsec = (long)(sum % SECOND_NS);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts)
{
	int r = (int)syscall(SYS_clock_gettime, id, ts);

	if (r == 0 && added_ns(id) != 0)
		add(ts, added_ns(id));
	return r;
}

__attribute__((visibility("default"))) int timerfd_create(clockid_t id, int flags)
{
	int fd = (int)syscall(SYS_timerfd_create, id, flags);

	if (fd >= MAX_FDS)
		abort();
	if (fd >= 0)
		clock_of_fd[fd] = id;
	return fd;
}

__attribute__((visibility("default"))) int timerfd_settime(int fd, int flags,
							   const struct itimerspec *when,
							   struct itimerspec *old)
{
	struct itimerspec real = *when;

	if (when->it_value.tv_sec != 0 || when->it_value.tv_nsec != 0)
		add(&real.it_value, -added_ns(clock_of_fd[fd]));
	return (int)syscall(SYS_timerfd_settime, fd, flags, &real, old);
}
