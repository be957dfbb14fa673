#include "runner/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/util.h"
#include "runner/box.h"
#include "sandbox/leaf.h"
#include "sandbox/volume.h"
#include "sys/call.h"
#include "sys/fsat.h"
#include "sys/process.h"

/* To the trash under a name nobody asks for, so that its id is free again. What lies there is left
 * to a process of its own: each rmdir(2) may wait for the disk. */
static void trash_box(struct runner *r, const char *id)
{
	char name[24];

	rand_hex(name, 8);
	if (renameat(r->state.boxes_fd, id, r->state.trash_fd, name) < 0) {
		if (errno != ENOENT)
			log_warn("cannot trash", { "id", id }, { "why", strerrordesc_np(errno) });
		return;
	}
	r->trash_left = true;
}

void sweep_remove(struct runner *r, const char *id, const struct msg_limits *l)
{
	(void)fsat_unlink(r->state.sock_fd, id, 0);
	if (leaf_remove(&r->cgroups, id, l) == -EBUSY) {
		leaf_kill(&r->cgroups, id);
		r->cgroups_left = true;
	}
	trash_box(r, id);
}

/* ---- what nobody owns ---- */

struct sweep {
	struct runner *r;
	uint32_t swept, left;
};

static bool owned(struct runner *r, const char *name)
{
	return box_find(r, name) != NULL;
}

static void sweep_cgroup(void *arg, const char *id)
{
	struct sweep *s = arg;

	if (owned(s->r, id))
		return;
	leaf_kill(&s->r->cgroups, id);
	if (leaf_remove(&s->r->cgroups, id, NULL) < 0) {
		s->left++;
		s->r->cgroups_left = true;
	} else {
		s->swept++;
	}
}

static void sweep_dir(struct sweep *s, int dir_fd, void (*fn)(struct sweep *s, const char *name))
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	if (dir == NULL) {
		fd_close(&fd);
		return;
	}
	while ((d = readdir(dir)) != NULL) {
		if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
		    owned(s->r, d->d_name))
			continue;
		fn(s, d->d_name);
		s->swept++;
	}
	(void)closedir(dir);
}

static void sweep_socket(struct sweep *s, const char *name)
{
	(void)fsat_unlink(s->r->state.sock_fd, name, 0);
}

static void sweep_box(struct sweep *s, const char *name)
{
	trash_box(s->r, name);
}

static void sweep_trash(struct sweep *s, const char *name UNUSED)
{
	s->r->trash_left = true;
}

/* Volumes that the server has set aside: it may not remove what sandboxes wrote in them. */
static void sweep_volume(struct sweep *s, const char *name)
{
	if (strncmp(name, MSG_GONE_VOLUME, strlen(MSG_GONE_VOLUME)) != 0)
		return;
	volume_forget(&s->r->state, name); /* first: a crash here is made good by the next sweep */
	if (renameat(s->r->state.volumes_fd, name, s->r->state.trash_fd, name) == 0)
		s->r->trash_left = true;
}

/* Disks of volumes that somebody has removed by hand, and half-made ones. */
static void sweep_volume_disk(struct sweep *s, const char *name)
{
	if (faccessat(s->r->state.volumes_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT)
		(void)unlinkat(s->r->state.volume_disks_fd, name, 0);
}

/* Older host images, once nothing can be running on them. */
static void sweep_image(struct sweep *s, const char *name)
{
	if (strcmp(name, s->r->host_image) != 0 && s->r->boxes.count == 0)
		(void)fsat_remove_tree(s->r->state.host_fd, name, NULL);
}

void sweep_all(struct runner *r, uint32_t *ret_swept, uint32_t *ret_left)
{
	struct sweep s = { .r = r };

	r->cgroups_left = false;
	(void)leaf_each(&r->cgroups, sweep_cgroup, &s);
	sweep_dir(&s, r->state.sock_fd, sweep_socket);
	sweep_dir(&s, r->state.boxes_fd, sweep_box);
	*ret_swept = s.swept;
	sweep_dir(&s, r->state.volumes_fd, sweep_volume);
	sweep_dir(&s, r->state.volume_disks_fd, sweep_volume_disk);
	sweep_dir(&s, r->state.trash_fd, sweep_trash);
	sweep_dir(&s, r->state.host_fd, sweep_image);
	*ret_left = s.left;
}

/* ---- the broom: a child that removes trees while we go on ---- */

static void on_broom(struct watch *w, uint32_t events UNUSED)
{
	struct runner *r = CONTAINER_OF(w, struct runner, broom);

	/* it had no descriptors, say: with the next one that comes, or when we leave */
	r->trash_stays = process_collect(w->fd) != 0;
	loop_drop(&r->loop, w);
}

static _Noreturn void sweep_trash_main(struct runner *r)
{
	/* opened anew: a descriptor we share with the runner has one place in it for all brooms */
	int fd = openat(r->state.trash_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	(void)setpriority(PRIO_PROCESS, 0, 19);
	while (dir != NULL && (d = readdir(dir)) != NULL)
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			failed |= fsat_remove_tree(dirfd(dir), d->d_name, NULL) < 0;
	_exit(dir == NULL || failed);
}

static bool start_broom(struct runner *r)
{
	int pid_fd = -EBADF;
	struct clone_args args = {
		.flags = CLONE_PIDFD,
		.pidfd = (uint64_t)(uintptr_t)&pid_fd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid = call_clone3(&args);

	if (pid == 0)
		sweep_trash_main(r);
	if (pid > 0 && loop_add(&r->loop, &r->broom, pid_fd, EPOLLIN, on_broom) < 0)
		(void)close(pid_fd);
	return pid > 0;
}

/* Processes that were just killed need a moment to leave their cgroup, and nothing tells when; nor
 * when there is memory for a broom again. */
#define RETRY_MS 20

static void look_again(struct runner *r)
{
	uint64_t at = clock_mono_ms() + RETRY_MS;

	if (r->loop.tick_at_ms == 0 || at < r->loop.tick_at_ms)
		r->loop.tick_at_ms = at;
}

/* True if there is nothing left to be started. */
static bool sweep_trash_now(struct runner *r)
{
	if (r->trash_left && r->broom.fd < 0 && start_broom(r))
		r->trash_left = false;
	return !r->trash_left || r->broom.fd >= 0;
}

void sweep_tick(struct runner *r)
{
	struct sweep s = { .r = r };

	if (r->cgroups_left) {
		r->cgroups_left = false;
		(void)leaf_each(&r->cgroups, sweep_cgroup, &s);
	}
	if (!sweep_trash_now(r) || r->cgroups_left)
		look_again(r);
}

void sweep_step(struct runner *r)
{
	if (!sweep_trash_now(r) || r->cgroups_left)
		look_again(r);
}

void sweep_leave(struct runner *r)
{
	if (r->trash_left || r->trash_stays)
		(void)start_broom(r);
}
