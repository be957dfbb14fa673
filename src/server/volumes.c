#include "server/volumes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/rand.h"
#include "codec/json.h"
#include "sandbox/msg.h"
#include "store/records.h"
#include "sys/fsat.h"

struct volume {
	char *name;
	unsigned users;
	enum volume_stay stay;
};

static void volume_free(struct volume *vol)
{
	free(vol->name);
	free(vol);
}

static struct volume *volume_get(struct volumes *v, const char *name)
{
	return map_get(&v->by_name, span_str(name));
}

static struct volume *volume_add(struct volumes *v, const char *name, enum volume_stay stay)
{
	struct volume *vol = volume_get(v, name);

	if (vol != NULL)
		return vol;
	vol = calloc(1, sizeof(*vol));
	if (vol == NULL)
		return NULL;
	vol->name = strdup(name);
	vol->stay = stay;
	if (vol->name == NULL || map_put(&v->by_name, span_str(name), vol, NULL) < 0) {
		volume_free(vol);
		return NULL;
	}
	return vol;
}

/* What sandboxes wrote in it is not ours to remove. It is set aside under a name that no volume
 * has, and the runtime sweeps it. */
static void set_aside(struct volumes *v, const char *name)
{
	char id[17], gone[sizeof(MSG_GONE_VOLUME) + sizeof(id) + MSG_NAME_SIZE];

	rand_hex(id, sizeof(id) / 2);
	(void)snprintf(gone, sizeof(gone), MSG_GONE_VOLUME "%s-%s", id, name);
	if (renameat(v->dir_fd, name, v->dir_fd, gone) == 0)
		v->sweep(v);
	else if (errno != ENOENT) /* it need not have been made yet */
		log_warn("a volume could not be removed", { "name", name },
			 { "error", strerrordesc_np(errno) });
}

static void drop_if_unused(struct volumes *v, struct volume *vol)
{
	if (vol->users > 0)
		return;
	if (vol->stay != VOLUME_KEPT) {
		log_info("volume removed with its last sandbox", { "name", vol->name });
		set_aside(v, vol->name);
		records_delete_volume(v->store, vol->name);
	}
	(void)map_remove(&v->by_name, span_str(vol->name));
	volume_free(vol);
}

/* --- use --- */

int volumes_use(struct volumes *v, const char *name, bool create, bool ephemeral, struct err *e)
{
	bool missing = faccessat(v->dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0;
	enum volume_stay stay = !missing    ? VOLUME_KEPT
				: ephemeral ? VOLUME_EPHEMERAL
					    : VOLUME_UNPROVEN;
	struct volume *vol;

	if (missing && (!create || errno != ENOENT))
		return err_sys(e, "volume '%s'", name);
	vol = volume_add(v, name, stay);
	if (vol == NULL)
		return err_code(e, ENOMEM, "volume '%s'", name);
	if (missing && vol->users == 0) {
		vol->stay = stay; /* not that of one that is gone */
		records_add_volume(v->store, name, stay, NULL, NULL);
	}
	vol->users++;
	return 0;
}

int volumes_make(struct volumes *v, const char *name, struct err *e)
{
	if (mkdirat(v->dir_fd, name, 0755) < 0 && errno != EEXIST)
		return err_sys(e, "make volume '%s'", name);
	return 0;
}

void volumes_release(struct volumes *v, const char *name)
{
	struct volume *vol = volume_get(v, name);

	if (vol == NULL || vol->users == 0)
		return;
	vol->users--;
	drop_if_unused(v, vol);
}

bool volumes_keep(struct volumes *v, const char *name)
{
	struct volume *vol = volume_get(v, name);

	if (vol == NULL || vol->stay != VOLUME_UNPROVEN)
		return false;
	vol->stay = VOLUME_KEPT;
	return true;
}

static int use(struct volumes *v, const char *name)
{
	struct volume *vol = volume_add(v, name, VOLUME_KEPT);

	if (vol == NULL)
		return -ENOMEM;
	vol->users++;
	return 0;
}

static int use_made(struct volumes *v, const char *name)
{
	int r = use(v, name);

	return r < 0 ? r : volumes_keep(v, name);
}

static int release(struct volumes *v, const char *name)
{
	volumes_release(v, name);
	return 0;
}

/* The sum of what `each` returned. */
static int each_recorded(struct volumes *v, const char *json,
			 int (*each)(struct volumes *v, const char *name), struct err *e)
{
	AUTO(json_decref) json_t *list = NULL;
	json_t *item;
	size_t i;
	int sum = 0, r = json_parse(span_str(json), &json_default_limits, &list, e);

	if (r < 0)
		return r;
	json_array_foreach (list, i, item) {
		const char *claim = NULL;

		if (json_get_str(item, "claim", JSON_MAY, &claim, NULL) <= 0)
			continue;
		r = each(v, claim);
		if (r < 0)
			return err_code(e, r, "volume '%s'", claim);
		sum += r;
	}
	return sum;
}

int volumes_use_recorded(struct volumes *v, const char *json, bool made, struct err *e)
{
	int r = each_recorded(v, json, made ? use_made : use, e);

	if (r > 0) /* the store does not know it yet */
		records_keep_volumes(v->store, json);
	return r;
}

void volumes_release_recorded(struct volumes *v, const char *json)
{
	(void)each_recorded(v, json, release, NULL);
}

/* --- life --- */

static int load_one(void *ctx, const char *name, enum volume_stay stay)
{
	struct volumes *v = ctx;

	if (stay == VOLUME_KEPT)
		return 0;
	return volume_add(v, name, stay) != NULL ? 0 : -ENOMEM;
}

int volumes_init(struct volumes *v, const char *state_dir, struct store *store,
		 void (*sweep)(struct volumes *v), struct err *e)
{
	autofd int state_fd = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

	*v = (struct volumes){ .store = store, .sweep = sweep, .dir_fd = -EBADF };
	map_init(&v->by_name);
	if (state_fd < 0)
		return err_sys(e, "open '%s'", state_dir);
	v->dir_fd = fsat_mkdir_open(state_fd, "volumes", 0700);
	if (v->dir_fd < 0)
		return err_code(e, v->dir_fd, "open '%s/volumes'", state_dir);
	return records_load_volumes(store, load_one, v, e);
}

void volumes_settle(struct volumes *v)
{
	struct map_cursor at = { 0 };
	struct volume *vol;

	while ((vol = map_next(&v->by_name, &at, NULL)) != NULL)
		drop_if_unused(v, vol);
}

void volumes_free(struct volumes *v)
{
	struct map_cursor at = { 0 };
	struct volume *vol;

	while ((vol = map_next(&v->by_name, &at, NULL)) != NULL)
		volume_free(vol);
	map_free(&v->by_name);
	fd_close(&v->dir_fd);
}
