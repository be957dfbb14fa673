/* What the server and the runner say to each other.
 *
 * Transport: one SOCK_SEQPACKET unix socket, one message per packet, fixed sizes, descriptors as
 * SCM_RIGHTS. The runner is started with `--fd N` (one end of a socketpair; it leaves when the
 * other end closes, sandboxes live on) or `--socket PATH` (it listens there and serves one peer at
 * a time).
 *
 * The server sends requests, each with a cookie of its choice. Every request gets exactly one
 * final answer: a message of the same type and cookie, size as in struct msg_kind. Answers may
 * come in another order than the requests (a create takes longer than a dial). MSG_LIST answers
 * with any number of MSG_ITEM first. MSG_EVENT comes unasked, cookie 0. MSG_HELLO must be the
 * first request. A message that does not fit the table ends the connection: nothing in here is
 * ever parsed as text, and all of it is checked again by the runner, which trusts nobody.
 *
 * Sockets: a sandbox's execd listens on STATE/sock/ID (a unix stream socket owned by the peer's
 * uid; connect through /proc/self/fd/DIR/ID when the path is too long for sun_path). connect()
 * works from the moment MSG_CREATE is answered until the sandbox is gone, also after a restart of
 * either program, and then fails with ECONNREFUSED or ENOENT.
 *
 * PID 1 of a sandbox is started as
 *	execd --listen-fd 3 --spec-fd 4
 * with an empty environment, cwd "/", stdin /dev/null, stdout and stderr to the log descriptor
 * (or /dev/null), and no other descriptor. What the spec memfd holds (entrypoint, environment,
 * token) is between the server and execd; the runner only checks that it is sealed and small. */
#ifndef OSB_SANDBOX_MSG_H
#define OSB_SANDBOX_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MSG_VERSION 1u

#define MSG_ID_SIZE 64 /* sandbox ids: 1..63 of [a-z0-9-], first a letter or digit; with NUL */
#define MSG_NAME_SIZE \
	80 /* names below STATE/layers and STATE/volumes: [A-Za-z0-9._-], no dot first */
#define MSG_PATH_SIZE   512 /* absolute and clean, with NUL */
#define MSG_MAX_LAYERS  128
#define MSG_MAX_VOLUMES 16
#define MSG_MAX_FDS     3
#define MSG_SPEC_MAX    (1u << 20) /* bytes in the spec memfd */

/* What a limit may be if it is not 0 (none). Bytes end where sums and products could wrap. */
#define MSG_MIN_MEMORY MIB(4)
#define MSG_MIN_DISK   MIB(1)
#define MSG_MIN_VOLUME MIB(16) /* room for a journal */
#define MSG_MAX_BYTES  (UINT64_C(1) << 50)
#define MSG_MIN_CPU    10 /* thousandths */
#define MSG_MAX_CPU    10000000
#define MSG_MIN_PIDS   4
#define MSG_MAX_PIDS   (1u << 22)
#define MSG_MIN_NOFILE 16
#define MSG_MAX_NOFILE (1u << 30)

#define MSG_LISTEN_FD  3 /* execd's descriptors */
#define MSG_SPEC_FD    4

enum msg_type {
	MSG_HELLO = 1,
	MSG_CREATE,
	MSG_DELETE,
	MSG_PAUSE,
	MSG_RESUME,
	MSG_LIST,
	MSG_STAT,
	MSG_DIAL,
	MSG_SWEEP,
	MSG_ITEM,  /* runner -> server only */
	MSG_EVENT, /* runner -> server only */
	MSG_TYPE_END
};

struct msg_head {
	uint32_t type; /* enum msg_type */
	uint32_t size; /* of the whole message; must equal the packet's */
	uint64_t cookie;
};

/* A request that names a sandbox and nothing else: DELETE, PAUSE, RESUME, STAT. */
struct msg_id {
	struct msg_head head;
	char id[MSG_ID_SIZE]; /* NUL to the end */
};

/* A request without arguments: LIST, SWEEP. */
struct msg_plain {
	struct msg_head head;
};

/* An answer that is a code and words: DELETE, PAUSE, RESUME, LIST, and the front of the others.
 * code is 0 or a positive errno. Those that matter to the server:
 *	EEXIST    create: the id is taken           ENOENT  no such sandbox
 *	EINVAL    a field is out of its range       EBUSY   the sandbox is being made or deleted
 *	ENOTSUP   this host cannot do it (network without nftables, a limit without its controller)
 *	ENOSPC    no address, uid range or disk left         EPERM  path not on the allow-list
 *	ECONNREFUSED  the sandbox has no process any more (dial, pause, ...) */
struct msg_reply {
	struct msg_head head;
	struct err err;
};

/* HELLO: who speaks. */
struct msg_hello {
	struct msg_head head;
	uint32_t version; /* MSG_VERSION */
	uint32_t reserved;
};

enum msg_feature {
	MSG_CAN_NETWORK = 1u << 0, /* network=on creates work (nftables there, forwarding on) */
	MSG_CAN_IPV6 = 1u << 1,
	MSG_CAN_MEMORY = 1u << 2,
	MSG_CAN_CPU = 1u << 3,
	MSG_CAN_PIDS = 1u << 4,
	MSG_CAN_IO = 1u << 5,
	MSG_CAN_DISK = 1u << 6,
	MSG_CAN_PAUSE = 1u << 7,
	MSG_CAN_SWAP_LIMIT = 1u << 8,
	MSG_ROOTLESS = 1u << 9,
};

struct msg_hello_reply {
	struct msg_head head;
	struct err err;
	uint32_t version;
	uint32_t features; /* enum msg_feature */
	char tag[16];      /* this instance: in names of interfaces, cgroups and tables */
	char boot_id[40];  /* the running kernel's; differs after a reboot */
	char missing[512]; /* what this host lacks, in words, or "" */
};

/* Where a layer or a volume comes from. */
enum msg_source {
	MSG_FROM_STORE = 1, /* STATE/layers/NAME or STATE/volumes/NAME[/DIRECTORY...] */
	MSG_FROM_HOST, /* path: an absolute host path at or below an --allow-path of the runner */
};

enum msg_rootfs {
	MSG_ROOTFS_HOST = 1, /* the machine's own /usr, synthetic rest; no layers */
	MSG_ROOTFS_LAYERS,   /* layers[0] is the topmost */
	MSG_ROOTFS_DIR,      /* dir: a root file system directory on an --allow-path; no layers */
};

struct msg_volume {
	uint32_t source;    /* enum msg_source */
	uint32_t read_only; /* 0 or 1 */
	/* From the store only: what it can hold at most, if it is new. >= 16 MiB, or 0: no limit.
	 * With size_exact (0 or 1) a size that it does not have is -EEXIST. */
	uint64_t size_bytes;
	uint32_t size_exact;
	uint32_t reserved;
	char from[MSG_PATH_SIZE];
	char target[MSG_PATH_SIZE]; /* made if missing; links in it stay inside the sandbox */
};

enum msg_create_flag {
	MSG_WITH_NETWORK = 1u << 0,
	MSG_WITH_LOG = 1u << 1, /* a third descriptor: the log, the write end of a pipe */
	MSG_ROOTFS_READONLY = 1u << 2,
};

/* A limit of 0 means none. One that this host cannot hold is refused, never dropped. */
struct msg_limits {
	uint64_t memory_bytes; /* >= 4 MiB */
	uint64_t swap_bytes;   /* on top of memory; 0 = no swap for a sandbox with a memory limit */
	uint64_t disk_bytes;   /* >= 1 MiB; everything written outside volumes */
	uint64_t io_read_bps;
	uint64_t io_write_bps;
	uint32_t cpu_milli; /* 1000 = one core; >= 10 */
	uint32_t pids;      /* >= 4 */
	uint32_t nofile;    /* 0 = 1048576 or what the host allows */
	uint32_t reserved;
};

/* CREATE; descriptors: execd (sealed memfd, static program), spec (sealed memfd), [log]. */
struct msg_create {
	struct msg_head head;
	char id[MSG_ID_SIZE];
	char hostname[MSG_ID_SIZE]; /* same alphabet as ids */
	uint32_t flags;             /* enum msg_create_flag */
	uint32_t rootfs;            /* enum msg_rootfs */
	uint32_t n_layers;
	uint32_t n_volumes;
	struct msg_limits limits;
	char dir[MSG_PATH_SIZE];
	char layers[MSG_MAX_LAYERS][MSG_NAME_SIZE];
	struct msg_volume volumes[MSG_MAX_VOLUMES];
};

enum msg_state {
	MSG_STATE_RUNNING = 1,
	MSG_STATE_PAUSED,
	MSG_STATE_DEAD, /* its PID 1 is gone; DELETE still has to be sent */
};

/* What the runner knows of a sandbox: the answer to CREATE, and one MSG_ITEM each for LIST. */
struct msg_item {
	struct msg_head head;
	struct err err;
	char id[MSG_ID_SIZE];
	uint32_t state;      /* enum msg_state */
	int32_t pid;         /* of PID 1, as seen by the runner */
	int32_t status;      /* state DEAD: as from waitpid, or -1 if nobody knows */
	uint32_t network;    /* 0 or 1 */
	uint64_t started_ms; /* wall clock */
	uint64_t oom_kills;
	uint32_t uid_base; /* host uid of the sandbox's root */
	char ifname[16];   /* host end of its link, "" without network */
	char ip4[16];      /* as text, "" without */
	char ip6[48];
	uint32_t reserved;
};

struct msg_stat_reply {
	struct msg_head head;
	struct err err;
	uint64_t cpu_usec;
	uint64_t memory_bytes;
	uint64_t memory_peak_bytes;
	uint64_t memory_limit_bytes; /* 0 = none */
	uint64_t disk_bytes;         /* used; UINT64_MAX when not counted (no disk limit) */
	uint64_t disk_limit_bytes;   /* 0 = none */
	uint64_t oom_kills;
	uint32_t pids;
	uint32_t pids_limit; /* 0 = none */
};

enum msg_family { MSG_IP4 = 1, MSG_IP6 };

/* DIAL: a TCP socket of the sandbox's own network namespace, its connect to loopback begun and
 * not waited for. The answer (struct msg_reply) carries the descriptor, non-blocking, if code is
 * 0; await writability and ask SO_ERROR. */
struct msg_dial {
	struct msg_head head;
	char id[MSG_ID_SIZE];
	uint16_t port; /* host byte order */
	uint16_t family;
	uint32_t reserved;
};

/* SWEEP: remove what no live sandbox owns (also done at start and after each death), and volumes
 * that the server has renamed to MSG_GONE_VOLUME SOMETHING "-" NAME, which it may not empty
 * itself. */
#define MSG_GONE_VOLUME ".gone-"

struct msg_sweep_reply {
	struct msg_head head;
	struct err err;
	uint32_t swept; /* things removed */
	uint32_t left;  /* things that could not be */
};

enum msg_event_kind {
	MSG_EVENT_EXITED = 1, /* PID 1 is gone, and every process with it; DELETE cleans up */
	MSG_EVENT_OOM,        /* the kernel killed something in it for memory */
};

struct msg_event {
	struct msg_head head;
	char id[MSG_ID_SIZE];
	uint32_t kind;  /* enum msg_event_kind */
	int32_t status; /* EXITED: as from waitpid, -1 if unknown (it was adopted) */
	uint64_t oom_kills;
	uint64_t at_ms; /* wall clock */
};

/* One row per message type: what a request and its final answer look like. 0 = none such. */
struct msg_kind {
	const char *name;
	uint32_t request_size, answer_size;
	uint8_t min_fds, max_fds; /* with the request */
	uint8_t answer_fds;       /* at most, with the answer */
};

const struct msg_kind *msg_kind(uint32_t type); /* NULL if unknown */

/* Is this packet a well-formed request (or, for the server, answer)? Sizes and counts only. */
bool msg_is_request(const void *p, size_t len, size_t n_fds);
bool msg_is_answer(const void *p, size_t len, size_t n_fds);

bool msg_id_ok(const char id[MSG_ID_SIZE]);
bool msg_name_ok(const char *name, size_t size);

/* Are all fields of a create within their ranges? Used by both ends; touches no file. */
int msg_check_create(const struct msg_create *m, struct err *e);

#endif
