/* Which system calls are allowed, and which are refused with words (EPERM). A name that one of our
 * architectures lacks is left out there. Calls with a word to say about their arguments are in
 * seccomp.c. clone3 is on no list: its flags are in memory, where a filter cannot see them, and
 * ENOSYS makes every libc use clone. Neither is io_setup with its kin: of its contexts there is a
 * number for the whole machine (fs.aio-max-nr), which one sandbox could take alone; who uses them
 * does without where they are missing. Nor memfd_secret: it takes pages out of the kernel's own
 * map, which then stays in small pieces for good, and slower for everybody. */
#ifndef OSB_SANDBOX_SYSCALLS_H
#define OSB_SANDBOX_SYSCALLS_H

#include <stdint.h>
#include <sys/syscall.h>

/* Newer than the headers we may be built with; these numbers are the same everywhere. */
#ifndef __NR_cachestat
#define __NR_cachestat 451
#endif
#ifndef __NR_fchmodat2
#define __NR_fchmodat2 452
#endif
#ifndef __NR_map_shadow_stack
#define __NR_map_shadow_stack 453
#endif
#ifndef __NR_futex_wake
#define __NR_futex_wake 454
#endif
#ifndef __NR_futex_wait
#define __NR_futex_wait 455
#endif
#ifndef __NR_futex_requeue
#define __NR_futex_requeue 456
#endif
#ifndef __NR_mseal
#define __NR_mseal 462
#endif
#ifndef __NR_setxattrat
#define __NR_setxattrat 463
#endif
#ifndef __NR_getxattrat
#define __NR_getxattrat 464
#endif
#ifndef __NR_listxattrat
#define __NR_listxattrat 465
#endif
#ifndef __NR_removexattrat
#define __NR_removexattrat 466
#endif

/* clang-format off */
static const uint32_t syscalls_allowed[] = {
	__NR_accept, __NR_accept4, __NR_adjtimex, __NR_bind, __NR_brk, __NR_cachestat,
	__NR_capget, __NR_capset, __NR_chdir, __NR_chroot, __NR_clock_adjtime, __NR_clock_getres,
	__NR_clock_gettime, __NR_clock_nanosleep, __NR_close, __NR_close_range, __NR_connect,
	__NR_copy_file_range, __NR_dup, __NR_dup3, __NR_epoll_create1, __NR_epoll_ctl,
	__NR_epoll_pwait, __NR_epoll_pwait2, __NR_eventfd2, __NR_execve, __NR_execveat, __NR_exit,
	__NR_exit_group, __NR_faccessat, __NR_faccessat2, __NR_fadvise64, __NR_fallocate,
	__NR_fchdir, __NR_fchmod, __NR_fchmodat, __NR_fchmodat2, __NR_fchown, __NR_fchownat,
	__NR_fdatasync, __NR_fgetxattr, __NR_flistxattr, __NR_flock,
	__NR_fremovexattr, __NR_fsetxattr, __NR_fstat, __NR_fstatfs, __NR_fsync, __NR_ftruncate,
	__NR_futex, __NR_futex_requeue, __NR_futex_wait, __NR_futex_waitv, __NR_futex_wake,
	__NR_get_mempolicy, __NR_get_robust_list, __NR_getcpu, __NR_getcwd, __NR_getdents64,
	__NR_getegid, __NR_geteuid, __NR_getgid, __NR_getgroups, __NR_getitimer, __NR_getpeername,
	__NR_getpgid, __NR_getpid, __NR_getppid, __NR_getpriority, __NR_getrandom, __NR_getresgid,
	__NR_getresuid, __NR_getrlimit, __NR_getrusage, __NR_getsid, __NR_getsockname,
	__NR_getsockopt, __NR_gettid, __NR_gettimeofday, __NR_getuid, __NR_getxattr,
	__NR_getxattrat, __NR_inotify_add_watch, __NR_inotify_init1, __NR_inotify_rm_watch,
	__NR_ioprio_get, __NR_ioprio_set, __NR_kill, __NR_landlock_add_rule,
	__NR_landlock_create_ruleset, __NR_landlock_restrict_self, __NR_lgetxattr, __NR_linkat,
	__NR_listen, __NR_listxattr, __NR_listxattrat, __NR_llistxattr, __NR_lremovexattr,
	__NR_lseek, __NR_lsetxattr, __NR_madvise, __NR_map_shadow_stack, __NR_mbind,
	__NR_membarrier, __NR_mincore, __NR_mkdirat,
	__NR_mknodat, __NR_mlock, __NR_mlock2, __NR_mlockall, __NR_mprotect,
	__NR_mq_getsetattr, __NR_mq_notify, __NR_mq_open, __NR_mq_timedreceive, __NR_mq_timedsend,
	__NR_mq_unlink, __NR_mremap, __NR_mseal, __NR_msgctl, __NR_msgget, __NR_msgrcv,
	__NR_msgsnd, __NR_msync, __NR_munlock, __NR_munlockall, __NR_munmap, __NR_nanosleep,
	__NR_openat, __NR_openat2, __NR_pidfd_open, __NR_pidfd_send_signal, __NR_pipe2,
	__NR_pkey_alloc, __NR_pkey_free, __NR_pkey_mprotect, __NR_ppoll, __NR_pread64,
	__NR_preadv, __NR_preadv2, __NR_process_madvise, __NR_process_mrelease,
	__NR_process_vm_readv, __NR_process_vm_writev, __NR_pselect6, __NR_ptrace, __NR_pwrite64,
	__NR_pwritev, __NR_pwritev2, __NR_read, __NR_readahead, __NR_readlinkat, __NR_readv,
	__NR_recvfrom, __NR_recvmmsg, __NR_recvmsg, __NR_removexattr, __NR_removexattrat,
	__NR_renameat, __NR_renameat2, __NR_restart_syscall, __NR_rseq, __NR_rt_sigaction,
	__NR_rt_sigpending, __NR_rt_sigprocmask, __NR_rt_sigqueueinfo, __NR_rt_sigreturn,
	__NR_rt_sigsuspend, __NR_rt_sigtimedwait, __NR_rt_tgsigqueueinfo,
	__NR_sched_get_priority_max, __NR_sched_get_priority_min, __NR_sched_getaffinity,
	__NR_sched_getattr, __NR_sched_getparam, __NR_sched_getscheduler,
	__NR_sched_rr_get_interval, __NR_sched_setaffinity, __NR_sched_setattr,
	__NR_sched_setparam, __NR_sched_setscheduler, __NR_sched_yield, __NR_seccomp, __NR_semctl,
	__NR_semget, __NR_semop, __NR_semtimedop, __NR_sendfile, __NR_sendmmsg, __NR_sendmsg,
	__NR_sendto, __NR_set_mempolicy, __NR_set_mempolicy_home_node, __NR_set_robust_list,
	__NR_set_tid_address, __NR_setfsgid, __NR_setfsuid, __NR_setgid, __NR_setgroups,
	__NR_setitimer, __NR_setpgid, __NR_setpriority, __NR_setregid, __NR_setresgid,
	__NR_setresuid, __NR_setreuid, __NR_setsid, __NR_setuid,
	__NR_setxattr, __NR_setxattrat, __NR_shmat, __NR_shmctl, __NR_shmdt,
	__NR_shutdown, __NR_sigaltstack, __NR_signalfd4, __NR_socketpair, __NR_splice,
	__NR_statfs, __NR_statx, __NR_symlinkat, __NR_sync, __NR_sync_file_range, __NR_syncfs,
	__NR_sysinfo, __NR_tee, __NR_tgkill, __NR_timer_create, __NR_timer_delete,
	__NR_timer_getoverrun, __NR_timer_gettime, __NR_timer_settime, __NR_timerfd_create,
	__NR_timerfd_gettime, __NR_timerfd_settime, __NR_times, __NR_tkill, __NR_truncate,
	__NR_umask, __NR_uname, __NR_unlinkat, __NR_utimensat, __NR_vmsplice, __NR_wait4,
	__NR_waitid, __NR_write, __NR_writev,
#ifdef __NR_access
	__NR_access,
#endif
#ifdef __NR_alarm
	__NR_alarm,
#endif
#ifdef __NR_arch_prctl
	__NR_arch_prctl,
#endif
#ifdef __NR_chmod
	__NR_chmod,
#endif
#ifdef __NR_chown
	__NR_chown,
#endif
#ifdef __NR_creat
	__NR_creat,
#endif
#ifdef __NR_dup2
	__NR_dup2,
#endif
#ifdef __NR_epoll_create
	__NR_epoll_create,
#endif
#ifdef __NR_epoll_wait
	__NR_epoll_wait,
#endif
#ifdef __NR_eventfd
	__NR_eventfd,
#endif
#ifdef __NR_fork
	__NR_fork,
#endif
#ifdef __NR_futimesat
	__NR_futimesat,
#endif
#ifdef __NR_getdents
	__NR_getdents,
#endif
#ifdef __NR_getpgrp
	__NR_getpgrp,
#endif
#ifdef __NR_inotify_init
	__NR_inotify_init,
#endif
#ifdef __NR_lchown
	__NR_lchown,
#endif
#ifdef __NR_link
	__NR_link,
#endif
#ifdef __NR_lstat
	__NR_lstat,
#endif
#ifdef __NR_mkdir
	__NR_mkdir,
#endif
#ifdef __NR_mknod
	__NR_mknod,
#endif
#ifdef __NR_newfstatat
	__NR_newfstatat,
#endif
#ifdef __NR_open
	__NR_open,
#endif
#ifdef __NR_pause
	__NR_pause,
#endif
#ifdef __NR_pipe
	__NR_pipe,
#endif
#ifdef __NR_poll
	__NR_poll,
#endif
#ifdef __NR_readlink
	__NR_readlink,
#endif
#ifdef __NR_rename
	__NR_rename,
#endif
#ifdef __NR_rmdir
	__NR_rmdir,
#endif
#ifdef __NR_select
	__NR_select,
#endif
#ifdef __NR_signalfd
	__NR_signalfd,
#endif
#ifdef __NR_stat
	__NR_stat,
#endif
#ifdef __NR_symlink
	__NR_symlink,
#endif
#ifdef __NR_time
	__NR_time,
#endif
#ifdef __NR_unlink
	__NR_unlink,
#endif
#ifdef __NR_utime
	__NR_utime,
#endif
#ifdef __NR_utimes
	__NR_utimes,
#endif
#ifdef __NR_vfork
	__NR_vfork,
#endif
};

static const uint32_t syscalls_refused[] = {
	__NR_acct, __NR_add_key, __NR_bpf, __NR_clock_settime, __NR_delete_module,
	__NR_fanotify_init, __NR_fanotify_mark, __NR_finit_module, __NR_fsconfig, __NR_fsmount,
	__NR_fsopen, __NR_fspick, __NR_init_module, __NR_io_uring_enter, __NR_io_uring_register,
	__NR_io_uring_setup, __NR_kcmp, __NR_kexec_file_load, __NR_kexec_load, __NR_keyctl,
	__NR_lookup_dcookie, __NR_migrate_pages, __NR_mount, __NR_mount_setattr, __NR_move_mount,
	__NR_move_pages, __NR_name_to_handle_at, __NR_nfsservctl, __NR_open_by_handle_at,
	__NR_open_tree, __NR_perf_event_open, __NR_pidfd_getfd, __NR_pivot_root, __NR_quotactl,
	__NR_quotactl_fd, __NR_reboot, __NR_request_key, __NR_setdomainname, __NR_sethostname,
	__NR_setns, __NR_settimeofday, __NR_swapoff, __NR_swapon, __NR_syslog, __NR_umount2,
	__NR_userfaultfd, __NR_vhangup,
#ifdef __NR__sysctl
	__NR__sysctl,
#endif
#ifdef __NR_create_module
	__NR_create_module,
#endif
#ifdef __NR_get_kernel_syms
	__NR_get_kernel_syms,
#endif
#ifdef __NR_ioperm
	__NR_ioperm,
#endif
#ifdef __NR_iopl
	__NR_iopl,
#endif
#ifdef __NR_modify_ldt
	__NR_modify_ldt,
#endif
#ifdef __NR_query_module
	__NR_query_module,
#endif
#ifdef __NR_sysfs
	__NR_sysfs,
#endif
#ifdef __NR_uselib
	__NR_uselib,
#endif
#ifdef __NR_ustat
	__NR_ustat,
#endif
#ifdef __NR_vserver
	__NR_vserver,
#endif
};
/* clang-format on */

#endif
