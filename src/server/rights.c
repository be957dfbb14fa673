#include "server/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/span.h"
#include "base/util.h"
#include "sys/caps.h"
#include "sys/fsat.h"

int rights_find(const char *user, struct rights *ret, struct err *e)
{
	const struct passwd *pw;
	uint64_t number;

	*ret = (struct rights){ .uid = geteuid(), .gid = getegid() };
	if (ret->uid != 0 || strcmp(user, "root") == 0)
		return 0;
	ret->drop = true;
	errno = 0;
	if (span_u64(span_str(user), &number) && number > 0 && number < UINT32_MAX) {
		ret->uid = (uid_t)number;
		ret->gid = (gid_t)number;
		return 0;
	}
	pw = getpwnam(user);
	if (pw != NULL) {
		ret->uid = pw->pw_uid;
		ret->gid = pw->pw_gid;
		return ret->uid != 0 ? 0 : err_set(e, EINVAL, "server.user '%s' is root", user);
	}
	if (strcmp(user, RIGHTS_DEFAULT_USER) != 0)
		return err_set(e, ENOENT, "server.user: there is no user '%s'", user);
	ret->uid = ret->gid = RIGHTS_FALLBACK_ID;
	return 0;
}

/* A file of the store from a time when the server was somebody else. Only what is surely it: the
 * directory was writable for that somebody. */
static int take_file(const struct rights *r, int dir_fd, const char *name, struct err *e)
{
	autofd int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : err_sys(e, "open '%s'", name);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1)
		return err_set(e, EPERM, "'%s' is not the file it should be", name);
	if (st.st_uid != r->uid && fchownat(fd, "", r->uid, r->gid, AT_EMPTY_PATH) < 0)
		return err_sys(e, "give away '%s'", name);
	return 0;
}

static int take_dir(const struct rights *r, int state_fd, const char *name, uid_t uid, mode_t mode,
		    int *ret_fd, struct err *e)
{
	int fd = fsat_mkdir_open(state_fd, name, mode);

	if (fd < 0)
		return err_code(e, fd, "make '%s' in the state directory", name);
	if (r->drop && (fchown(fd, uid, r->gid) < 0 || fchmod(fd, mode) < 0)) {
		(void)close(fd);
		return err_sys(e, "give away '%s' in the state directory", name);
	}
	*ret_fd = fd;
	return 0;
}

int rights_prepare(const struct rights *r, const char *state_dir, struct err *e)
{
	static const char *const files[] = { "server.db", "server.db-wal", "server.db-shm" };
	autofd int state_fd = -EBADF, server_fd = -EBADF, volumes_fd = -EBADF, layers_fd = -EBADF;
	struct stat st;
	int q;

	/* of a user who shares it with no other, it is nobody else's to look at */
	if (mkdir(state_dir, r->drop || r->uid == 0 ? 0755 : 0700) < 0 && errno != EEXIST)
		return err_sys(e, "make '%s'", state_dir);
	state_fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (state_fd < 0 || fstat(state_fd, &st) < 0)
		return err_sys(e, "open '%s'", state_dir);
	/* to get to what is ours below it; what is not ours has its own modes */
	if (r->drop && (st.st_mode & 0011) != 0011 &&
	    fchmod(state_fd, (st.st_mode & 07777) | 0011) < 0)
		return err_sys(e, "open up '%s'", state_dir);
	q = take_dir(r, state_fd, "server", r->uid, 0700, &server_fd, e);
	/* what sandboxes and images leave there may be programs that run as their owner, root */
	if (q >= 0)
		q = take_dir(r, state_fd, "volumes", r->uid, 0700, &volumes_fd, e);
	if (q >= 0)
		q = take_dir(r, state_fd, "layers", (uid_t)-1, 0750, &layers_fd, e);
	for (size_t i = 0; q >= 0 && r->drop && i < ARRAY_LEN(files); i++)
		q = take_file(r, server_fd, files[i], e);
	return q;
}

int rights_drop(const struct rights *r, struct err *e)
{
	const struct rlimit no_core = { 0, 0 };
	uint64_t left = 0;
	int q;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(e, "no_new_privs");
	if (!r->drop)
		return 0;
	(void)setrlimit(RLIMIT_CORE, &no_core); /* keys and tokens are in here */
	/* first down to what the change itself takes, which it then takes away as well */
	q = caps_limit(CAPS_BIT(CAP_SETUID) | CAPS_BIT(CAP_SETGID), e);
	if (q < 0)
		return q;
	if (setgroups(0, NULL) < 0 || setresgid(r->gid, r->gid, r->gid) < 0 ||
	    setresuid(r->uid, r->uid, r->uid) < 0)
		return err_sys(e, "become user %u", r->uid);
	q = caps_effective(&left);
	if (q < 0 || left != 0)
		return err_set(e, EPERM, "capabilities were kept that should have gone");
	return 0;
}
