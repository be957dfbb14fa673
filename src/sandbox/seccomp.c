#include "sandbox/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>

#include "base/util.h"
#include "sandbox/syscalls.h"
#include "sys/call.h"

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define X32_BIT  0x40000000u
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#else
#error "no system call list for this architecture"
#endif

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

#define NEW_NAMESPACES                                                                         \
	((uint32_t)(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | \
		    CLONE_NEWUTS | CLONE_NEWCGROUP))

#define RET_ERRNO(code) (SECCOMP_RET_ERRNO | (uint32_t)(code))
#define ARG_LOW(n)      ((uint32_t)(offsetof(struct seccomp_data, args) + 8 * (n)))
#define ARG_HIGH(n)     (ARG_LOW(n) + 4) /* both our architectures are little-endian */

/* ---- writing instructions ---- */

struct code {
	struct seccomp_prog *p;
	bool full;
};

static void emit(struct code *c, uint16_t op, uint8_t jt, uint8_t jf, uint32_t k)
{
	if (c->p->len >= SECCOMP_MAX_INSNS) {
		c->full = true;
		return;
	}
	c->p->insns[c->p->len++] = (struct sock_filter){ op, jt, jf, k };
}

static void load(struct code *c, uint32_t offset)
{
	emit(c, BPF_LD | BPF_W | BPF_ABS, 0, 0, offset);
}

static void ret(struct code *c, uint32_t verdict)
{
	emit(c, BPF_RET | BPF_K, 0, 0, verdict);
}

/* Return `verdict` if the loaded word equals k, else go on. */
static void ret_if_equal(struct code *c, uint32_t k, uint32_t verdict)
{
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, k);
	ret(c, verdict);
}

static void ret_if_any_bit(struct code *c, uint32_t bits, uint32_t verdict)
{
	emit(c, BPF_JMP | BPF_JSET | BPF_K, 0, 1, bits);
	ret(c, verdict);
}

/* ---- calls judged by their arguments; each ends in a return ---- */

static void judge_clone(struct code *c)
{
	/* the kernel looks at the lower half only, and so do we */
	load(c, ARG_LOW(0));
	ret_if_any_bit(c, NEW_NAMESPACES, RET_ERRNO(EPERM));
	ret(c, SECCOMP_RET_ALLOW);
}

static void judge_unshare(struct code *c)
{
	load(c, ARG_LOW(0));
	ret_if_any_bit(c, NEW_NAMESPACES | CLONE_NEWTIME, RET_ERRNO(EPERM));
	ret(c, SECCOMP_RET_ALLOW);
}

static void judge_socket(struct code *c)
{
	/* Of the Internet's protocols, those in daily use. Asking for any other makes the kernel
	 * load a module that most hosts have never run. */
	static const uint32_t internet[] = { 0,           IPPROTO_ICMP,   IPPROTO_TCP,
					     IPPROTO_UDP, IPPROTO_ICMPV6, IPPROTO_RAW,
					     262 /* IPPROTO_MPTCP */ };
	const uint8_t past_internet = 1 + 2 * ARRAY_LEN(internet) + 1;

	load(c, ARG_LOW(0));
	ret_if_equal(c, AF_UNIX, SECCOMP_RET_ALLOW);
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_INET);
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, past_internet, AF_INET6);
	load(c, ARG_LOW(2));
	for (size_t i = 0; i < ARRAY_LEN(internet); i++)
		ret_if_equal(c, internet[i], SECCOMP_RET_ALLOW);
	ret(c, RET_ERRNO(EPROTONOSUPPORT));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, AF_NETLINK);
	ret(c, RET_ERRNO(EAFNOSUPPORT));
	/* netlink: routes and socket listings. Device events would tell of the host's hardware. */
	load(c, ARG_LOW(2));
	ret_if_equal(c, 0 /* NETLINK_ROUTE */, SECCOMP_RET_ALLOW);
	ret_if_equal(c, 4 /* NETLINK_SOCK_DIAG */, SECCOMP_RET_ALLOW);
	ret(c, RET_ERRNO(EPROTONOSUPPORT));
}

static void judge_ioctl(struct code *c)
{
	static const uint32_t closed[] = {
		/* typing into somebody else's terminal */
		TIOCSTI,
		TIOCLINUX,
		/* These make the kernel load a module before it asks who wants it: disciplines of
		 * terminals (there have been bad ones), bridges, virtual networks. */
		TIOCSETD,
		SIOCGIFBR,
		SIOCSIFBR,
		SIOCBRADDBR,
		SIOCBRDELBR,
		SIOCGIFVLAN,
		SIOCSIFVLAN,
	};

	/* the command is 32 bits wide for the kernel */
	load(c, ARG_LOW(1));
	for (size_t i = 0; i < ARRAY_LEN(closed); i++)
		ret_if_equal(c, closed[i], RET_ERRNO(EPERM));
	ret(c, SECCOMP_RET_ALLOW);
}

static void judge_personality(struct code *c)
{
	static const uint32_t fine[] = {
		0,
		0x0008 /* PER_LINUX32 */,
		0x20000 /* UNAME26 */,
		0x20008,
		0x40000 /* ADDR_NO_RANDOMIZE, for debuggers */,
		0xffffffff /* ask */,
	};

	load(c, ARG_LOW(0));
	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		ret_if_equal(c, fine[i], SECCOMP_RET_ALLOW);
	ret(c, RET_ERRNO(EPERM));
}

/* Huge pages that the host has set aside for somebody are in no limit of memory. Where there are
 * none the kernel says the same. */
static void judge_huge(struct code *c, unsigned arg, uint32_t bit)
{
	load(c, ARG_LOW(arg));
	ret_if_any_bit(c, bit, RET_ERRNO(ENOMEM));
	ret(c, SECCOMP_RET_ALLOW);
}

static void judge_mmap(struct code *c)
{
	judge_huge(c, 3, MAP_HUGETLB);
}

static void judge_memfd_create(struct code *c)
{
	judge_huge(c, 1, MFD_HUGETLB);
}

static void judge_shmget(struct code *c)
{
	judge_huge(c, 2, SHM_HUGETLB);
}

/* Whoever opens a file on which another has a lease waits for up to 45 s, be it somebody on the
 * host, and a read-only volume is enough to have one. A host without leases says EINVAL. */
static void judge_fcntl(struct code *c)
{
	load(c, ARG_LOW(1));
	ret_if_equal(c, F_SETLEASE, RET_ERRNO(EINVAL));
	ret_if_equal(c, 1024 + 16 /* F_SETDELEG, the same for directories */, RET_ERRNO(EINVAL));
	ret(c, SECCOMP_RET_ALLOW);
}

/* Who keeps a core to himself keeps what shares it with him idle, and pays for his own part only. A
 * kernel that cannot do that says EINVAL. */
static void judge_prctl(struct code *c)
{
	load(c, ARG_LOW(0));
	ret_if_equal(c, 62 /* PR_SCHED_CORE */, RET_ERRNO(EINVAL));
	ret(c, SECCOMP_RET_ALLOW);
}

/* Programs that sockets run over their packets are compiled into a part of memory of which the
 * machine has one, of half a gigabyte or so (net.core.bpf_jit_limit), charged to nobody. When it is
 * full, many kernels take no system call filter either, and so there would be no new sandbox. Keys
 * that sign the segments of a connection (of use to routers) are charged to nobody either, and a
 * socket takes a hundred times its own size of them. */
static void judge_setsockopt(struct code *c)
{
	static const struct {
		uint32_t level, option;
	} refused[] = {
		{ SOL_SOCKET, SO_ATTACH_FILTER },         { SOL_SOCKET, SO_ATTACH_BPF },
		{ SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF }, { SOL_SOCKET, SO_ATTACH_REUSEPORT_EBPF },
		{ IPPROTO_TCP, 14 /* TCP_MD5SIG */ },     { IPPROTO_TCP, 32 /* TCP_MD5SIG_EXT */ },
		{ IPPROTO_TCP, 38 /* TCP_AO_ADD_KEY */ },
	};

	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		load(c, ARG_LOW(1));
		emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, refused[i].level);
		load(c, ARG_LOW(2));
		ret_if_equal(c, refused[i].option, RET_ERRNO(EPERM));
	}
	ret(c, SECCOMP_RET_ALLOW);
}

/* A crash must not start the host's core dump program, as the host's root and with the sandbox's
 * memory for its input. The kernel starts it for every limit but 1, so 1 it stays (child.c), also
 * when asked for 0. That is answered as done: there are no dumps either way, and programs with
 * secrets end when they are not let. */
static void judge_setrlimit(struct code *c)
{
	load(c, ARG_LOW(0));
	ret_if_equal(c, RLIMIT_CORE, RET_ERRNO(0));
	ret(c, SECCOMP_RET_ALLOW);
}

static void judge_prlimit64(struct code *c)
{
	load(c, ARG_LOW(1));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, RLIMIT_CORE);
	ret(c, SECCOMP_RET_ALLOW);
	/* without a new limit it only asks */
	load(c, ARG_LOW(2));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0);
	load(c, ARG_HIGH(2));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	ret(c, SECCOMP_RET_ALLOW);
	/* a filter cannot fill in the old limit, and "done" would say that it is there */
	load(c, ARG_LOW(3));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0);
	load(c, ARG_HIGH(3));
	emit(c, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0);
	ret(c, RET_ERRNO(0));
	ret(c, RET_ERRNO(EPERM));
}

static const struct {
	uint32_t nr;
	void (*judge)(struct code *c);
} judged[] = {
	{ __NR_clone, judge_clone },
	{ __NR_unshare, judge_unshare },
	{ __NR_socket, judge_socket },
	{ __NR_ioctl, judge_ioctl },
	{ __NR_personality, judge_personality },
	{ __NR_mmap, judge_mmap },
	{ __NR_memfd_create, judge_memfd_create },
	{ __NR_shmget, judge_shmget },
	{ __NR_prctl, judge_prctl },
	{ __NR_fcntl, judge_fcntl },
	{ __NR_setrlimit, judge_setrlimit },
	{ __NR_setsockopt, judge_setsockopt },
	{ __NR_prlimit64, judge_prlimit64 },
};

/* ---- the tree ---- */

/* From `nr` up to the next one's: the same verdict. */
struct step {
	uint32_t nr;
	uint32_t verdict;
	void (*judge)(struct code *c); /* instead of the verdict */
};

struct steps {
	struct step at[2 * 512];
	size_t n;
};

static int by_number(const void *a, const void *b)
{
	const struct step *x = a, *y = b;

	return (x->nr > y->nr) - (x->nr < y->nr);
}

/* Every known number with its verdict, sorted; then one step per change. */
static int collect(struct steps *out, struct err *e)
{
	static struct step all[512];
	size_t n = 0, i;
	uint32_t next = 0;

	if (ARRAY_LEN(syscalls_allowed) + ARRAY_LEN(syscalls_refused) + ARRAY_LEN(judged) >
	    ARRAY_LEN(all))
		return err_set(e, E2BIG, "too many system calls listed");
	for (i = 0; i < ARRAY_LEN(syscalls_allowed); i++)
		all[n++] = (struct step){ syscalls_allowed[i], SECCOMP_RET_ALLOW, NULL };
	for (i = 0; i < ARRAY_LEN(syscalls_refused); i++)
		all[n++] = (struct step){ syscalls_refused[i], RET_ERRNO(EPERM), NULL };
	for (i = 0; i < ARRAY_LEN(judged); i++)
		all[n++] = (struct step){ judged[i].nr, 0, judged[i].judge };
	qsort(all, n, sizeof(all[0]), by_number);

	out->n = 0;
	for (i = 0; i < n; i++) {
		struct step *last = out->n > 0 ? &out->at[out->n - 1] : NULL;

		if (i > 0 && all[i].nr == all[i - 1].nr)
			return err_set(e, EINVAL, "system call %u is listed twice", all[i].nr);
		if (all[i].nr != next || last == NULL) {
			if (all[i].nr != 0)
				out->at[out->n++] = (struct step){ next, RET_ERRNO(ENOSYS), NULL };
			last = NULL;
		}
		if (last == NULL || last->judge != all[i].judge || all[i].judge != NULL ||
		    last->verdict != all[i].verdict)
			out->at[out->n++] = all[i];
		next = all[i].nr + 1;
	}
	out->at[out->n++] = (struct step){ next, RET_ERRNO(ENOSYS), NULL };
	return 0;
}

/* Binary search: the accumulator holds the call's number. */
static void emit_tree(struct code *c, const struct step *s, size_t n)
{
	unsigned short jump;
	size_t half = n / 2;

	if (n == 1) {
		if (s->judge != NULL)
			s->judge(c);
		else
			ret(c, s->verdict);
		return;
	}
	/* conditional jumps reach 255 instructions, plain ones any distance */
	emit(c, BPF_JMP | BPF_JGE | BPF_K, 0, 1, s[half].nr);
	jump = c->p->len;
	emit(c, BPF_JMP | BPF_JA, 0, 0, 0);
	emit_tree(c, s, half);
	if (!c->full)
		c->p->insns[jump].k = (uint32_t)(c->p->len - jump - 1);
	emit_tree(c, s + half, n - half);
}

int seccomp_build(struct seccomp_prog *p, struct err *e)
{
	static struct steps steps;
	struct code c = { .p = p };
	int r;

	p->len = 0;
	r = collect(&steps, e);
	if (r < 0)
		return r;
	load(&c, (uint32_t)offsetof(struct seccomp_data, arch));
	emit(&c, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, OWN_ARCH);
	ret(&c, SECCOMP_RET_KILL_PROCESS);
	load(&c, (uint32_t)offsetof(struct seccomp_data, nr));
#ifdef X32_BIT
	ret_if_any_bit(&c, X32_BIT, SECCOMP_RET_KILL_PROCESS);
#endif
	emit_tree(&c, steps.at, steps.n);
	return c.full ? err_set(e, E2BIG, "system call filter is too long") : 0;
}

int seccomp_install(const struct seccomp_prog *p, struct err *e)
{
	struct sock_fprog prog = { .len = p->len };
	const struct sock_filter *insns = p->insns;

	memcpy(&prog.filter, &insns, sizeof(insns)); /* the kernel only reads it */
	if (call_seccomp(SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
		return err_sys(e, "install the system call filter");
	return 0;
}
