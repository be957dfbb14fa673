#include "server/images.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/path.h"
#include "base/rand.h"
#include "policy/hostpath.h"
#include "sandbox/msg.h"
#include "sys/fsat.h"

/* Imported images are layers with this in front, so that no name reaches another kind of layer. */
#define PREFIX "rootfs-"

bool images_matches(const char *pattern, const char *name)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return strncmp(pattern, name, n - 1) == 0;
	return strcmp(pattern, name) == 0;
}

static int resolve_dir(const struct config *config, const char *path, struct arena *arena,
		       struct driver_spec *spec, struct err *e)
{
	struct stat st;

	if (!hostpath_allowed(path, config->image_paths.items, config->image_paths.n))
		return err_set(e, EPERM, "'%s' is not at or below a path of images.allowed_paths",
			       path);
	/* what we may not see ourselves the runner judges */
	if (lstat(path, &st) < 0 ? errno == ENOENT || errno == ENOTDIR : !S_ISDIR(st.st_mode))
		return err_set(e, ENOENT, "'%s' is not a directory", path);
	spec->rootfs = DRIVER_ROOTFS_DIR;
	spec->dir = arena_strdup(arena, path);
	return spec->dir != NULL ? 0 : err_code(e, ENOMEM, "image");
}

static bool layer_name(const char *name, char out[MSG_NAME_SIZE])
{
	memset(out, 0, MSG_NAME_SIZE);
	return snprintf(out, MSG_NAME_SIZE, PREFIX "%s", name) < MSG_NAME_SIZE &&
	       msg_name_ok(out, MSG_NAME_SIZE);
}

static int resolve_imported(const struct config *config, const char *name, struct arena *arena,
			    struct driver_spec *spec)
{
	char layer[MSG_NAME_SIZE], path[4096];
	const char **layers;
	struct stat st;

	if (!layer_name(name, layer) ||
	    snprintf(path, sizeof(path), "%s/layers/%s", config->state_dir, layer) >=
		    (int)sizeof(path) ||
	    lstat(path, &st) < 0 || !S_ISDIR(st.st_mode))
		return -ENOENT;
	layers = arena_alloc(arena, sizeof(*layers));
	if (layers == NULL)
		return -ENOMEM;
	layers[0] = arena_strdup(arena, layer);
	spec->rootfs = DRIVER_ROOTFS_LAYERS;
	spec->layers = layers;
	spec->n_layers = 1;
	return layers[0] != NULL ? 0 : -ENOMEM;
}

/* -ENOENT without words: go on with the aliases. */
static int resolve_plain(const struct config *config, const char *uri, struct arena *arena,
			 struct driver_spec *spec, struct err *e)
{
	if (strcmp(uri, "host") == 0) {
		spec->rootfs = DRIVER_ROOTFS_HOST;
		return 0;
	}
	if (strncmp(uri, "dir:", 4) == 0)
		return resolve_dir(config, uri + 4, arena, spec, e);
	return resolve_imported(config, uri, arena, spec);
}

static const char *alias_of(const struct config *config, const char *uri)
{
	for (unsigned i = 0; i < config->image_aliases.n; i++)
		if (images_matches(config->image_aliases.items[i].key, uri))
			return config->image_aliases.items[i].value;
	return config->image_default[0] != '\0' ? config->image_default : NULL;
}

int images_resolve(const struct config *config, const char *uri, struct arena *arena,
		   struct driver_spec *spec, struct err *e)
{
	const char *alias;
	int r;

	r = resolve_plain(config, uri, arena, spec, e);
	if (r != -ENOENT || strncmp(uri, "dir:", 4) == 0)
		return r;
	alias = alias_of(config, uri);
	if (alias == NULL)
		return err_set(e, ENOENT,
			       "there is no image '%.100s' on this machine; import it, or map the "
			       "name in [images]",
			       uri);
	r = resolve_plain(config, alias, arena, spec, e);
	if (r == -ENOENT)
		return err_set(e, ENOENT, "'%.100s' stands for '%.60s', which is not here", uri,
			       alias);
	return r;
}

/* --- import --- */

/* tar(1) knows every format and compression; it is given no shell and no say about places. */
static int run_tar(const char *tarball, const char *into, struct err *e)
{
	const char *const args[] = {
		"tar",      "--extract", "--numeric-owner", "--same-permissions",
		"--xattrs", "--file",    tarball,           "--directory",
		into,       NULL
	};
	char *const *argv;
	int status, r;
	pid_t pid;

	memcpy(&argv, &(const char *const *){ args }, sizeof(argv)); /* tar does not write there */
	r = posix_spawnp(&pid, "tar", NULL, NULL, argv, environ);
	if (r != 0)
		return err_code(e, r, "start tar");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for tar");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return err_set(e, EIO, "tar could not unpack '%s'", tarball);
	return 0;
}

int images_import(const struct config *config, const char *name, const char *tarball, struct err *e)
{
	char layer[MSG_NAME_SIZE], into[4096], temporary[64], id[17];
	autofd int state_fd = -EBADF, layers_fd = -EBADF;
	struct stat st;
	int r;

	if (!layer_name(name, layer))
		return err_set(e, EINVAL,
			       "'%s' cannot name an image: letters, digits, '.', '_' and '-' can",
			       name);
	state_fd = open(config->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (state_fd < 0)
		return err_sys(e, "open '%s'", config->state_dir);
	/* for us and for the server, whose group the state directory has; see rights.c */
	if (mkdirat(state_fd, "layers", 0750) == 0 &&
	    (fstat(state_fd, &st) < 0 ||
	     fchownat(state_fd, "layers", (uid_t)-1, st.st_gid, AT_SYMLINK_NOFOLLOW) < 0))
		return err_sys(e, "share '%s/layers' with the server", config->state_dir);
	layers_fd = fsat_mkdir_open(state_fd, "layers", 0750);
	if (layers_fd < 0)
		return err_code(e, layers_fd, "open '%s/layers'", config->state_dir);
	rand_hex(id, sizeof(id) / 2);
	(void)snprintf(temporary, sizeof(temporary), "import-%s", id);
	if (mkdirat(layers_fd, temporary, 0755) < 0)
		return err_sys(e, "make '%s'", temporary);
	(void)snprintf(into, sizeof(into), "%s/layers/%s", config->state_dir, temporary);
	r = run_tar(tarball, into, e);
	if (r >= 0 && renameat2(layers_fd, temporary, layers_fd, layer, RENAME_NOREPLACE) < 0) {
		/* take the place of the old one in one step; running sandboxes keep what they have
		 */
		if (errno == EEXIST)
			r = renameat2(layers_fd, temporary, layers_fd, layer, RENAME_EXCHANGE) < 0
				    ? err_sys(e, "replace image '%s'", name)
				    : 0;
		else
			r = err_sys(e, "name image '%s'", name);
	}
	if (r < 0 || faccessat(layers_fd, temporary, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		(void)fsat_remove_tree(layers_fd, temporary, NULL);
	return r;
}
