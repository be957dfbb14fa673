#include "sandbox/msg.h"

#include <errno.h>
#include <string.h>

#include "base/path.h"
#include "base/util.h"

static const struct msg_kind kinds[MSG_TYPE_END] = {
	/* type          name      request                     answer                      fds */
	[MSG_HELLO] = { "hello", sizeof(struct msg_hello), sizeof(struct msg_hello_reply), 0, 0,
			0 },
	[MSG_CREATE] = { "create", sizeof(struct msg_create), sizeof(struct msg_item), 2, 3, 0 },
	[MSG_DELETE] = { "delete", sizeof(struct msg_id), sizeof(struct msg_reply), 0, 0, 0 },
	[MSG_PAUSE] = { "pause", sizeof(struct msg_id), sizeof(struct msg_reply), 0, 0, 0 },
	[MSG_RESUME] = { "resume", sizeof(struct msg_id), sizeof(struct msg_reply), 0, 0, 0 },
	[MSG_LIST] = { "list", sizeof(struct msg_plain), sizeof(struct msg_reply), 0, 0, 0 },
	[MSG_STAT] = { "stat", sizeof(struct msg_id), sizeof(struct msg_stat_reply), 0, 0, 0 },
	[MSG_DIAL] = { "dial", sizeof(struct msg_dial), sizeof(struct msg_reply), 0, 0, 1 },
	[MSG_SWEEP] = { "sweep", sizeof(struct msg_plain), sizeof(struct msg_sweep_reply), 0, 0,
			0 },
	[MSG_ITEM] = { "item", 0, sizeof(struct msg_item), 0, 0, 0 },
	[MSG_EVENT] = { "event", 0, sizeof(struct msg_event), 0, 0, 0 },
};

const struct msg_kind *msg_kind(uint32_t type)
{
	return type < MSG_TYPE_END && kinds[type].name != NULL ? &kinds[type] : NULL;
}

static const struct msg_kind *packet_kind(const void *p, size_t len)
{
	struct msg_head head;

	if (len < sizeof(head))
		return NULL;
	memcpy(&head, p, sizeof(head));
	return head.size == len ? msg_kind(head.type) : NULL;
}

bool msg_is_request(const void *p, size_t len, size_t n_fds)
{
	const struct msg_kind *k = packet_kind(p, len);

	return k != NULL && k->request_size == len && n_fds >= k->min_fds && n_fds <= k->max_fds;
}

bool msg_is_answer(const void *p, size_t len, size_t n_fds)
{
	const struct msg_kind *k = packet_kind(p, len);

	return k != NULL && k->answer_size == len && n_fds <= k->answer_fds;
}

static bool is_lower_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* Fields are NUL-padded to the end: no bytes can hide behind the text. */
static bool padded(const char *s, size_t size, size_t *ret_len)
{
	size_t len = strnlen(s, size);

	for (size_t i = len; i < size; i++)
		if (s[i] != '\0')
			return false;
	*ret_len = len;
	return len < size;
}

bool msg_id_ok(const char id[MSG_ID_SIZE])
{
	size_t len;

	if (!padded(id, MSG_ID_SIZE, &len) || len == 0 || !is_lower_digit(id[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!is_lower_digit(id[i]) && id[i] != '-')
			return false;
	return true;
}

bool msg_name_ok(const char *name, size_t size)
{
	size_t len;

	if (!padded(name, size, &len) || len == 0 || len > 255 || name[0] == '.')
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		if (!is_lower_digit(c) && !(c >= 'A' && c <= 'Z') && c != '.' && c != '_' &&
		    c != '-')
			return false;
	}
	return true;
}

/* Absolute and already clean: what was checked is what will be opened. */
static bool path_ok(const char path[MSG_PATH_SIZE])
{
	char clean[MSG_PATH_SIZE];
	size_t len;

	return padded(path, MSG_PATH_SIZE, &len) && path[0] == '/' &&
	       path_clean(clean, sizeof(clean), "/", path) >= 0 && strcmp(clean, path) == 0;
}

/* Places the runner fills itself; a volume there would undo what was put in them. */
static bool target_ok(const char *target)
{
	static const char *const taken[] = { "/proc", "/sys", "/dev" };

	for (size_t i = 0; i < ARRAY_LEN(taken); i++)
		if (path_below(target, taken[i]))
			return false;
	return strcmp(target, "/") != 0;
}

static int check_limits(const struct msg_limits *l, struct err *e)
{
	const uint64_t most = MSG_MAX_BYTES;

	if (l->memory_bytes != 0 && (l->memory_bytes < MSG_MIN_MEMORY || l->memory_bytes > most))
		return err_set(e, EINVAL, "memory limit out of range (at least 4 MiB)");
	if (l->swap_bytes > most || (l->swap_bytes != 0 && l->memory_bytes == 0))
		return err_set(e, EINVAL, "swap limit needs a memory limit");
	if (l->disk_bytes != 0 && (l->disk_bytes < MSG_MIN_DISK || l->disk_bytes > most))
		return err_set(e, EINVAL, "disk limit out of range (at least 1 MiB)");
	if (l->io_read_bps > most || l->io_write_bps > most)
		return err_set(e, EINVAL, "io limit out of range");
	if (l->cpu_milli != 0 && (l->cpu_milli < MSG_MIN_CPU || l->cpu_milli > MSG_MAX_CPU))
		return err_set(e, EINVAL, "cpu limit out of range (at least 10 millicores)");
	if (l->pids != 0 && (l->pids < MSG_MIN_PIDS || l->pids > MSG_MAX_PIDS))
		return err_set(e, EINVAL, "process limit out of range (at least 4)");
	if (l->nofile != 0 && (l->nofile < MSG_MIN_NOFILE || l->nofile > MSG_MAX_NOFILE))
		return err_set(e, EINVAL, "open files limit out of range (at least 16)");
	if (l->reserved != 0)
		return err_set(e, EINVAL, "unknown limit");
	return 0;
}

/* NAME or NAME/DIRECTORY..., clean as a path. */
static bool part_ok(const char from[MSG_PATH_SIZE])
{
	char name[MSG_NAME_SIZE] = { 0 }, path[MSG_PATH_SIZE + 1] = "/", clean[MSG_PATH_SIZE + 1];
	size_t len, name_len;

	if (!padded(from, MSG_PATH_SIZE, &len))
		return false;
	name_len = strcspn(from, "/");
	if (name_len >= sizeof(name))
		return false;
	memcpy(name, from, name_len);
	memcpy(path + 1, from, len + 1);
	return msg_name_ok(name, sizeof(name)) &&
	       path_clean(clean, sizeof(clean), "/", path) >= 0 && strcmp(clean, path) == 0;
}

static int check_volume(const struct msg_volume *v, struct err *e)
{
	bool from_ok = false;

	switch ((enum msg_source)v->source) {
	case MSG_FROM_STORE:
		from_ok = part_ok(v->from);
		break;
	case MSG_FROM_HOST:
		from_ok = path_ok(v->from) && v->size_bytes == 0;
		break;
	}
	if (v->size_bytes != 0 && (v->size_bytes < MSG_MIN_VOLUME || v->size_bytes > MSG_MAX_BYTES))
		return err_set(e, EINVAL, "size of a volume out of range (at least 16 MiB)");
	if (!from_ok || v->read_only > 1 || v->size_exact > 1 || v->reserved != 0)
		return err_set(e, EINVAL, "volume source is not acceptable");
	if (!path_ok(v->target) || !target_ok(v->target))
		return err_set(e, EINVAL, "volume target is not acceptable");
	return 0;
}

static int check_rootfs(const struct msg_create *m, struct err *e)
{
	size_t dir_len;
	bool ok = false;

	if (!padded(m->dir, sizeof(m->dir), &dir_len) || m->n_layers > MSG_MAX_LAYERS)
		return err_set(e, EINVAL, "root file system is not acceptable");
	switch ((enum msg_rootfs)m->rootfs) {
	case MSG_ROOTFS_HOST:
		ok = m->n_layers == 0 && dir_len == 0;
		break;
	case MSG_ROOTFS_LAYERS:
		ok = m->n_layers > 0 && dir_len == 0;
		break;
	case MSG_ROOTFS_DIR:
		ok = m->n_layers == 0 && path_ok(m->dir);
		break;
	}
	for (uint32_t i = 0; ok && i < m->n_layers; i++)
		ok = msg_name_ok(m->layers[i], sizeof(m->layers[i]));
	return ok ? 0 : err_set(e, EINVAL, "root file system is not acceptable");
}

int msg_check_create(const struct msg_create *m, struct err *e)
{
	const uint32_t known = MSG_WITH_NETWORK | MSG_WITH_LOG | MSG_ROOTFS_READONLY;
	int r;

	if (!msg_id_ok(m->id))
		return err_set(e, EINVAL, "sandbox id is not acceptable");
	if (!msg_id_ok(m->hostname))
		return err_set(e, EINVAL, "hostname is not acceptable");
	if ((m->flags & ~known) != 0)
		return err_set(e, EINVAL, "unknown flag");
	r = check_rootfs(m, e);
	if (r < 0)
		return r;
	r = check_limits(&m->limits, e);
	if (r < 0)
		return r;
	if (m->n_volumes > MSG_MAX_VOLUMES)
		return err_set(e, EINVAL, "too many volumes");
	for (uint32_t i = 0; i < m->n_volumes; i++) {
		r = check_volume(&m->volumes[i], e);
		if (r < 0)
			return r;
	}
	return 0;
}
