#include "execd/perm.h"

#include <unistd.h>

bool perm_mode_of_digits(int64_t digits, mode_t *ret)
{
	mode_t mode = 0;

	if (digits < 0 || digits > 7777)
		return false;
	for (unsigned shift = 0; digits > 0; shift += 3, digits /= 10) {
		if (digits % 10 > 7)
			return false;
		mode |= (mode_t)(digits % 10) << shift;
	}
	*ret = mode;
	return true;
}

int perm_digits_of_mode(mode_t mode)
{
	int digits = 0;

	for (unsigned shift = 9; shift <= 9; shift -= 3)
		digits = digits * 10 + (int)(mode >> shift & 7);
	return digits;
}

int perm_read(const json_t *obj, struct perm_want *ret, struct err *e)
{
	struct perm_want w = { 0 };
	int r;

	if (obj != NULL) {
		r = json_get_str(obj, "owner", JSON_ANY_CASE, &w.owner, e);
		if (r >= 0)
			r = json_get_str(obj, "group", JSON_ANY_CASE, &w.group, e);
		if (r >= 0)
			r = json_get_i64(obj, "mode", JSON_ANY_CASE, &w.mode, e);
		if (r < 0)
			return r;
	}
	if (w.owner != NULL && w.owner[0] == '\0')
		w.owner = NULL;
	if (w.group != NULL && w.group[0] == '\0')
		w.group = NULL;
	*ret = w;
	return 0;
}

int perm_resolve(const struct perm_want *want, const struct users *u, struct perm *ret,
		 struct err *e)
{
	struct perm p = PERM_NONE;

	if (want->owner != NULL && !users_find(u, want->owner, &p.uid))
		return err_set(e, EINVAL, "unknown owner '%s'", want->owner);
	if (want->group != NULL && !users_find_group(u, want->group, &p.gid))
		return err_set(e, EINVAL, "unknown group '%s'", want->group);
	if (want->mode != 0) {
		if (!perm_mode_of_digits(want->mode, &p.mode))
			return err_set(e, EINVAL, "invalid mode %lld: up to four octal digits",
				       (long long)want->mode);
		p.has_mode = true;
	}
	*ret = p;
	return 0;
}

static bool has_owner(const struct perm *p)
{
	return p->uid != (uid_t)-1 || p->gid != (gid_t)-1;
}

int perm_apply(const struct perm *p, const char *path, struct err *e)
{
	if (has_owner(p) && chown(path, p->uid, p->gid) < 0)
		return err_sys(e, "change the owner of %s", path);
	if (p->has_mode && chmod(path, p->mode) < 0)
		return err_sys(e, "change the mode of %s", path);
	return 0;
}

int perm_apply_fd(const struct perm *p, int fd, struct err *e)
{
	if (has_owner(p) && fchown(fd, p->uid, p->gid) < 0)
		return err_sys(e, "change the owner");
	if (p->has_mode && fchmod(fd, p->mode) < 0)
		return err_sys(e, "change the mode");
	return 0;
}
