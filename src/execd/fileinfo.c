#include "execd/fileinfo.h"

#include <stdio.h>

#include "execd/perm.h"

const char *fileinfo_type(unsigned mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "symlink";
	default:
		return "other";
	}
}

static int64_t wall_us(const struct statx_timestamp *t)
{
	return t->tv_sec * 1000000 + t->tv_nsec / 1000;
}

static void write_name(struct jw *w, const char *key, const char *name, unsigned id)
{
	char number[16];

	if (name == NULL) {
		(void)snprintf(number, sizeof(number), "%u", id);
		name = number;
	}
	jw_field_cstr(w, key, name);
}

void fileinfo_write(struct jw *w, const char *path, const struct statx *st, const struct users *u)
{
	bool born = (st->stx_mask & STATX_BTIME) != 0;

	jw_object(w);
	jw_field_cstr(w, "path", path);
	jw_field_cstr(w, "type", fileinfo_type(st->stx_mode));
	jw_field_u64(w, "size", st->stx_size);
	jw_field_time(w, "modified_at", wall_us(&st->stx_mtime));
	jw_field_time(w, "created_at", wall_us(born ? &st->stx_btime : &st->stx_ctime));
	write_name(w, "owner", users_name(u, st->stx_uid), st->stx_uid);
	write_name(w, "group", users_group_name(u, st->stx_gid), st->stx_gid);
	jw_field_i64(w, "mode", perm_digits_of_mode(st->stx_mode));
	jw_end(w);
}
