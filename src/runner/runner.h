/* The runner: the one program with rights over the host.
 *
 * It takes fixed-size messages (sandbox/msg.h) from one peer and keeps sandboxes. What it knows is
 * in the table on disk and in the kernel; everything in here can be thrown away by kill -9 and is
 * found again by the next runner (adopt.c).
 *
 *	peer.c    the connection: packets in, packets out, back-pressure
 *	ops.c     the table of requests
 *	box.c     one sandbox from clone to its last trace
 *	guard.c   the packet filter stays as it was written
 *	adopt.c   start: who is alive, and who has left something behind */
#ifndef OSB_RUNNER_RUNNER_H
#define OSB_RUNNER_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/map.h"
#include "runner/loop.h"
#include "sandbox/block.h"
#include "sandbox/cgroup.h"
#include "sandbox/disk.h"
#include "sandbox/ground.h"
#include "sandbox/hostimg.h"
#include "sandbox/msg.h"
#include "sandbox/net.h"
#include "sandbox/nft.h"
#include "sandbox/program.h"
#include "sandbox/seccomp.h"
#include "sandbox/state.h"
#include "sandbox/table.h"

struct out_packet;

struct runner {
	struct loop loop;
	struct state state;
	struct cgroups cgroups;
	struct table table;
	struct net net;
	struct nft_policy policy;
	struct seccomp_prog filter;
	struct program program;
	char host_image[HOSTIMG_NAME_SIZE];
	char tag[16];
	char boot_id[40];
	struct ground ground;
	struct blocks blocks;
	uint32_t features;
	char missing[512];
	uint64_t ram_bytes;
	enum disk_way disk_way;
	bool pids_by_user; /* see set_up_limits */

	struct map boxes;            /* by id */
	unsigned n_creating;         /* of them, still being made */
	struct list waiting;         /* boxes that are being paused */
	struct list short_of_memory; /* boxes in which something is about to be killed */

	/* the peer */
	struct watch listen, peer, signals;
	struct list out; /* packets it has not taken yet */
	bool greeted, leave_with_peer;
	uint32_t peer_uid;
	uint32_t owner_uid, peer_gid; /* who may connect where we listen; a group of 0 is none */

	/* whoever changes our packet filter, see guard.c */
	struct watch guard;
	pid_t nft_pid;       /* whose change of the filter is ours; 0: nobody's */
	bool may_filter;     /* a filter of ours may be in the kernel */
	bool filter_touched; /* by the transaction that is being told of */
	bool filter_changed; /* since ours */

	/* removal of big trees, by a child of its own */
	struct watch broom;
	bool trash_left, trash_stays, cgroups_left;
};

#endif
