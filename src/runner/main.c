/* opensandbox-runner: makes and keeps sandboxes. See runner.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/log.h"
#include "base/util.h"
#include "runner/adopt.h"
#include "runner/box.h"
#include "runner/guard.h"
#include "runner/options.h"
#include "runner/peer.h"
#include "runner/sweep.h"
#include "sandbox/block.h"
#include "sandbox/kit.h"
#include "sandbox/probe.h"
#include "sys/caps.h"
#include "sys/fsat.h"

/* ---- setting up ---- */

/* Words for the operator, collected over the start. */
static void lacks(struct runner *r, const char *what)
{
	size_t len = strlen(r->missing);

	log_warn("this host lacks something", { "what", what });
	(void)snprintf(r->missing + len, sizeof(r->missing) - len, "%s%s", len > 0 ? "; " : "",
		       what);
}

static void default_tag(struct runner *r, const char *state_dir)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (; *state_dir != '\0'; state_dir++)
		hash = (hash ^ (unsigned char)*state_dir) * 0x100000001b3;
	(void)snprintf(r->tag, sizeof(r->tag), "%06x", (unsigned)(hash & 0xffffff));
}

static int read_boot_id(struct runner *r, struct err *e)
{
	ssize_t n = fsat_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", r->boot_id,
			      sizeof(r->boot_id));

	if (n < 36)
		return err_set(e, EIO, "cannot read the boot id");
	r->boot_id[36] = '\0';
	return 0;
}

static int forward(const char *file)
{
	char now[8] = "";

	if (fsat_read(AT_FDCWD, file, now, sizeof(now)) > 0 && now[0] != '0')
		return 0;
	return fsat_put(AT_FDCWD, file, "1");
}

/* All or nothing: a sandbox gets a network only with its filter in place. */
static void set_up_network(struct runner *r, const struct options *o)
{
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < o->n_dns; i++)
		if (net_add_dns(&r->net, o->dns[i], &e) < 0)
			lacks(r, e.msg);
	net_find_dns(&r->net);
	if (o->no_network)
		return;
	if ((r->ground.can & GROUND_LINKS) == 0)
		return; /* that has been said */
	r->policy = o->policy;
	r->may_filter = true;
	if (nft_install(&r->net, &r->policy, &r->nft_pid, &e) < 0) {
		lacks(r, e.msg);
		return;
	}
	if (forward("/proc/sys/net/ipv4/ip_forward") < 0) {
		lacks(r, "network: forwarding is off and cannot be turned on");
		return;
	}
	r->net.wired = true;
	r->features |= MSG_CAN_NETWORK;
	if (o->ipv6 && forward("/proc/sys/net/ipv6/conf/all/forwarding") == 0) {
		r->net.ipv6 = true;
		r->features |= MSG_CAN_IPV6;
	}
}

static void set_up_limits(struct runner *r)
{
	static const struct {
		uint32_t feature;
		const char *words;
	} wanted[] = {
		{ MSG_CAN_MEMORY, "memory limits: no memory controller" },
		{ MSG_CAN_CPU, "cpu limits: no cpu controller" },
		{ MSG_CAN_PIDS, "process limits: no pids controller" },
		{ MSG_CAN_IO, "disk bandwidth limits: no io controller or no disk" },
		{ MSG_CAN_PAUSE, "pause: no freezer" },
	};
	struct err why = ERR_INIT;

	r->features |= cgroup_features(&r->cgroups);
	/* The kernel counts processes by user namespace and user, and a limit of that holds for
	 * everyone but the host's root: with a single user that is a limit for the sandbox. */
	if ((r->features & MSG_CAN_PIDS) == 0 && r->ground.uids == 1) {
		r->pids_by_user = true;
		r->features |= MSG_CAN_PIDS;
	}
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if ((r->features & wanted[i].feature) == 0)
			lacks(r, wanted[i].words);
	if (r->cgroups.crowded)
		lacks(r,
		      "cgroup v2: processes in its root cannot be moved, so it gives no controllers");
	if ((r->ground.can & GROUND_DISKS) == 0)
		return;
	r->disk_way = disk_probe(&r->state, &why);
	if (r->disk_way != DISK_NONE)
		r->features |= MSG_CAN_DISK;
	else
		lacks(r, why.msg);
}

/* What only the host's root can give. */
static void set_up_rootless(struct runner *r)
{
	static const struct {
		unsigned can;
		const char *words;
	} wanted[] = {
		{ GROUND_LINKS, "network: it needs root, so there is a loopback only" },
		{ GROUND_DISKS, "disk limits and volumes with a size: they need root" },
		{ GROUND_RANGES, "user ids of its own for each sandbox: they need root" },
	};

	if (r->ground.host_uid == 0)
		return;
	r->features |= MSG_ROOTLESS;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if ((r->ground.can & wanted[i].can) == 0)
			lacks(r, wanted[i].words);
	if (r->ground.uids == 1 || r->ground.gids == 1)
		lacks(r, "users other than root: newuidmap gave no ids (see /etc/subuid, subgid)");
}

static int open_blocks(struct runner *r, struct err *e)
{
	if ((r->ground.can & GROUND_REGISTER) != 0)
		return block_open(&r->blocks, r->state.path, e);
	block_alone(&r->blocks);
	return 0;
}

static pid_t cgroups_near(const struct ground *g)
{
	if ((g->can & GROUND_CGROUPS) != 0)
		return 0;
	return g->neighbour != 0 ? g->neighbour : getpid();
}

/* Whom the numbers in /proc mean decides whose maps we write. */
static int check_proc(struct err *e)
{
	char self[16] = "", number[16];

	(void)snprintf(number, sizeof(number), "%d", (int)getpid());
	if (readlink("/proc/self", self, sizeof(self) - 1) < 0)
		return err_sys(e, "read /proc");
	if (strcmp(self, number) != 0)
		return err_set(e, EINVAL, "/proc is that of another pid namespace");
	return 0;
}

static int set_up(struct runner *r, const struct options *o, struct err *e)
{
	struct sysinfo info;
	char name[32];
	int q, table_fd = -EBADF;

	if (sysinfo(&info) == 0)
		r->ram_bytes = (uint64_t)info.totalram * info.mem_unit;
	if (o->tag != NULL)
		(void)snprintf(r->tag, sizeof(r->tag), "%s", o->tag);
	else
		default_tag(r, o->state_dir);
	(void)snprintf(name, sizeof(name), "opensandbox-%s", r->tag);

	q = check_proc(e);
	if (q == 0)
		q = read_boot_id(r, e);
	if (q == 0)
		q = ground_take(&r->ground, o->state_dir, e);
	if (q == 0)
		q = kit_enter(e);
	if (q == 0)
		q = state_open(&r->state, o->state_dir, e);
	for (unsigned i = 0; q == 0 && i < o->n_allow; i++)
		q = state_allow(&r->state, o->allow[i], e);
	if (q == 0)
		q = open_blocks(r, e);
	if (q == 0)
		q = hostimg_build(r->state.host_fd, r->host_image, e);
	if (q == 0)
		q = cgroup_setup(&r->cgroups, "/proc/self/mountinfo", name,
				 cgroups_near(&r->ground), r->state.boxes_fd, e);
	if (q == 0)
		q = seccomp_build(&r->filter, e);
	if (q == 0)
		q = state_open_file(&r->state, "table", &table_fd, e);
	if (q == 0)
		q = net_setup(&r->net, r->tag, &r->blocks, e);
	if (q == 0 && o->net_pool != NULL)
		q = net_set_pool(&r->net, o->net_pool, e);
	if (q < 0)
		return q;
	table_open(&r->table, table_fd);
	r->state.disks = (r->ground.can & GROUND_DISKS) != 0;
	r->net.mtu = o->mtu;
	r->net.want = o->pool;
	r->net.last_gid = (r->ground.can & GROUND_RANGES) != 0 ? INT32_MAX : r->ground.gids - 1;
	set_up_rootless(r);
	set_up_limits(r);
	q = kit_setup(&r->state, &r->cgroups.shown, (r->ground.can & GROUND_NODES) != 0, e);
	if (q == 0)
		q = probe_rootfs(&r->state, r->host_image, &r->ground,
				 block_uid_base(&r->blocks, 0), e);
	if (q < 0)
		return q;
	set_up_network(r, o);
	q = kit_strip(&r->state, e);
	return q < 0 ? q : loop_init(&r->loop, e);
}

/* ---- running ---- */

static bool on_idle(void *arg)
{
	struct runner *r = arg;
	struct err e = ERR_INIT;
	int q;

	sweep_step(r);
	/* who waits for a sandbox does not wait for the next one's network */
	if (r->n_creating > 0)
		return false;
	q = net_refill(&r->net, &e);
	if (q < 0)
		log_warn("cannot prepare a network namespace", { "why", e.msg });
	return q > 0;
}

static void on_tick(void *arg)
{
	box_tick(arg);
	sweep_tick(arg);
}

static void on_signal(struct watch *w, uint32_t events UNUSED)
{
	struct runner *r = CONTAINER_OF(w, struct runner, signals);
	struct signalfd_siginfo si;

	if (read(w->fd, &si, sizeof(si)) == (ssize_t)sizeof(si) && si.ssi_signo != SIGCHLD)
		r->loop.stop = true;
}

/* SIGTERM ends the runner, never the sandboxes. Children are waited for by their pidfds. */
static int watch_signals(struct runner *r, struct err *e)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN }, dfl = { .sa_handler = SIG_DFL };
	sigset_t set;
	int fd, q;

	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &dfl, NULL); /* KILL, STOP and libc's own refuse */
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0 || sigaction(SIGPIPE, &ignore, NULL) < 0 ||
	    sigaction(SIGHUP, &ignore, NULL) < 0)
		return err_sys(e, "set up signals");
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return err_sys(e, "watch signals");
	q = loop_add(&r->loop, &r->signals, fd, EPOLLIN, on_signal);
	return q < 0 ? err_code(e, q, "watch signals") : 0;
}

/* Without sandboxes nothing of this instance need stay on the host. */
static void leave(struct runner *r)
{
	struct err e = ERR_INIT;

	sweep_leave(r);
	if (r->boxes.count != 0)
		return;
	cgroup_teardown(&r->cgroups);
	/* a former runner's may be there even if this one has none */
	if (r->may_filter && nft_remove(&r->net, &e) < 0 && r->net.wired)
		log_warn("cannot remove the filter", { "why", e.msg });
	block_release(&r->blocks);
}

static int run(struct runner *r, const struct options *o, struct err *e)
{
	int q;

	q = set_up(r, o, e);
	if (q < 0)
		cgroup_teardown(&r->cgroups);
	if (q == 0)
		q = watch_signals(r, e);
	if (q == 0 && r->net.wired)
		q = guard_start(r, e);
	if (q == 0)
		q = adopt_all(r, e);
	if (q == 0)
		q = o->fd >= 0 ? peer_serve_fd(r, o->fd, e) : peer_listen(r, o->socket, e);
	if (q < 0)
		return q;
	log_info("runner ready", { "state", r->state.path }, { "tag", r->tag },
		 { "missing", r->missing });
	loop_run(&r->loop);
	leave(r);
	return 0;
}

int main(int argc, char **argv)
{
	static struct runner r;
	struct options o;
	struct rlimit files;
	struct err e = ERR_INIT;
	int q;

	q = options_read(&o, argc, argv);
	if (q != 0)
		return q > 0 ? 0 : 2;
	log_setup("opensandbox-runner", o.log_level, LOG_TEXT);
	(void)umask(0); /* every mode in here is meant as written */
	/* several descriptors per sandbox */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	map_init(&r.boxes);
	list_init(&r.waiting);
	list_init(&r.short_of_memory);
	list_init(&r.out);
	r.listen.fd = r.peer.fd = r.broom.fd = r.signals.fd = r.guard.fd = -EBADF;
	r.loop.idle = on_idle;
	r.loop.tick = on_tick;
	r.loop.arg = &r;
	if (run(&r, &o, &e) < 0) {
		log_error(e.msg);
		return 1;
	}
	return 0;
}
