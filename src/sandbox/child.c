#include "sandbox/child.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/rootfs.h"
#include "sys/call.h"
#include "sys/caps.h"
#include "sys/fsat.h"
#include "sys/imsg.h"

/* What root inside keeps. Each acts on the sandbox's own files and processes only. */
#define KEPT_CAPS                                                                                  \
	(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_FOWNER) |                 \
	 CAPS_BIT(CAP_FSETID) | CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_SETUID) | \
	 CAPS_BIT(CAP_SETPCAP) | CAPS_BIT(CAP_NET_BIND_SERVICE) | CAPS_BIT(CAP_SYS_CHROOT) |       \
	 CAPS_BIT(CAP_SETFCAP))

/* ---- first steps ---- */

/* Descriptors while it works; those up to MSG_SPEC_FD are there to stay. */
enum { FD_RUNNER = MSG_SPEC_FD + 1, FD_EXECD, FD_LOG, FD_FREE };

/* Keep what the plan names and close whatever else the runner had open: its table is of no concern
 * to a sandbox, not even until exec. */
static int arrange_fds(const struct child_plan *plan)
{
	int from[FD_FREE] = {
		[MSG_LISTEN_FD] = plan->listen_fd, [MSG_SPEC_FD] = plan->spec_fd,
		[FD_RUNNER] = plan->sock_fd,       [FD_EXECD] = plan->execd_fd,
		[FD_LOG] = plan->log_fd,
	};

	/* the sources may lie among the targets, so they are first moved above them */
	for (int fd = 3; fd < FD_FREE; fd++) {
		if (from[fd] < 0)
			continue;
		from[fd] = fcntl(from[fd], F_DUPFD_CLOEXEC, FD_FREE);
		if (from[fd] < 0)
			return -errno;
	}
	(void)close_range(3, FD_FREE - 1, 0);
	for (int fd = 3; fd < FD_FREE; fd++)
		if (from[fd] >= 0 && dup2(from[fd], fd) < 0)
			return -errno;
	return close_range(FD_FREE, ~0U, 0) < 0 ? -errno : 0;
}

static int receive_mounts(const struct child_plan *plan, struct rootfs *fs, struct err *e)
{
	size_t n = ROOTFS_MAX_MOUNTS;
	char go;
	ssize_t len;

	len = imsg_recv(FD_RUNNER, &go, 1, fs->fds, &n);
	if (len == 0)
		_exit(1); /* nobody is left who wants this sandbox */
	fs->n_layers = plan->n_layers;
	fs->n_volumes = plan->m->n_volumes;
	if (len != 1 || n != rootfs_count(fs))
		return err_set(e, EPROTO, "odd start message");
	return 0;
}

static int become_root(const struct child_plan *plan, struct err *e)
{
	if ((plan->groups && setgroups(0, NULL) < 0) || setresgid(0, 0, 0) < 0 ||
	    setresuid(0, 0, 0) < 0)
		return err_sys(e, "become root of the sandbox");
	return 0;
}

/* ---- files that differ from sandbox to sandbox ---- */

static int put_file(int root_fd, const char *path, const char *text, struct err *e)
{
	autofd int fd = -EBADF;
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_NONBLOCK;
	struct stat st;
	int r;

	fd = fsat_open_in_root(root_fd, path, flags, 0644);
	if (fd == -ENOENT || fd == -ELOOP) {
		/* a link to nowhere: a plain file takes its place */
		autofd int etc = fsat_mkdirs_in_root(root_fd, "/etc");
		const char *name = strrchr(path, '/') + 1;

		if (etc >= 0 && (unlinkat(etc, name, 0) == 0 || errno == ENOENT))
			fd = fsat_open_beneath(etc, name, flags | O_EXCL, 0644);
	}
	if (fd < 0)
		return err_code(e, fd, "write %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "%s of the image is not a file", path);
	r = fsat_write_all(fd, text, strlen(text));
	return r < 0 ? err_code(e, r, "write %s", path) : 0;
}

static int put_files(const struct child_plan *plan, int root_fd, struct err *e)
{
	char name[MSG_ID_SIZE + 1];
	int r;

	(void)snprintf(name, sizeof(name), "%s\n", plan->m->hostname);
	r = put_file(root_fd, "/etc/hostname", name, e);
	if (r == 0)
		r = put_file(root_fd, "/etc/hosts", plan->hosts, e);
	if (r == 0)
		r = put_file(root_fd, "/etc/resolv.conf", plan->resolv_conf, e);
	return r;
}

static int make_root(const struct child_plan *plan, struct rootfs *fs, struct err *e)
{
	bool read_only = (plan->m->flags & MSG_ROOTFS_READONLY) != 0;
	autofd int root = -EBADF;
	int r;

	r = rootfs_mount(fs, plan->m, e);
	if (r < 0)
		return r;
	root = open("r", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (root < 0)
		return err_sys(e, "open the new root");
	r = read_only ? 0 : put_files(plan, root, e);
	if (r == 0)
		r = pseudo_mount(root, plan->shm_bytes, plan->tty_group, &plan->cgroups, e);
	if (r == 0)
		r = rootfs_mount_rest(fs, plan->m, root, e);
	if (r == 0)
		r = rootfs_enter(root, e);
	return r;
}

/* ---- last steps ---- */

static int limit_resources(const struct child_plan *plan, struct err *e)
{
	const struct msg_limits *l = &plan->m->limits;
	/* 1, not 0: at 0 the kernel would still start the host's core dump program; the filter
	 * sees to it that it stays so */
	const struct rlimit core = { 1, 1 };
	struct rlimit files, processes;

	if (setrlimit(RLIMIT_CORE, &core) < 0)
		return err_sys(e, "limit core dumps");
	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "read the limit of open files");
	if (l->nofile == 0) {
		files.rlim_cur = files.rlim_max = MIN(files.rlim_max, 1048576);
	} else {
		if (l->nofile > files.rlim_max)
			return err_set(e, ENOTSUP, "this host allows at most %llu open files",
				       (unsigned long long)files.rlim_max);
		files.rlim_cur = files.rlim_max = l->nofile;
	}
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		return err_sys(e, "limit open files");
	if (plan->nproc == 0)
		return 0;
	if (getrlimit(RLIMIT_NPROC, &processes) < 0)
		return err_sys(e, "read the limit of processes");
	processes.rlim_cur = processes.rlim_max = MIN(processes.rlim_max, plan->nproc);
	if (setrlimit(RLIMIT_NPROC, &processes) < 0)
		return err_sys(e, "limit processes");
	return 0;
}

/* Standard streams, now that there is a /dev to open. */
static int open_streams(const struct child_plan *plan, struct err *e)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return err_sys(e, "open /dev/null");
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(fd > 0 && plan->log_fd >= 0 ? FD_LOG : null, fd) < 0)
			return err_sys(e, "open standard streams");
	if (close_range(FD_RUNNER, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return err_sys(e, "close descriptors");
	return 0;
}

/* What the runner ignores; it has put everything else to its default at its own start. */
static int reset_signals(struct err *e)
{
	const struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	(void)sigemptyset(&none);
	if (sigaction(SIGPIPE, &dfl, NULL) < 0 || sigaction(SIGHUP, &dfl, NULL) < 0 ||
	    sigprocmask(SIG_SETMASK, &none, NULL) < 0)
		return err_sys(e, "reset signals");
	return 0;
}

static int give_up_rights(const struct child_plan *plan, struct err *e)
{
	int r;

	r = caps_limit(KEPT_CAPS, e);
	/* It must not be able to read what it executes, or it would be open to tracing. Exec gives
	 * root back what it may have. */
	if (r == 0)
		r = caps_lower(CAPS_BIT(CAP_DAC_OVERRIDE), e);
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "set no_new_privs");
	return seccomp_install(plan->filter, e);
}

static int set_up(const struct child_plan *plan, struct err *e)
{
	struct rootfs fs;
	int r;

	/* no better turn than others */
	if (getpriority(PRIO_PROCESS, 0) < 0)
		(void)setpriority(PRIO_PROCESS, 0, 0);
	r = receive_mounts(plan, &fs, e);
	if (r == 0)
		r = become_root(plan, e);
	if (r < 0)
		return r;
	/* only now: the cgroup it is in becomes the root it sees */
	if (unshare(CLONE_NEWCGROUP) < 0)
		return err_sys(e, "make a cgroup namespace");
	if (sethostname(plan->m->hostname, strlen(plan->m->hostname)) < 0)
		return err_sys(e, "set the hostname");
	/* ENOSYS: a kernel without keys has none to share */
	if (call_keyctl(KEYCTL_JOIN_SESSION_KEYRING, 0, 0) < 0 && errno != ENOSYS)
		return err_sys(e, "make a session keyring");
	if (setsid() < 0 && errno != EPERM)
		return err_sys(e, "make a session");
	(void)umask(0022);
	r = make_root(plan, &fs, e);
	if (r == 0)
		r = limit_resources(plan, e);
	if (r == 0)
		r = open_streams(plan, e);
	if (r == 0)
		r = reset_signals(e);
	if (r == 0)
		r = give_up_rights(plan, e);
	return r;
}

_Noreturn void child_main(const struct child_plan *plan)
{
	char *argv[] = { (char[]){ "execd" },     (char[]){ "--listen-fd" }, (char[]){ "3" },
			 (char[]){ "--spec-fd" }, (char[]){ "4" },           NULL };
	char *envp[] = { NULL };
	struct err e = ERR_INIT;

	if (leaf_enter(plan->door, &e) < 0) {
		(void)imsg_send(plan->sock_fd, &e, sizeof(e), NULL, 0);
		_exit(1);
	}
	if (arrange_fds(plan) < 0)
		_exit(1);
	if (set_up(plan, &e) == 0) {
		(void)execveat(FD_EXECD, "", argv, envp, AT_EMPTY_PATH);
		(void)err_sys(&e, "start execd");
	}
	(void)imsg_send(FD_RUNNER, &e, sizeof(e), NULL, 0);
	_exit(1);
}
