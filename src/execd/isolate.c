#include "execd/isolate.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "codec/json.h"
#include "execd/mkdirs.h"
#include "sys/caps.h"
#include "sys/mnt.h"

#define MAX_PLAN  MIB(1)
#define MAX_BINDS 64

/* What root of a session may still do: nothing that reaches beyond its own files and processes. */
#define KEPT_CAPS                                                                                  \
	(CAPS_BIT(CAP_CHOWN) | CAPS_BIT(CAP_DAC_OVERRIDE) | CAPS_BIT(CAP_FOWNER) |                 \
	 CAPS_BIT(CAP_FSETID) | CAPS_BIT(CAP_KILL) | CAPS_BIT(CAP_SETGID) | CAPS_BIT(CAP_SETUID) | \
	 CAPS_BIT(CAP_NET_BIND_SERVICE))

struct plan {
	bool probe, userns, share_net, private_tmp;
	uint32_t uid, gid;
	bool has_uid, has_gid;
	const char *workspace, *mode;
	struct bind {
		const char *dest;
		int mount_fd; /* detached, ready to be attached */
	} binds[MAX_BINDS + 1];
	size_t n_binds;
	uid_t outer_uid;
	gid_t outer_gid;
};

bool isolate_is_inside(void)
{
	return strcmp(program_invocation_short_name, ISOLATE_INSIDE) == 0;
}

static _Noreturn void fail(char kind, const struct err *e)
{
	char text[300];
	int n = snprintf(text, sizeof(text), "%c%s", kind, e->msg);

	if (n > 0)
		(void)!write(ISOLATE_STATUS, text, MIN((size_t)n, sizeof(text) - 1));
	_exit(1);
}

/* --- the plan --- */

static json_t *read_plan(struct plan *p, struct err *e)
{
	static const struct json_limits limits = { .max_bytes = MAX_PLAN,
						   .max_depth = 4,
						   .max_values = 1024 };
	struct buf text = BUF_INIT(MAX_PLAN);
	json_t *v = NULL;
	ssize_t n;

	do {
		if (buf_reserve(&text, KIB(4)) < 0)
			return NULL;
		n = pread(ISOLATE_PLAN, text.data + text.len, KIB(4), (off_t)text.len);
		text.len += n > 0 ? (size_t)n : 0;
	} while (n > 0);
	if (json_parse(buf_span(&text), &limits, &v, e) < 0)
		return NULL;
	(void)json_get_bool(v, "probe", JSON_MAY, &p->probe, e);
	(void)json_get_bool(v, "userns", JSON_MAY, &p->userns, e);
	(void)json_get_bool(v, "share_net", JSON_MAY, &p->share_net, e);
	(void)json_get_bool(v, "private_tmp", JSON_MAY, &p->private_tmp, e);
	p->has_uid = json_get_u32(v, "uid", JSON_MAY, &p->uid, e) > 0;
	p->has_gid = json_get_u32(v, "gid", JSON_MAY, &p->gid, e) > 0;
	(void)json_get_str(v, "workspace", JSON_MAY, &p->workspace, e);
	(void)json_get_str(v, "workspace_mode", JSON_MAY, &p->mode, e);
	return v; /* its strings are used until the end */
}

/* --- leaving --- */

static int put_text(const char *path, const char *text, struct err *e)
{
	autofd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return err_sys(e, "write %s", path);
	return 0;
}

/* Inside, one number stands for whom we are outside. */
static int map_ids(const struct plan *p, struct err *e)
{
	char text[64];
	int r;

	r = put_text("/proc/self/setgroups", "deny", e);
	if (r < 0 && e->code != ENOENT)
		return r;
	(void)snprintf(text, sizeof(text), "%u %u 1", p->has_uid ? p->uid : 0, p->outer_uid);
	r = put_text("/proc/self/uid_map", text, e);
	if (r < 0)
		return r;
	(void)snprintf(text, sizeof(text), "%u %u 1", p->has_gid ? p->gid : 0, p->outer_gid);
	return put_text("/proc/self/gid_map", text, e);
}

static int leave(struct plan *p, struct err *e)
{
	int flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;

	p->outer_uid = geteuid();
	p->outer_gid = getegid();
	if (!p->share_net)
		flags |= CLONE_NEWNET;
	if (p->userns)
		flags |= CLONE_NEWUSER;
	if (unshare(flags) < 0)
		return err_sys(e, "leave the namespaces");
	return p->userns ? map_ids(p, e) : 0;
}

/* The loopback of a new network namespace is down. */
static void raise_loopback(void)
{
	autofd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd >= 0)
		(void)ioctl(fd, SIOCSIFFLAGS, &ifr);
}

/* --- mounts --- */

static int clone_bind(struct plan *p, const char *source, const char *dest, bool readonly,
		      struct err *e)
{
	autofd int fd = open(source, O_PATH | O_CLOEXEC);
	int r;

	if (p->n_binds == ARRAY_LEN(p->binds))
		return err_set(e, E2BIG, "too many mounts");
	if (fd < 0)
		return err_sys(e, "%s", source);
	r = mnt_clone(fd, "", AT_RECURSIVE, readonly ? MOUNT_ATTR_RDONLY : 0, -EBADF,
		      &p->binds[p->n_binds].mount_fd, e);
	if (r == 0)
		p->binds[p->n_binds++].dest = dest;
	return r;
}

/* What is written to the workspace goes to memory, and with the session. */
static int overlay_bind(struct plan *p, struct err *e)
{
	autofd int lower = open(p->workspace, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char lower_path[64], upper_path[64], work_path[64];
	autofd int memory = -EBADF, stage = -EBADF;
	struct stat st;
	int r;

	if (lower < 0 || fstat(lower, &st) < 0)
		return err_sys(e, "%s", p->workspace);
	r = mnt_new("tmpfs", "workspace", NULL, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, &memory, e);
	if (r < 0)
		return r;
	/* an overlay wants its parts mounted while it is made; here is a place that exists */
	r = mnt_attach_at(memory, AT_FDCWD, p->workspace, e);
	if (r < 0)
		return r;
	stage = fcntl(memory, F_DUPFD_CLOEXEC, 3);
	if (stage < 0 || mkdirat(stage, "upper", 0755) < 0 || mkdirat(stage, "work", 0755) < 0 ||
	    fchmodat(stage, "upper", st.st_mode & 07777, 0) < 0)
		return err_sys(e, "prepare the workspace");
	if (fchownat(stage, "upper", st.st_uid, st.st_gid, 0) < 0 && !p->userns)
		return err_sys(e, "prepare the workspace");
	(void)snprintf(lower_path, sizeof(lower_path), "/proc/self/fd/%d", lower);
	(void)snprintf(upper_path, sizeof(upper_path), "/proc/self/fd/%d/upper", stage);
	(void)snprintf(work_path, sizeof(work_path), "/proc/self/fd/%d/work", stage);
	{
		const struct mnt_opt opts[] = {
			{ "lowerdir", lower_path },
			{ "upperdir", upper_path },
			{ "workdir", work_path },
			{ p->userns ? "userxattr" : NULL, NULL },
			{ NULL, NULL },
		};

		r = mnt_new("overlay", "workspace", opts, MOUNT_ATTR_NODEV,
			    &p->binds[p->n_binds].mount_fd, e);
	}
	if (r == 0)
		p->binds[p->n_binds++].dest = p->workspace;
	if (r == 0 && umount2(p->workspace, MNT_DETACH) < 0)
		r = err_sys(e, "prepare the workspace");
	return r;
}

static int clone_all(struct plan *p, const json_t *v, struct err *e)
{
	json_t *list = NULL;
	int r = 0;

	(void)json_get_array(v, "binds", JSON_MAY, &list, e);
	if (!p->private_tmp)
		r = clone_bind(p, "/tmp", "/tmp", false, e);
	if (r == 0 && strcmp(p->mode, "overlay") == 0)
		r = overlay_bind(p, e);
	else if (r == 0)
		r = clone_bind(p, p->workspace, p->workspace, strcmp(p->mode, "ro") == 0, e);
	for (size_t i = 0; r == 0 && i < json_array_size(list); i++) {
		const json_t *b = json_array_get(list, i);
		const char *source = "", *dest = "";
		bool readonly = false;

		(void)json_get_str(b, "source", JSON_MAY, &source, e);
		(void)json_get_str(b, "dest", JSON_MAY, &dest, e);
		(void)json_get_bool(b, "readonly", JSON_MAY, &readonly, e);
		r = clone_bind(p, source, dest, readonly, e);
	}
	return r;
}

static int mount_fresh(const char *type, const char *at, unsigned long flags, const char *options,
		       struct err *e)
{
	if (mount(type, at, type, flags, options) < 0)
		return err_sys(e, "mount %s", at);
	return 0;
}

/* All that was there stays to be seen, none of it can be written to. */
static int make_readonly(struct err *e)
{
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	if (mount_setattr(AT_FDCWD, "/", AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return err_sys(e, "make everything read-only");
	return 0;
}

/* Parts of a fresh /proc that root could turn the machine's knobs with, capabilities or not. */
static int cover_knobs(struct err *e)
{
	static const char *const paths[] = { "/proc/sys", "/proc/sysrq-trigger", "/proc/irq",
					     "/proc/bus", "/proc/fs" };
	struct mount_attr attr = { .attr_set = MOUNT_ATTR_RDONLY };

	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		if (access(paths[i], F_OK) < 0)
			continue;
		if (mount(paths[i], paths[i], NULL, MS_BIND | MS_REC, NULL) < 0 ||
		    mount_setattr(AT_FDCWD, paths[i], AT_RECURSIVE, &attr, sizeof(attr)) < 0)
			return err_sys(e, "protect %s", paths[i]);
	}
	return 0;
}

static int attach_all(struct plan *p, struct err *e)
{
	for (size_t i = 0; i < p->n_binds; i++) {
		const char *dest = p->binds[i].dest;
		autofd int at = open(dest, O_PATH | O_CLOEXEC);
		struct stat st;
		int r;

		if (at < 0 && errno == ENOENT && fstat(p->binds[i].mount_fd, &st) == 0 &&
		    S_ISDIR(st.st_mode) && mkdirs(dest, 0755, NULL, NULL) == 0)
			at = open(dest, O_PATH | O_CLOEXEC); /* below a private /tmp */
		if (at < 0)
			return err_sys(e, "%s", dest);
		r = mnt_attach(p->binds[i].mount_fd, at, e);
		if (r < 0)
			return err_wrap(e, "%s", dest);
	}
	return 0;
}

/* *ret_kind: who is to blame for a failure. */
static int build_view(struct plan *p, const json_t *v, char *ret_kind, struct err *e)
{
	int r;

	*ret_kind = ISOLATE_DENIED;
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return err_sys(e, "separate the mounts");
	r = mount_fresh("proc", "/proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL, e);
	if (r == 0 && !p->probe) {
		*ret_kind = ISOLATE_WRONG;
		r = clone_all(p, v, e);
		*ret_kind = r == -EPERM ? ISOLATE_DENIED : ISOLATE_WRONG;
		if (r < 0)
			return r;
	}
	*ret_kind = ISOLATE_DENIED;
	if (r == 0)
		r = make_readonly(e);
	if (r == 0 && (p->private_tmp || p->probe))
		r = mount_fresh("tmpfs", "/tmp", MS_NOSUID | MS_NODEV, "mode=1777", e);
	if (r == 0 && access("/dev/shm", F_OK) == 0)
		r = mount_fresh("tmpfs", "/dev/shm", MS_NOSUID | MS_NODEV, "mode=1777", e);
	/* sockets are reached through read-only mounts as well; names of hosts may be looked up
	 * here */
	if (r == 0 && p->private_tmp && !p->share_net && access("/run", F_OK) == 0)
		r = mount_fresh("tmpfs", "/run", MS_NOSUID | MS_NODEV, "mode=0755", e);
	if (r == 0)
		r = cover_knobs(e);
	if (r < 0)
		return r;
	*ret_kind = ISOLATE_WRONG;
	return attach_all(p, e);
}

/* --- the rest --- */

static int drop_rights(const struct plan *p, struct err *e)
{
	int r = caps_limit(KEPT_CAPS, e);

	if (r < 0)
		return r;
	if (!p->userns && p->has_uid) {
		gid_t gid = p->has_gid ? p->gid : p->uid;

		if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
		    setresuid(p->uid, p->uid, p->uid) < 0)
			return err_sys(e, "become user %u", p->uid);
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) < 0)
		return err_sys(e, "give up privileges");
	return 0;
}

/* The first process of the session. */
static _Noreturn void inside(struct plan *p, const json_t *v, int exe_fd)
{
	char listen[16], spec[16], *argv[] = { (char[]){ ISOLATE_INSIDE },
					       (char[]){ "--listen-fd" },
					       listen,
					       (char[]){ "--spec-fd" },
					       spec,
					       NULL };
	char *envp[] = { NULL };
	struct err e = ERR_INIT;
	char kind = ISOLATE_DENIED;

	if (!p->share_net)
		raise_loopback();
	if (build_view(p, v, &kind, &e) < 0)
		fail(kind, &e);
	if (p->probe)
		_exit(0);
	if (chdir(p->workspace) < 0) {
		(void)err_sys(&e, "%s", p->workspace);
		fail(ISOLATE_WRONG, &e);
	}
	if (drop_rights(p, &e) < 0)
		fail(ISOLATE_DENIED, &e);
	(void)prctl(PR_SET_PDEATHSIG, (unsigned long)SIGKILL, 0UL, 0UL, 0UL);
	(void)snprintf(listen, sizeof(listen), "%d", ISOLATE_LISTEN);
	(void)snprintf(spec, sizeof(spec), "%d", ISOLATE_SPEC);
	(void)fcntl(ISOLATE_LISTEN, F_SETFD, 0);
	(void)fcntl(ISOLATE_SPEC, F_SETFD, 0);
	(void)fcntl(ISOLATE_PLAN, F_SETFD, FD_CLOEXEC);
	(void)fcntl(ISOLATE_STATUS, F_SETFD, FD_CLOEXEC);
	(void)execveat(exe_fd, "", argv, envp, AT_EMPTY_PATH);
	(void)err_sys(&e, "start the inner execd");
	fail(ISOLATE_WRONG, &e);
}

void isolate_program(int argc, char **argv)
{
	int exe_fd = -EBADF, status = 0;
	struct plan p = { .mode = "rw" };
	struct err e = ERR_INIT;
	json_t *v;
	pid_t pid;

	if (argc < 1 || strcmp(argv[0], ISOLATE_NAME) != 0)
		return;
	exe_fd = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	v = read_plan(&p, &e);
	if (v == NULL || exe_fd < 0 || (!p.probe && p.workspace == NULL)) {
		(void)err_set(&e, EINVAL, "the plan of the session is not readable");
		fail(ISOLATE_WRONG, &e);
	}
	if (leave(&p, &e) < 0)
		fail(ISOLATE_DENIED, &e);
	pid = fork();
	if (pid == 0)
		inside(&p, v, exe_fd);
	if (pid < 0) {
		(void)err_sys(&e, "start the first process");
		fail(ISOLATE_DENIED, &e);
	}
	for (int fd = 0; fd < ISOLATE_N_FDS; fd++)
		(void)close(fd); /* the status is the child's to tell */
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}
