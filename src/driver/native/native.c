#include "driver/native/native.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "driver/native/link.h"
#include "sys/fsat.h"

#define MAX_EXECD_BYTES MIB(64)

struct native {
	struct driver driver;
	struct link link;
	struct arena arena; /* options */
	int execd_fd;       /* sealed memfd */
	char boot_id[sizeof(((struct msg_hello_reply *)0)->boot_id)];
	char missing[sizeof(((struct msg_hello_reply *)0)->missing)];
	unsigned features;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

static struct native *of(struct driver *d)
{
	return CONTAINER_OF(d, struct native, driver);
}

/* --- memory files --- */

static int memfd_sealed(const char *name, const void *data, size_t len, int *ret_fd, struct err *e)
{
	autofd int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_sys(e, "memfd '%s'", name);
	r = fsat_write_all(fd, data, len);
	if (r < 0)
		return err_code(e, r, "write memfd '%s'", name);
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
		return err_sys(e, "seal memfd '%s'", name);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int load_execd(int fd, int *ret_fd, struct err *e)
{
	autofree char *data = NULL;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at execd");
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > MAX_EXECD_BYTES)
		return err_set(e, EINVAL, "execd is not a program");
	data = malloc((size_t)st.st_size);
	if (data == NULL)
		return err_code(e, ENOMEM, "load execd");
	r = fsat_read_all(fd, data, (size_t)st.st_size);
	if (r < 0)
		return err_code(e, r, "read execd");
	return memfd_sealed("execd", data, (size_t)st.st_size, ret_fd, e);
}

/* --- operations --- */

/* Text into a field that is NUL to its end; false if it does not fit. */
static bool put(char *field, size_t size, const char *text)
{
	return text == NULL || span_copy(span_str(text), field, size);
}

static bool fill_volumes(struct msg_create *m, const struct driver_spec *spec)
{
	if (spec->n_volumes > MSG_MAX_VOLUMES)
		return false;
	m->n_volumes = spec->n_volumes;
	for (unsigned i = 0; i < spec->n_volumes; i++) {
		const struct driver_volume *from = &spec->volumes[i];
		struct msg_volume *to = &m->volumes[i];

		to->source = from->named ? MSG_FROM_STORE : MSG_FROM_HOST;
		to->read_only = from->read_only;
		to->size_bytes = from->size_bytes;
		to->size_exact = from->size_exact;
		if (!put(to->from, sizeof(to->from), from->from) ||
		    !put(to->target, sizeof(to->target), from->target))
			return false;
	}
	return true;
}

static bool fill_create(struct msg_create *m, const struct driver_spec *spec)
{
	static const uint32_t rootfs[] = {
		[DRIVER_ROOTFS_HOST] = MSG_ROOTFS_HOST,
		[DRIVER_ROOTFS_LAYERS] = MSG_ROOTFS_LAYERS,
		[DRIVER_ROOTFS_DIR] = MSG_ROOTFS_DIR,
	};

	m->flags = spec->network ? MSG_WITH_NETWORK : 0;
	m->rootfs = rootfs[spec->rootfs];
	m->n_layers = spec->n_layers;
	m->limits = (struct msg_limits){
		.memory_bytes = spec->limits.memory_bytes,
		.disk_bytes = spec->limits.disk_bytes,
		.io_read_bps = spec->limits.io_read_bps,
		.io_write_bps = spec->limits.io_write_bps,
		.cpu_milli = spec->limits.cpu_milli,
		.pids = spec->limits.pids,
		.nofile = spec->limits.nofile,
	};
	if (spec->n_layers > MSG_MAX_LAYERS)
		return false;
	for (unsigned i = 0; i < spec->n_layers; i++)
		if (!put(m->layers[i], sizeof(m->layers[i]), spec->layers[i]))
			return false;
	return put(m->id, sizeof(m->id), spec->id) &&
	       put(m->hostname, sizeof(m->hostname), spec->hostname) &&
	       put(m->dir, sizeof(m->dir), spec->dir) && fill_volumes(m, spec);
}

static void native_create(struct driver *d, const struct driver_spec *spec, struct driver_call *c)
{
	struct native *n = of(d);
	struct link_request *rq = link_request_new(MSG_CREATE);
	int spec_fd, r;

	if (rq == NULL) {
		link_call(&n->link, c, NULL);
		return;
	}
	if (!fill_create((struct msg_create *)&rq->head, spec)) {
		free(rq);
		link_fail(&n->link, c, -EINVAL);
		return;
	}
	r = memfd_sealed("spec", spec->execd_spec.p, spec->execd_spec.len, &spec_fd, NULL);
	if (r < 0) {
		free(rq);
		link_fail(&n->link, c, r);
		return;
	}
	rq->fds[0] = n->execd_fd;
	rq->fds[1] = spec_fd;
	rq->n_fds = 2;
	rq->n_own = 1;
	link_call(&n->link, c, rq);
}

static void call_id(struct driver *d, uint32_t type, const char *id, struct driver_call *c)
{
	struct native *n = of(d);
	struct link_request *rq = link_request_new(type);
	struct msg_id *m = rq != NULL ? (struct msg_id *)&rq->head : NULL;

	if (m != NULL && !put(m->id, sizeof(m->id), id)) {
		free(rq);
		link_fail(&n->link, c, -ENOENT);
		return;
	}
	link_call(&n->link, c, rq);
}

static void native_remove(struct driver *d, const char *id, struct driver_call *c)
{
	call_id(d, MSG_DELETE, id, c);
}

static void native_pause(struct driver *d, const char *id, struct driver_call *c)
{
	call_id(d, MSG_PAUSE, id, c);
}

static void native_resume(struct driver *d, const char *id, struct driver_call *c)
{
	call_id(d, MSG_RESUME, id, c);
}

static void native_stat(struct driver *d, const char *id, struct driver_call *c)
{
	call_id(d, MSG_STAT, id, c);
}

static void native_dial(struct driver *d, const char *id, uint16_t port, bool ip6,
			struct driver_call *c)
{
	struct native *n = of(d);
	struct link_request *rq = link_request_new(MSG_DIAL);
	struct msg_dial *m = rq != NULL ? (struct msg_dial *)&rq->head : NULL;

	if (m != NULL && !put(m->id, sizeof(m->id), id)) {
		free(rq);
		link_fail(&n->link, c, -ENOENT);
		return;
	}
	if (m != NULL) {
		m->port = port;
		m->family = ip6 ? MSG_IP6 : MSG_IP4;
	}
	link_call(&n->link, c, rq);
}

static void native_sweep(struct driver *d, struct driver_call *c)
{
	link_call(&of(d)->link, c, link_request_new(MSG_SWEEP));
}

static int native_execd_address(struct driver *d, const char *id, char *out, size_t size)
{
	int len;

	(void)d;
	/* relative to the state directory, where we are: its own path may be too long for the
	 * address of a socket, and /proc/self/fd is closed to a process that gave up its rights */
	len = snprintf(out, size, "unix:sock/%s", id);
	return len < 0 || (size_t)len >= size ? -ENAMETOOLONG : 0;
}

static bool native_is_up(const struct driver *d)
{
	return CONTAINER_OF((struct driver *)(uintptr_t)d, struct native, driver)->link.state ==
	       LINK_UP;
}

/* --- what the runner says --- */

static void to_status(const struct msg_item *m, struct driver_status *st)
{
	static const enum driver_state states[] = {
		[MSG_STATE_RUNNING] = DRIVER_RUNNING,
		[MSG_STATE_PAUSED] = DRIVER_PAUSED,
		[MSG_STATE_DEAD] = DRIVER_DEAD,
	};

	*st = (struct driver_status){
		.state = DRIVER_DEAD,
		.pid = m->pid,
		.exit_status = m->status,
		.network = m->network != 0,
		.oom_kills = m->oom_kills,
	};
	if (m->state < ARRAY_LEN(states) && states[m->state] != 0)
		st->state = states[m->state];
	memcpy(st->id, m->id, sizeof(st->id) - 1);
	memcpy(st->ip4, m->ip4, sizeof(st->ip4) - 1);
	memcpy(st->ip6, m->ip6, sizeof(st->ip6) - 1);
}

static struct native *of_link(struct link *l)
{
	return CONTAINER_OF(l, struct native, link);
}

static void on_hello(struct link *l, const struct msg_hello_reply *m)
{
	static const struct {
		unsigned theirs, ours;
	} features[] = {
		{ MSG_CAN_NETWORK, DRIVER_CAN_NETWORK }, { MSG_CAN_MEMORY, DRIVER_CAN_MEMORY },
		{ MSG_CAN_CPU, DRIVER_CAN_CPU },         { MSG_CAN_PIDS, DRIVER_CAN_PIDS },
		{ MSG_CAN_IO, DRIVER_CAN_IO },           { MSG_CAN_DISK, DRIVER_CAN_DISK },
		{ MSG_CAN_PAUSE, DRIVER_CAN_PAUSE },
	};
	struct native *n = of_link(l);

	n->features = 0;
	for (size_t i = 0; i < ARRAY_LEN(features); i++)
		if ((m->features & features[i].theirs) != 0)
			n->features |= features[i].ours;
	memcpy(n->boot_id, m->boot_id, sizeof(n->boot_id) - 1);
	memcpy(n->missing, m->missing, sizeof(n->missing) - 1);
}

static void on_item(struct link *l, const struct msg_item *m)
{
	struct native *n = of_link(l);
	struct driver_status st;

	to_status(m, &st);
	n->driver.events->item(n->driver.events_ctx, &st);
}

static void on_listed(struct link *l)
{
	struct native *n = of_link(l);
	const struct driver_info info = {
		.features = n->features,
		.boot_id = n->boot_id,
		.missing = n->missing,
	};

	n->driver.events->up(n->driver.events_ctx, &info);
}

static void on_event(struct link *l, const struct msg_event *m)
{
	struct native *n = of_link(l);
	char id[MSG_ID_SIZE + 1] = "";

	memcpy(id, m->id, MSG_ID_SIZE);
	if (m->kind == MSG_EVENT_EXITED)
		n->driver.events->exited(n->driver.events_ctx, id, m->status, m->oom_kills);
	else if (m->kind == MSG_EVENT_OOM)
		n->driver.events->oom(n->driver.events_ctx, id, m->oom_kills);
}

static void on_answer(struct link *l, struct driver_call *c, const struct msg_head *head, int fd)
{
	/* all answers begin alike */
	const struct msg_reply *reply = (const struct msg_reply *)head;
	char why[sizeof(reply->err.msg) + 1] = "";
	int error = reply->err.code > 0 ? -reply->err.code : 0;

	(void)l;
	memcpy(why, reply->err.msg, sizeof(reply->err.msg));
	if (error == 0 && head->type == MSG_CREATE) {
		to_status((const struct msg_item *)head, &c->status);
	} else if (error == 0 && head->type == MSG_STAT) {
		const struct msg_stat_reply *m = (const struct msg_stat_reply *)head;

		c->usage = (struct driver_usage){
			.cpu_usec = m->cpu_usec,
			.memory_bytes = m->memory_bytes,
			.memory_peak_bytes = m->memory_peak_bytes,
			.memory_limit_bytes = m->memory_limit_bytes,
			.disk_bytes = m->disk_bytes,
			.disk_limit_bytes = m->disk_limit_bytes,
			.oom_kills = m->oom_kills,
			.pids = m->pids,
			.pids_limit = m->pids_limit,
		};
	} else if (error == 0 && head->type == MSG_DIAL) {
		c->fd = fd;
		if (fd < 0)
			error = -EPROTO;
		fd = -EBADF;
	}
	if (fd >= 0)
		(void)close(fd);
	c->done(c, error, why);
}

static void on_down(struct link *l, const char *why)
{
	struct native *n = of_link(l);

	n->driver.events->down(n->driver.events_ctx, why);
}

static const struct link_handlers handlers = {
	.hello = on_hello,
	.item = on_item,
	.listed = on_listed,
	.event = on_event,
	.answer = on_answer,
	.down = on_down,
};

/* --- life --- */

static void native_free(struct native *n)
{
	fd_close(&n->execd_fd);
	arena_free(&n->arena);
	free(n);
}

static void link_gone(struct link *l)
{
	struct native *n = of_link(l);
	void (*closed)(void *ctx) = n->closed;
	void *ctx = n->closed_ctx;

	native_free(n);
	closed(ctx);
}

static void native_close(struct driver *d, void (*closed)(void *ctx), void *ctx)
{
	struct native *n = of(d);

	n->closed = closed;
	n->closed_ctx = ctx;
	link_close(&n->link, link_gone);
}

static const struct driver_ops native_ops = {
	.name = "native",
	.create = native_create,
	.remove = native_remove,
	.pause = native_pause,
	.resume = native_resume,
	.stat = native_stat,
	.dial = native_dial,
	.sweep = native_sweep,
	.execd_address = native_execd_address,
	.is_up = native_is_up,
	.close = native_close,
};

/* opensandbox-runner --fd 3 --state-dir DIR [--allow-path PATH]... */
static const char **runner_args(const struct native_options *opt)
{
	unsigned max = 9 + 2 * (opt->n_allowed_paths + opt->n_dns + opt->n_open_networks), at = 0;
	const char **args = calloc(max, sizeof(*args));
	const struct {
		const char *option;
		const char *const *items;
		unsigned n;
	} lists[] = {
		{ "--allow-path", opt->allowed_paths, opt->n_allowed_paths },
		{ "--dns", opt->dns, opt->n_dns },
		{ "--open-net", opt->open_networks, opt->n_open_networks },
	};

	if (args == NULL)
		return NULL;
	args[at++] = opt->runner_path;
	args[at++] = "--fd";
	args[at++] = "3";
	args[at++] = "--state-dir";
	args[at++] = opt->state_dir;
	args[at++] = "--log-level";
	args[at++] = opt->log_level;
	if (opt->ipv6)
		args[at++] = "--ipv6";
	for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
		for (unsigned i = 0; i < lists[l].n; i++) {
			args[at++] = lists[l].option;
			args[at++] = lists[l].items[i];
		}
	}
	return args;
}

int native_keeper(const struct native_options *opt, struct keeper *ret, struct err *e)
{
	const char **args;
	int r;

	if (opt->runner_socket != NULL) {
		*ret = (struct keeper){ -EBADF, -1 };
		return 0;
	}
	if (access(opt->runner_path, X_OK) < 0)
		return err_sys(e, "the runner '%s'", opt->runner_path);
	args = runner_args(opt);
	if (args == NULL)
		return err_code(e, ENOMEM, "the runner's arguments");
	r = keeper_start(args, ret, e); /* the other process has its own copy */
	free(args);
	return r;
}

int native_new(struct io_loop *loop, const struct native_options *opt, const struct keeper *keeper,
	       const struct driver_events *events, void *ctx, struct driver **ret, struct err *e)
{
	autofd int execd_fd = -EBADF;
	struct native *n;
	int r;

	r = load_execd(opt->execd_fd, &execd_fd, e);
	if (r < 0)
		return r;
	n = calloc(1, sizeof(*n));
	if (n == NULL)
		return err_code(e, ENOMEM, "driver");
	n->driver = (struct driver){ &native_ops, events, ctx };
	n->execd_fd = TAKE_FD(execd_fd);
	n->arena = ARENA_INIT(MIB(1));
	link_init(loop, &n->link, &handlers);
	n->link.max_calls = opt->max_queue;
	n->link.keeper_fd = keeper->fd;
	if (opt->runner_socket != NULL)
		n->link.socket_path = arena_strdup(&n->arena, opt->runner_socket);
	link_start(&n->link);
	*ret = &n->driver;
	return 0;
}
