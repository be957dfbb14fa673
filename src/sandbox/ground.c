#include "sandbox/ground.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/util.h"
#include "sandbox/block.h"
#include "sandbox/subid.h"
#include "sandbox/table.h"
#include "sys/fsat.h"
#include "sys/process.h"

#define ROOT_CAN                                                                        \
	(GROUND_RANGES | GROUND_REGISTER | GROUND_NODES | GROUND_LINKS | GROUND_DISKS | \
	 GROUND_CGROUPS | GROUND_GROUPS)

struct ground_ids ground_ids(const struct ground *g, uint32_t base)
{
	if ((g->can & GROUND_RANGES) != 0)
		return (struct ground_ids){ base, BLOCK_UIDS, base, BLOCK_UIDS, false };
	return (struct ground_ids){ 0, g->uids, 0, g->gids, true };
}

uint32_t ground_root_uid(const struct ground *g, uint32_t base)
{
	return (g->can & GROUND_RANGES) != 0 ? base : g->host_uid;
}

int ground_map_ids(pid_t pid, const struct ground_ids *ids, struct err *e)
{
	const struct {
		const char *file;
		uint32_t first, count;
	} maps[] = {
		{ "uid_map", ids->first_uid, ids->uids },
		{ "gid_map", ids->first_gid, ids->gids },
	};

	for (size_t i = 0; i < ARRAY_LEN(maps); i++) {
		char path[48];
		int r;

		(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, maps[i].file);
		if (ids->apart && maps[i].count > 1)
			r = fsat_putf(AT_FDCWD, path, "0 %u 1\n1 %u %u", maps[i].first,
				      maps[i].first + 1, maps[i].count - 1);
		else
			r = fsat_putf(AT_FDCWD, path, "0 %u %u", maps[i].first, maps[i].count);
		if (r < 0)
			return err_code(e, r, "write %s", maps[i].file);
	}
	return 0;
}

/* ---- the namespace of those who live ---- */

/* The one in which the user namespace of this process was made, which must be ours. */
static int enter_parent_of(pid_t pid, struct err *e)
{
	autofd int own = -EBADF, parent = -EBADF;
	uid_t owner = (uid_t)-1;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
	own = open(path, O_RDONLY | O_CLOEXEC);
	parent = own >= 0 ? ioctl(own, NS_GET_PARENT) : -1;
	if (parent < 0 || ioctl(parent, NS_GET_OWNER_UID, &owner) < 0)
		return err_sys(e, "find the user namespace of the sandboxes that live");
	if (owner != geteuid())
		return err_set(e, EPERM, "the sandboxes that live are those of user %u", owner);
	if (setns(parent, CLONE_NEWUSER) < 0)
		return err_sys(e, "enter the user namespace of the sandboxes that live");
	return 0;
}

/* 1 when there is a sandbox that lives, and its parent's namespace has been entered. To go on in
 * another one would be to lose them, so failing to enter is an error. */
static int join(struct ground *g, const char *state_path, struct err *e)
{
	autofd int dir = -EBADF, file = -EBADF;
	char boot_id[64] = "";
	struct table t;

	(void)fsat_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	dir = open(state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	file = dir >= 0 ? openat(dir, "table", O_RDONLY | O_NOFOLLOW | O_CLOEXEC) : -EBADF;
	t.fd = file;
	for (unsigned n = 0; file >= 0 && n < TABLE_ROWS; n++) {
		autofd int alive = -EBADF;
		struct table_row row;
		int r;

		if (!table_read(&t, n, &row) ||
		    strncmp(row.boot_id, boot_id, strlen(row.boot_id)) != 0)
			continue;
		alive = process_open(row.pid, row.start_ticks);
		if (alive < 0 || process_ended(alive))
			continue;
		r = enter_parent_of(row.pid, e);
		if (r < 0 && process_ended(alive))
			continue;
		if (r == 0)
			g->neighbour = row.pid;
		return r < 0 ? r : 1;
	}
	return 0;
}

/* ---- a new one ---- */

static int map_own(const char *file, uint32_t id, struct err *e)
{
	int r = fsat_putf(AT_FDCWD, file, "0 %u 1", id);

	return r < 0 ? err_code(e, r, "write %s", file) : 0;
}

static int enter_new(struct err *e)
{
	const uint32_t uid = geteuid(), gid = getegid();
	struct subid_helper helper;
	unsigned mapped;
	int r, q;

	r = subid_helper_start(&helper, e);
	if (r < 0)
		return r;
	if (unshare(CLONE_NEWUSER) < 0) {
		r = err_sys(e, "this host makes no user namespaces for ordinary users (see "
			       "user.max_user_namespaces, kernel.unprivileged_userns_clone and "
			       "security modules)");
		fd_close(&helper.fd);
		(void)subid_helper_map(&helper);
		return r;
	}
	mapped = subid_helper_map(&helper);
	if ((mapped & SUBID_UIDS) == 0)
		r = map_own("/proc/self/uid_map", uid, e);
	if (r == 0 && (mapped & SUBID_GIDS) == 0) {
		/* who maps his group himself must not be able to leave others by that */
		q = fsat_put(AT_FDCWD, "/proc/self/setgroups", "deny");
		r = q < 0 ? err_code(e, q, "close setgroups")
			  : map_own("/proc/self/gid_map", gid, e);
	}
	return r;
}

/* How many ids there are from 0 on without a gap, as far as a sandbox has use for them. */
static uint32_t count_ids(const char *file)
{
	char text[4096], *p = text, *end;
	unsigned long long total = 0;

	if (fsat_read(AT_FDCWD, file, text, sizeof(text)) <= 0)
		return 0;
	for (;;) {
		unsigned long long inside = strtoull(p, &end, 10), count;

		if (end == p)
			break;
		(void)strtoull(end, &p, 10);
		count = strtoull(p, &end, 10);
		p = end;
		if (inside != total)
			break;
		total += count;
	}
	return (uint32_t)MIN(total, BLOCK_UIDS);
}

int ground_take(struct ground *g, const char *state_path, struct err *e)
{
	char setgroups[16] = "";
	int r;

	*g = (struct ground){ .can = ROOT_CAN };
	if (geteuid() == 0)
		return 0;
	*g = (struct ground){ .host_uid = geteuid() };
	r = join(g, state_path, e);
	if (r == 0)
		r = enter_new(e);
	if (r < 0)
		return r;
	/* The host's network cannot be entered again from a sandbox's, so we live in one of our
	 * own. Nothing here talks to the network. */
	if (unshare(CLONE_NEWNET) < 0)
		return err_sys(e, "get rights in our user namespace (see kernel."
				  "apparmor_restrict_unprivileged_userns)");
	g->uids = count_ids("/proc/self/uid_map");
	g->gids = count_ids("/proc/self/gid_map");
	if (g->uids == 0 || g->gids == 0)
		return err_set(e, EPERM, "our user namespace has no ids");
	if (fsat_read(AT_FDCWD, "/proc/self/setgroups", setgroups, sizeof(setgroups)) > 0 &&
	    strcmp(setgroups, "allow\n") == 0)
		g->can |= GROUND_GROUPS;
	return 0;
}
