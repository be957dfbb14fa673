/* What a runtime can do, as one table of operations. The server knows nothing else of it.
 *
 * Contract. Every operation takes a struct driver_call that the caller owns and keeps until its
 * `done` is called: exactly once, later, never from inside the operation. While the runtime cannot
 * be reached, operations wait in line for a moment; if it stays away they fail with -EHOSTDOWN.
 * -ECONNRESET: the connection broke with the operation under way, so nobody knows whether it took
 * effect; what exists is told anew once the connection is back.
 *
 * Each time a connection is made, `item` is called for every sandbox that the runtime has, then
 * `up`. Only then do operations run. */
#ifndef OSB_DRIVER_DRIVER_H
#define OSB_DRIVER_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/span.h"
#include "io/loop.h"

enum driver_feature {
	DRIVER_CAN_NETWORK = 1u << 0,
	DRIVER_CAN_MEMORY = 1u << 1,
	DRIVER_CAN_CPU = 1u << 2,
	DRIVER_CAN_PIDS = 1u << 3,
	DRIVER_CAN_IO = 1u << 4,
	DRIVER_CAN_DISK = 1u << 5,
	DRIVER_CAN_PAUSE = 1u << 6,
};

/* What the runtime said of itself when it came up. */
struct driver_info {
	unsigned features; /* enum driver_feature */
	const char *boot_id;
	const char *missing; /* what this host lacks, in words, or "" */
};

enum driver_rootfs { DRIVER_ROOTFS_HOST = 1, DRIVER_ROOTFS_LAYERS, DRIVER_ROOTFS_DIR };

struct driver_volume {
	bool named; /* `from` is NAME[/DIRECTORY...] of the store, otherwise a host path */
	bool read_only;
	bool size_exact;     /* -EEXIST if it has another size */
	uint64_t size_bytes; /* of a named one that is new; 0: no limit */
	const char *from;
	const char *target;
};

/* 0 means no limit. */
struct driver_limits {
	uint64_t memory_bytes;
	uint64_t disk_bytes;
	uint64_t io_read_bps;
	uint64_t io_write_bps;
	uint32_t cpu_milli;
	uint32_t pids;
	uint32_t nofile;
};

struct driver_spec {
	const char *id;
	const char *hostname;
	enum driver_rootfs rootfs;
	const char *dir;           /* DRIVER_ROOTFS_DIR */
	const char *const *layers; /* DRIVER_ROOTFS_LAYERS, the topmost first */
	unsigned n_layers;
	const struct driver_volume *volumes;
	unsigned n_volumes;
	struct driver_limits limits;
	bool network;
	/* What execd is to know (entrypoint, environment, token): a JSON object. Not kept. */
	struct span execd_spec;
};

enum driver_state { DRIVER_RUNNING = 1, DRIVER_PAUSED, DRIVER_DEAD };

struct driver_status {
	char id[64];
	enum driver_state state;
	int pid;
	int exit_status; /* DRIVER_DEAD: as from waitpid, -1 if unknown */
	bool network;
	uint64_t oom_kills;
	char ip4[16], ip6[48];
};

struct driver_usage {
	uint64_t cpu_usec;
	uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes;
	uint64_t disk_bytes, disk_limit_bytes; /* UINT64_MAX: not counted */
	uint64_t oom_kills;
	uint32_t pids, pids_limit;
};

struct driver;

/* One operation under way. */
struct driver_call {
	/* error: 0 or a negative errno; `why` in words, for the call only */
	void (*done)(struct driver_call *c, int error, const char *why);
	/* what came back, if there was no error */
	union {
		struct driver_status status; /* create */
		struct driver_usage usage;   /* stat */
		int fd;                      /* dial: connecting, the callee's */
	};
	/* the driver's own */
	struct list link;
	uint64_t cookie;
	void *request;
	int error;
};

struct driver_events {
	void (*item)(void *ctx, const struct driver_status *st);
	void (*up)(void *ctx, const struct driver_info *info);
	void (*down)(void *ctx, const char *why);
	/* PID 1 is gone and every process with it; delete() still has to be called */
	void (*exited)(void *ctx, const char *id, int status, uint64_t oom_kills);
	void (*oom)(void *ctx, const char *id, uint64_t oom_kills);
};

struct driver_ops {
	const char *name;
	void (*create)(struct driver *d, const struct driver_spec *spec, struct driver_call *c);
	void (*remove)(struct driver *d, const char *id, struct driver_call *c);
	void (*pause)(struct driver *d, const char *id, struct driver_call *c);
	void (*resume)(struct driver *d, const char *id, struct driver_call *c);
	void (*stat)(struct driver *d, const char *id, struct driver_call *c);
	/* a TCP connection to that port on the sandbox's own loopback */
	void (*dial)(struct driver *d, const char *id, uint16_t port, bool ip6,
		     struct driver_call *c);
	/* clean up what no sandbox owns, when there is time */
	void (*sweep)(struct driver *d, struct driver_call *c);
	/* where its execd listens, as http_upstream takes it; a relative path is meant from the
	 * state directory, which must be the working directory */
	int (*execd_address)(struct driver *d, const char *id, char *out, size_t size);
	bool (*is_up)(const struct driver *d);
	/* Sandboxes live on. Calls under way end with -ECANCELED. */
	void (*close)(struct driver *d, void (*closed)(void *ctx), void *ctx);
};

struct driver {
	const struct driver_ops *ops;
	const struct driver_events *events;
	void *events_ctx;
};

#endif
