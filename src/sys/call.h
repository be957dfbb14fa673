/* System calls that glibc 2.36 has no function for. Each returns -1 and errno like its kin. */
#ifndef OSB_SYS_CALL_H
#define OSB_SYS_CALL_H

#include <fcntl.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static inline pid_t call_clone3(struct clone_args *args)
{
	return (pid_t)syscall(SYS_clone3, args, sizeof(*args));
}

static inline int call_openat2(int dir_fd, const char *path, struct open_how *how)
{
	return (int)syscall(SYS_openat2, dir_fd, path, how, sizeof(*how));
}

static inline int call_pivot_root(const char *new_root, const char *put_old)
{
	return (int)syscall(SYS_pivot_root, new_root, put_old);
}

static inline int call_seccomp(unsigned op, unsigned flags, void *args)
{
	return (int)syscall(SYS_seccomp, op, flags, args);
}

static inline long call_keyctl(int op, unsigned long a, unsigned long b)
{
	return syscall(SYS_keyctl, op, a, b, 0UL, 0UL);
}

static inline int call_quotactl_fd(int fd, unsigned cmd, unsigned id, void *addr)
{
	return (int)syscall(SYS_quotactl_fd, fd, cmd, id, addr);
}

#endif
