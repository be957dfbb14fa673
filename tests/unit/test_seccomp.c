/* The system call filter, judged by an interpreter of its own instructions. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "sandbox/seccomp.h"

#if defined(__x86_64__)
#define OWN   AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#else
#define OWN   AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#endif

static struct seccomp_prog prog;

/* The few instructions the filter is made of; anything else fails the test. */
static uint32_t judge(const struct seccomp_data *d)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < prog.len; pc++) {
		const struct sock_filter *f = &prog.insns[pc];

		switch (f->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(f->k + 4 <= sizeof(*d) && f->k % 4 == 0);
			memcpy(&a, (const char *)d + f->k, sizeof(a));
			break;
		case BPF_RET | BPF_K:
			return f->k;
		case BPF_JMP | BPF_JA:
			pc += f->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= f->k ? f->jt : f->jf;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			pc += (a & f->k) != 0 ? f->jt : f->jf;
			break;
		default:
			fail_msg("instruction %x", f->code);
		}
	}
	fail_msg("fell off the end");
	return 0;
}

static uint32_t call4(long nr, uint64_t a0, uint64_t a1, uint64_t a2, uint64_t a3)
{
	struct seccomp_data d = { .nr = (int)nr, .arch = OWN, .args = { a0, a1, a2, a3 } };

	return judge(&d);
}

static uint32_t call(long nr, uint64_t a0, uint64_t a1, uint64_t a2)
{
	return call4(nr, a0, a1, a2, 0);
}

#define REFUSED(code) (SECCOMP_RET_ERRNO | (code))

static int build(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	return seccomp_build(&prog, &e);
}

static void ordinary_calls_work(void **state)
{
	static const long fine[] = { SYS_read,     SYS_write, SYS_openat,     SYS_mmap,  SYS_execve,
				     SYS_execveat, SYS_futex, SYS_exit_group, SYS_wait4, SYS_ptrace,
				     SYS_chroot,   SYS_prctl, SYS_seccomp,    SYS_kill };

	(void)state;
	for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++)
		assert_int_equal(call(fine[i], 0, 0, 0), SECCOMP_RET_ALLOW);
}

static void inner_calls_are_refused(void **state)
{
	static const long inner[] = {
		SYS_mount,           SYS_umount2,    SYS_pivot_root,  SYS_bpf,
		SYS_perf_event_open, SYS_keyctl,     SYS_add_key,     SYS_userfaultfd,
		SYS_setns,           SYS_kexec_load, SYS_init_module, SYS_open_by_handle_at,
		SYS_io_uring_setup,  SYS_fsopen,     SYS_move_mount,  SYS_open_tree,
		SYS_mount_setattr,   SYS_pidfd_getfd
	};

	(void)state;
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++)
		assert_int_equal(call(inner[i], 0, 0, 0), REFUSED(EPERM));
}

static void unknown_calls_do_not_exist(void **state)
{
	(void)state;
	assert_int_equal(call(SYS_clone3, 0, 0, 0), REFUSED(ENOSYS));
	for (long nr = 470; nr < 2000; nr++)
		assert_int_equal(call(nr, 0, 0, 0), REFUSED(ENOSYS));
	assert_int_equal(call(0x3fffffff, 0, 0, 0), REFUSED(ENOSYS));
}

static void other_architectures_kill(void **state)
{
	struct seccomp_data d = { .nr = SYS_read, .arch = OTHER };

	(void)state;
	assert_int_equal(judge(&d), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
	assert_int_equal(call(0x40000000 | SYS_read, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(call(-1, 0, 0, 0), SECCOMP_RET_KILL_PROCESS);
#endif
}

static void namespaces_cannot_be_made(void **state)
{
	static const uint64_t kinds[] = { CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
					  CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP };

	(void)state;
	assert_int_equal(call(SYS_clone, 17, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_unshare, CLONE_FILES | CLONE_FS, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_unshare, 0x80, 0, 0), REFUSED(EPERM));
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		for (uint64_t high = 0; high < 3; high++) {
			uint64_t flags = kinds[i] | 17 | high << 32;

			assert_int_equal(call(SYS_clone, flags, 0, 0), REFUSED(EPERM));
			assert_int_equal(call(SYS_unshare, flags, 0, 0), REFUSED(EPERM));
		}
}

static void socket_families(void **state)
{
	(void)state;
	assert_int_equal(call(SYS_socket, AF_UNIX, 1, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_socket, AF_INET, 1, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_socket, AF_INET6, 1, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_socket, AF_UNIX, 1, 132), SECCOMP_RET_ALLOW);
	for (uint64_t protocol = 0; protocol < 300; protocol++) {
		bool fine = protocol == 0 || protocol == 1 || protocol == 6 || protocol == 17 ||
			    protocol == 58 || protocol == 255 || protocol == 262;
		uint32_t expect = fine ? SECCOMP_RET_ALLOW : REFUSED(EPROTONOSUPPORT);

		assert_int_equal(call(SYS_socket, AF_INET, 1, protocol), expect);
		assert_int_equal(call(SYS_socket, AF_INET6, 1, protocol), expect);
	}
	assert_int_equal(call(SYS_socket, AF_NETLINK, 3, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_socket, AF_NETLINK, 3, 12), REFUSED(EPROTONOSUPPORT));
	assert_int_equal(call(SYS_socket, AF_NETLINK, 3, 15), REFUSED(EPROTONOSUPPORT));
	for (uint64_t family = 0; family < 64; family++)
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6 &&
		    family != AF_NETLINK)
			assert_int_equal(call(SYS_socket, family, 1, 0), REFUSED(EAFNOSUPPORT));
}

/* The kernel takes 32 bits of an ioctl's command, and so must the filter (CVE-2019-7303). */
static void ioctl_commands_are_32_bits(void **state)
{
	(void)state;
	assert_int_equal(call(SYS_ioctl, 0, TCGETS, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_ioctl, 0, TIOCSTI, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_ioctl, 0, TIOCSTI | 1ULL << 32, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_ioctl, 0, TIOCLINUX | 0xffULL << 40, 0), REFUSED(EPERM));
}

static void personalities(void **state)
{
	(void)state;
	assert_int_equal(call(SYS_personality, 0, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, 0xffffffff, 0, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(call(SYS_personality, 0x0400000, 0, 0), REFUSED(EPERM));
	assert_int_equal(call(SYS_personality, 1, 0, 0), REFUSED(EPERM));
}

static void huge_pages_and_cores_are_not_taken(void **state)
{
	struct seccomp_data map = { .nr = SYS_mmap, .arch = OWN };

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		map.args[3] = 1ULL << bit;
		assert_int_equal(judge(&map), bit == 18 ? REFUSED(ENOMEM) : SECCOMP_RET_ALLOW);
		assert_int_equal(call(SYS_memfd_create, 0, 1ULL << bit, 0),
				 bit == 2 ? REFUSED(ENOMEM) : SECCOMP_RET_ALLOW);
		assert_int_equal(call(SYS_shmget, 0, 0, 1ULL << bit),
				 bit == 11 ? REFUSED(ENOMEM) : SECCOMP_RET_ALLOW);
	}
	for (uint64_t option = 0; option < 100; option++)
		assert_int_equal(call(SYS_prctl, option | option << 32, 0, 0),
				 option == 62 ? REFUSED(EINVAL) : SECCOMP_RET_ALLOW);
}

static void leases_are_not_taken(void **state)
{
	(void)state;
	for (uint64_t command = 0; command < 1100; command++)
		assert_int_equal(call(SYS_fcntl, 0, command | command << 32, 0),
				 command == F_SETLEASE || command == 1040 ? REFUSED(EINVAL)
									  : SECCOMP_RET_ALLOW);
}

static void sockets_run_no_programs_and_keep_no_keys(void **state)
{
	(void)state;
	for (uint64_t option = 0; option < 100; option++) {
		bool program = option == SO_ATTACH_FILTER || option == SO_ATTACH_BPF ||
			       option == SO_ATTACH_REUSEPORT_CBPF ||
			       option == SO_ATTACH_REUSEPORT_EBPF;
		uint64_t high = option << 32;

		assert_int_equal(call(SYS_setsockopt, 0, SOL_SOCKET | high, option | high),
				 program ? REFUSED(EPERM) : SECCOMP_RET_ALLOW);
		assert_int_equal(call(SYS_setsockopt, 0, IPPROTO_TCP | high, option | high),
				 option == 14 || option == 32 || option == 38 ? REFUSED(EPERM)
									      : SECCOMP_RET_ALLOW);
		assert_int_equal(call(SYS_setsockopt, 0, IPPROTO_IP, option), SECCOMP_RET_ALLOW);
	}
}

/* Only 1 keeps the kernel from starting the host's core dump program. */
static void the_limit_of_core_dumps_stays(void **state)
{
	(void)state;
	for (uint64_t high = 0; high < 3; high++) {
		uint64_t core = RLIMIT_CORE | high << 32, files = RLIMIT_NOFILE | high << 32;

		assert_int_equal(call(SYS_setrlimit, core, 4096, 0), REFUSED(0));
		assert_int_equal(call(SYS_setrlimit, files, 4096, 0), SECCOMP_RET_ALLOW);
		assert_int_equal(call(SYS_prlimit64, 0, core, 4096), REFUSED(0));
		assert_int_equal(call(SYS_prlimit64, 0, core, 1ULL << 32), REFUSED(0));
		assert_int_equal(call(SYS_prlimit64, 0, core, 0), SECCOMP_RET_ALLOW);
		/* with the old one asked for as well, it must not be said to be there */
		for (int old = 12; old <= 32; old += 20) {
			assert_int_equal(call4(SYS_prlimit64, 0, core, 4096, 1ULL << old),
					 REFUSED(EPERM));
			assert_int_equal(call4(SYS_prlimit64, 0, core, 0, 1ULL << old),
					 SECCOMP_RET_ALLOW);
			assert_int_equal(call4(SYS_prlimit64, 0, files, 4096, 1ULL << old),
					 SECCOMP_RET_ALLOW);
		}
		assert_int_equal(call(SYS_prlimit64, 0, files, 4096), SECCOMP_RET_ALLOW);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ordinary_calls_work),
		cmocka_unit_test(inner_calls_are_refused),
		cmocka_unit_test(unknown_calls_do_not_exist),
		cmocka_unit_test(other_architectures_kill),
		cmocka_unit_test(namespaces_cannot_be_made),
		cmocka_unit_test(socket_families),
		cmocka_unit_test(ioctl_commands_are_32_bits),
		cmocka_unit_test(personalities),
		cmocka_unit_test(the_limit_of_core_dumps_stays),
		cmocka_unit_test(sockets_run_no_programs_and_keep_no_keys),
		cmocka_unit_test(leases_are_not_taken),
		cmocka_unit_test(huge_pages_and_cores_are_not_taken),
	};

	return cmocka_run_group_tests(tests, build, NULL);
}
