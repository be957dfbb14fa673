#include "execd/users.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define FILE_MAX MIB(4)

/* One line that could be understood. Names are kept NUL-terminated in the file's own text. */
struct user {
	const char *name;
	uid_t uid;
	gid_t gid;
};

struct group {
	const char *name;
	gid_t gid;
	struct span members; /* "a,b,c" */
};

struct users {
	char *passwd_text, *group_text;
	struct user *users;
	struct group *groups;
	size_t n_users, n_groups;
};

static bool parse_id(struct span s, uint32_t *ret)
{
	uint64_t v;

	/* the largest number means "leave as it is" to the kernel, nobody has it */
	if (!span_u64(s, &v) || v >= UINT32_MAX)
		return false;
	*ret = (uint32_t)v;
	return true;
}

static size_t count_lines(const char *text)
{
	size_t n = 1;

	for (const char *p = text; (p = strchr(p, '\n')) != NULL; p++)
		n++;
	return n;
}

/* Ends the field that was cut out of `text` with a NUL (in place of its separator). */
static const char *terminate(char *text, struct span field)
{
	char *p = text + (field.p - text);

	p[field.len] = '\0';
	return p;
}

static void parse_passwd(struct users *u)
{
	struct span rest = span_str(u->passwd_text);

	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n');
		struct span name = span_cut(&line, ':');
		struct user *to = &u->users[u->n_users];
		uint32_t uid, gid;

		(void)span_cut(&line, ':');
		if (name.len == 0 || name.p[0] == '#' || line.p == NULL ||
		    !parse_id(span_cut(&line, ':'), &uid) || !parse_id(span_cut(&line, ':'), &gid))
			continue;
		*to = (struct user){ terminate(u->passwd_text, name), uid, gid };
		u->n_users++;
	}
}

static void parse_group(struct users *u)
{
	struct span rest = span_str(u->group_text);

	while (rest.p != NULL) {
		struct span line = span_cut(&rest, '\n');
		struct span name = span_cut(&line, ':');
		struct group *to = &u->groups[u->n_groups];
		uint32_t gid;

		(void)span_cut(&line, ':');
		if (name.len == 0 || name.p[0] == '#' || line.p == NULL ||
		    !parse_id(span_cut(&line, ':'), &gid))
			continue;
		*to = (struct group){ terminate(u->group_text, name), gid, line };
		u->n_groups++;
	}
}

static struct users *parse(char *passwd_text, char *group_text)
{
	AUTO(users_free) struct users *u = calloc(1, sizeof(*u));

	if (u == NULL || passwd_text == NULL || group_text == NULL) {
		free(passwd_text);
		free(group_text);
		return NULL;
	}
	u->passwd_text = passwd_text;
	u->group_text = group_text;
	u->users = calloc(count_lines(passwd_text), sizeof(*u->users));
	u->groups = calloc(count_lines(group_text), sizeof(*u->groups));
	if (u->users == NULL || u->groups == NULL)
		return NULL;
	parse_passwd(u);
	parse_group(u);
	return TAKE(u);
}

struct users *users_parse(struct span passwd, struct span group)
{
	return parse(span_dup(passwd), span_dup(group));
}

/* The text of a small file, cut at a NUL; empty if there is none to read. NULL: out of memory or of
 * descriptors. */
static char *read_text(const char *path)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	AUTO(buf_free) struct buf *text = &BUF_INIT(FILE_MAX);
	ssize_t n = 1;

	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
		return NULL;
	while (fd >= 0 && n > 0 && buf_reserve(text, KIB(4)) == 0) {
		n = read(fd, text->data + text->len, KIB(4));
		text->len += n > 0 ? (size_t)n : 0;
	}
	return buf_take(text, NULL);
}

struct users *users_load(void)
{
	return parse(read_text("/etc/passwd"), read_text("/etc/group"));
}

void users_free(struct users *u)
{
	if (u == NULL)
		return;
	free(u->users);
	free(u->groups);
	free(u->passwd_text);
	free(u->group_text);
	free(u);
}

static const struct user *by_uid(const struct users *u, uid_t uid)
{
	for (size_t i = 0; i < u->n_users; i++)
		if (u->users[i].uid == uid)
			return &u->users[i];
	return NULL;
}

const char *users_name(const struct users *u, uid_t uid)
{
	const struct user *found = by_uid(u, uid);

	return found != NULL ? found->name : NULL;
}

const char *users_group_name(const struct users *u, gid_t gid)
{
	for (size_t i = 0; i < u->n_groups; i++)
		if (u->groups[i].gid == gid)
			return u->groups[i].name;
	return NULL;
}

bool users_find(const struct users *u, const char *name, uid_t *ret)
{
	for (size_t i = 0; i < u->n_users; i++) {
		if (strcmp(u->users[i].name, name) == 0) {
			*ret = u->users[i].uid;
			return true;
		}
	}
	return parse_id(span_str(name), ret);
}

bool users_find_group(const struct users *u, const char *name, gid_t *ret)
{
	for (size_t i = 0; i < u->n_groups; i++) {
		if (strcmp(u->groups[i].name, name) == 0) {
			*ret = u->groups[i].gid;
			return true;
		}
	}
	return parse_id(span_str(name), ret);
}

static bool is_member(struct span members, const char *name)
{
	while (members.p != NULL)
		if (span_is(span_trim(span_cut(&members, ',')), name))
			return true;
	return false;
}

void users_ids(const struct users *u, uid_t uid, const gid_t *gid, struct user_ids *ret)
{
	const struct user *user = by_uid(u, uid);

	*ret = (struct user_ids){ .uid = uid, .gid = uid };
	if (gid != NULL) {
		ret->gid = *gid;
		return;
	}
	if (user == NULL)
		return;
	ret->gid = user->gid;
	for (size_t i = 0; i < u->n_groups && ret->n_groups < USERS_MAX_GROUPS; i++)
		if (u->groups[i].gid != user->gid && is_member(u->groups[i].members, user->name))
			ret->groups[ret->n_groups++] = u->groups[i].gid;
}
