#include "runner/make.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "runner/sweep.h"
#include "sandbox/block.h"
#include "sandbox/child.h"
#include "sandbox/disk.h"
#include "sandbox/leaf.h"
#include "sandbox/rootfs.h"
#include "sys/call.h"
#include "sys/fsat.h"
#include "sys/imsg.h"
#include "sys/process.h"

#define BACKLOG 1024

/* ---- what the peer handed over ---- */

static bool is_sealed(int fd, struct stat *st)
{
	const int must = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK;
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && (seals & must) == must && fstat(fd, st) == 0;
}

static int check_fds(const struct msg_create *m, const int *fds, struct err *e)
{
	struct stat st;

	if (!is_sealed(fds[0], &st))
		return err_set(e, EINVAL, "execd must be a sealed memory file");
	/* Executable, not readable: the kernel then treats the process as one that holds what its
	 * user may not see. Nobody inside can trace PID 1 or open its /proc/1/{fd,mem,exe}. */
	if ((st.st_mode & 0777) != 0111 && fchmod(fds[0], 0111) < 0)
		return err_sys(e, "protect execd");
	if (!is_sealed(fds[1], &st) || st.st_size > MSG_SPEC_MAX)
		return err_set(e, EINVAL, "the spec must be a small sealed memory file");
	if (lseek(fds[1], 0, SEEK_SET) < 0)
		return err_sys(e, "rewind the spec");
	if (((m->flags & MSG_WITH_LOG) != 0) != (fds[2] >= 0))
		return err_set(e, EINVAL, "log descriptor missing or not announced");
	if (fds[2] >= 0 && (fstat(fds[2], &st) < 0 || !S_ISFIFO(st.st_mode)))
		return err_set(e, EINVAL, "the log must be a pipe");
	return 0;
}

/* ---- parts ---- */

/* The socket execd will listen on. Bound by way of the directory's descriptor: sun_path is short.
 */
static int make_listener(struct runner *r, const char *id, int *ret_fd, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	autofd int fd = -EBADF;

	(void)snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/%s", r->state.sock_fd,
		       id);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return err_sys(e, "make a socket");
	/* the mode of the socket decides who may connect; fchmod before bind spares a race */
	if (fchmod(fd, 0600) < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
		return err_sys(e, "bind the socket of '%s'", id);
	if (r->peer_uid != 0 &&
	    fchownat(r->state.sock_fd, id, r->peer_uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0)
		return err_sys(e, "give away the socket of '%s'", id);
	if (listen(fd, BACKLOG) < 0)
		return err_sys(e, "listen for '%s'", id);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Half the memory limit, or a share of the machine's: pages there count as the sandbox's memory. */
static uint64_t shm_bytes(const struct runner *r, const struct msg_limits *l)
{
	return l->memory_bytes != 0 ? l->memory_bytes / 2 : r->ram_bytes / 16;
}

static void write_hosts(const struct runner *r, const struct msg_create *m, uint32_t net_index,
			char *out, size_t size)
{
	struct net_names names;
	int n;

	net_names(&r->net, net_index, &names);
	n = snprintf(out, size,
		     "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"
		     "%s\t%s\n",
		     names.ip4[0] != '\0' ? names.ip4 : "127.0.1.1", m->hostname);
	if (names.ip6[0] != '\0' && n > 0 && (size_t)n < size)
		(void)snprintf(out + n, size - (size_t)n, "%s\t%s\n", names.ip6, m->hostname);
}

/* ---- clone ---- */

/* Some things that are scarce (inotify instances, queued signals, message queues, locked memory)
 * the kernel charges to whoever made the user namespace as well. Were that root, one sandbox could
 * take the share of all others and of the host. So it is the user who will be root inside, while
 * our capabilities stay (securebits; the child's are reset). Who may not do that charges
 * himself. */
static pid_t clone_as(uid_t owner, struct clone_args *args)
{
	int bits = prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
	bool other = geteuid() == 0 && bits >= 0 &&
		     prctl(PR_SET_SECUREBITS, bits | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) == 0;
	pid_t pid;

	if (other && setresuid((uid_t)-1, owner, (uid_t)-1) < 0)
		other = false;
	pid = call_clone3(args);
	if (pid != 0 && other && setresuid((uid_t)-1, 0, (uid_t)-1) < 0)
		abort(); /* cannot be, and could not be lived with */
	if (pid != 0 && bits >= 0)
		(void)prctl(PR_SET_SECUREBITS, bits, 0, 0, 0);
	return pid;
}

static pid_t clone_child(struct runner *r, const struct child_plan *plan, uid_t owner, int ns_fd,
			 int into_fd, int *ret_pid_fd, struct err *e)
{
	int pid_fd = -EBADF;
	struct clone_args args = {
		.flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS |
			 CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pid_fd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;
	int q;

	if (into_fd >= 0) {
		args.flags |= CLONE_INTO_CGROUP;
		args.cgroup = (unsigned)into_fd;
	}
	/* the child stays in the namespace it is born in, and has no rights over it */
	q = net_enter(ns_fd, e);
	if (q < 0)
		return q;
	pid = clone_as(owner, &args);
	if (pid == 0)
		child_main(plan);
	/* v2 lets nobody in over a boundary that is not his, which we are on the other side of */
	if (pid < 0 && errno == EACCES && into_fd >= 0)
		q = err_set(e, EACCES,
			    "clone into its cgroup: the runner must be started where it "
			    "was when the sandboxes that live were made");
	else
		q = pid < 0 ? err_sys(e, "clone") : 0;
	net_leave(&r->net);
	if (q < 0)
		return q;
	*ret_pid_fd = pid_fd;
	return pid;
}

/* Everything between the clone and the child's first own step. */
static int equip(struct runner *r, const struct msg_create *m, const struct ground_ids *ids,
		 struct made *made, int upper_fd, struct err *e)
{
	autofd int userns = -EBADF;
	struct rootfs fs;
	char path[48];
	int q;

	q = ground_map_ids(made->rec.pid, ids, e);
	if (q < 0)
		return q;
	/* A sandbox goes before the programs that keep it. Written from outside, where there is
	 * CAP_SYS_RESOURCE, it is also the least that the sandbox can go back to. */
	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", made->rec.pid);
	(void)fsat_put(AT_FDCWD, path, "300");
	if ((r->ground.can & GROUND_RANGES) != 0) {
		(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", made->rec.pid);
		userns = open(path, O_RDONLY | O_CLOEXEC);
		if (userns < 0)
			return err_sys(e, "open the user namespace");
	}
	q = rootfs_open(&fs, &r->state, m, r->host_image, upper_fd, userns, e);
	if (q < 0)
		return q;
	q = process_start_time(made->rec.pid, &made->rec.start_ticks);
	if (q == 0)
		q = table_write(&r->table, made->row, &made->rec);
	if (q < 0)
		(void)err_code(e, q, "write down the sandbox");
	if (q == 0) {
		q = imsg_send(made->child_fd, "g", 1, fs.fds, rootfs_count(&fs));
		if (q < 0)
			(void)err_code(e, q, "start the sandbox");
	}
	rootfs_close(&fs);
	return q;
}

static int assemble(struct runner *r, const struct msg_create *m, const int *fds, struct made *made,
		    struct err *e)
{
	const struct ground_ids ids = ground_ids(&r->ground, block_uid_base(&r->blocks, made->row));
	struct leaf_door door = { .into_fd = -EBADF };
	struct msg_limits by_cgroups = m->limits;
	autofd int upper = -EBADF, listener = -EBADF, program = -EBADF;
	enum disk_way way = r->disk_way;
	int q, pair[2];
	pid_t pid;

	if (r->pids_by_user)
		by_cgroups.pids = 0;
	q = disk_make(&r->state, m->id, m->limits.disk_bytes, way,
		      block_uid_base(&r->blocks, made->row), &upper, e);
	if (q == 0 && m->limits.disk_bytes != 0)
		made->rec.flags |= way == DISK_IMAGE ? TABLE_DISK_IMAGE : TABLE_DISK_QUOTA;
	if (q == 0)
		q = make_listener(r, m->id, &listener, e);
	if (q == 0 && (r->ground.can & GROUND_RANGES) == 0)
		q = program_open(&r->program, fds[0], &program, e);
	if (q == 0)
		q = leaf_make(&r->cgroups, m->id, &by_cgroups, &door, e);
	if (q == 0)
		q = net_take(&r->net, (m->flags & MSG_WITH_NETWORK) != 0, &made->slot, e);
	if (q == 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		q = err_sys(e, "make a socket pair");
	if (q < 0) {
		leaf_door_close(&door);
		return q;
	}
	made->rec.net_index = made->slot.index;
	made->child_fd = pair[0];
	{
		autofd int theirs = pair[1];
		struct child_plan plan = {
			.m = m,
			.filter = &r->filter,
			.cgroups = r->cgroups.shown,
			.door = &door,
			.shm_bytes = shm_bytes(r, &m->limits),
			.groups = (r->ground.can & GROUND_GROUPS) != 0,
			.tty_group = ids.gids > 5,
			.nproc = r->pids_by_user ? m->limits.pids : 0,
			.resolv_conf = made->slot.index != NET_NO_ADDR ? r->net.resolv_conf : "",
			.sock_fd = theirs,
			.execd_fd = program >= 0 ? program : fds[0],
			.listen_fd = listener,
			.spec_fd = fds[1],
			.log_fd = fds[2],
			.n_layers = m->rootfs == MSG_ROOTFS_LAYERS ? m->n_layers : 1,
		};

		write_hosts(r, m, made->slot.index, plan.hosts, sizeof(plan.hosts));
		pid = clone_child(r, &plan, ids.first_uid, made->slot.ns_fd, door.into_fd,
				  &made->pid_fd, e);
		leaf_door_close(&door);
	}
	if (pid < 0)
		return (int)pid;
	made->rec.pid = pid;
	return equip(r, m, &ids, made, upper, e);
}

void make_undo(struct runner *r, struct made *made)
{
	siginfo_t si;

	fd_close(&made->child_fd);
	if (made->pid_fd >= 0) {
		(void)process_kill(made->pid_fd, SIGKILL);
		(void)waitid(P_PIDFD, (id_t)made->pid_fd, &si, WEXITED);
		fd_close(&made->pid_fd);
	}
	net_release(&r->net, &made->slot);
	sweep_remove(r, made->rec.id, &made->rec.limits);
	(void)table_clear(&r->table, made->row);
}

int make_box(struct runner *r, const struct msg_create *m, const int *fds, struct made *ret,
	     struct err *e)
{
	struct made made = MADE_INIT;
	int q;

	q = check_fds(m, fds, e);
	if (q < 0)
		return q;
	q = table_take(&r->table, block_count(&r->blocks));
	if (q == -ENOSPC) {
		q = block_grow(&r->blocks, e);
		if (q == 0)
			q = table_take(&r->table, block_count(&r->blocks));
	}
	if (q < 0)
		return q;
	made.row = (unsigned)q;
	memcpy(made.rec.id, m->id, sizeof(made.rec.id));
	memcpy(made.rec.boot_id, r->boot_id, sizeof(made.rec.boot_id));
	made.rec.limits = m->limits;
	made.rec.net_index = NET_NO_ADDR;
	made.rec.started_ms = (uint64_t)clock_wall_ms();
	if ((m->flags & MSG_WITH_NETWORK) != 0)
		made.rec.flags |= TABLE_NETWORK;
	q = assemble(r, m, fds, &made, e);
	if (q < 0)
		make_undo(r, &made);
	else
		*ret = made;
	return q;
}
