#include "execd/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/span.h"
#include "base/util.h"

/* Somebody who forks faster than we look must be stopped sooner or later, but not at any price. */
#define MAX_ROUNDS 100

enum place { UNKNOWN, INSIDE, OUTSIDE, LOST };

struct entry {
	pid_t pid, parent;
	enum place place;
	bool killed; /* by us */
};

struct table {
	struct entry *list;
	size_t n, cap;
};

static int by_pid(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct entry *find(const struct table *t, pid_t pid)
{
	struct entry key = { .pid = pid };

	if (t->n == 0)
		return NULL;
	return bsearch(&key, t->list, t->n, sizeof(key), by_pid);
}

/* Without a descriptor or memory nobody can be seen; otherwise it is gone, or hidden from us. */
static int not_seen(void)
{
	return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : 0;
}

/* The parent's number: field 4 of /proc/PID/stat, behind the name in parentheses, which may hold
 * anything. Of a process that is just being forgotten, the parent reads 0 and the group -1: it is
 * gone, and its children have another parent already. 1, 0 if it is gone, or a negative errno. */
static int read_parent(int proc_fd, const char *pid, pid_t *ret)
{
	autofd int fd = -EBADF;
	char name[32], text[512];
	uint64_t parent, group;
	struct span rest;
	const char *p;
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%s/stat", pid);
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return not_seen();
	n = read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return not_seen();
	text[n] = '\0';
	p = strrchr(text, ')');
	if (p == NULL || strlen(p) < 4)
		return 0;
	rest = span_str(p + 4); /* ") S " */
	if (!span_u64(span_cut(&rest, ' '), &parent) || !span_u64(span_cut(&rest, ' '), &group))
		return 0;
	*ret = (pid_t)parent;
	return 1;
}

static int append(struct table *t, pid_t pid, pid_t parent)
{
	if (t->n == t->cap) {
		size_t cap = t->cap > 0 ? t->cap * 2 : 64;
		struct entry *list = realloc(t->list, cap * sizeof(*list));

		if (list == NULL)
			return -ENOMEM;
		t->list = list;
		t->cap = cap;
	}
	t->list[t->n++] = (struct entry){ .pid = pid, .parent = parent };
	return 0;
}

static int read_table(struct table *t)
{
	DIR *dir = opendir("/proc");
	struct dirent *d;
	int r = 0;

	if (dir == NULL)
		return -errno;
	t->n = 0;
	while (r == 0 && (d = readdir(dir)) != NULL) {
		uint64_t pid;
		pid_t parent;

		if (!span_u64(span_str(d->d_name), &pid))
			continue;
		r = read_parent(dirfd(dir), d->d_name, &parent);
		if (r > 0)
			r = append(t, (pid_t)pid, parent);
	}
	(void)closedir(dir);
	if (t->n > 0)
		qsort(t->list, t->n, sizeof(*t->list), by_pid);
	return r;
}

/* Is it below `root`? Follows the parents and notes the answer on the whole way. The table is not
 * of one instant, so the way may even lead in a circle: it is bounded. And a parent may have gone
 * before its turn came: then nobody knows until the next look. */
static bool inside(const struct table *t, struct entry *e, pid_t root)
{
	struct entry *at = e;
	enum place place = OUTSIDE;

	for (size_t steps = 0; at != NULL && steps <= t->n; steps++) {
		pid_t parent = at->parent;

		if (at->place != UNKNOWN) {
			place = at->place;
			break;
		}
		if (parent == root) {
			place = INSIDE;
			break;
		}
		at = find(t, parent);
		if (at == NULL && parent != 0)
			place = LOST;
	}
	for (at = e; at != NULL && at->place == UNKNOWN; at = find(t, at->parent)) {
		at->place = place;
		if (at->parent == root)
			break;
	}
	return place == INSIDE;
}

int tree_signal(pid_t root, int signum)
{
	struct table t = { 0 };
	int r, n = 0;

	r = read_table(&t);
	for (size_t i = 0; r == 0 && i < t.n; i++)
		if (inside(&t, &t.list[i], root) && kill(t.list[i].pid, signum) == 0)
			n++;
	free(t.list);
	return r < 0 ? r : n;
}

int tree_kill(pid_t root)
{
	struct table now = { 0 }, before = { 0 };
	int r = 0, n = 0, found = 1;

	for (int round = 0; found > 0 && round < MAX_ROUNDS; round++) {
		struct table swap = before;

		before = now;
		now = swap;
		r = read_table(&now);
		if (r < 0)
			break;
		found = 0;
		for (size_t i = 0; i < now.n; i++) {
			struct entry *e = &now.list[i], *known = find(&before, e->pid);

			if (!inside(&now, e, root)) {
				/* of a parent that stays hidden nothing more will be known */
				found += e->place == LOST &&
					 (known == NULL || known->place != LOST ||
					  known->parent != e->parent);
				continue;
			}
			e->killed = true;
			if (known != NULL && known->killed)
				continue;
			n += kill(e->pid, SIGKILL) == 0;
			found++;
		}
	}
	free(now.list);
	free(before.list);
	return r < 0 ? r : n;
}
