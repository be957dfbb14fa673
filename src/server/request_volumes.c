/* The volumes of a create: where they come from and where they go. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/path.h"
#include "policy/hostpath.h"
#include "policy/label.h"
#include "policy/quantity.h"
#include "sandbox/msg.h"
#include "server/request_create.h"

struct volume_request {
	const char *name, *mount_path, *sub_path;
	json_t *host, *pvc, *ossfs;
	bool read_only;
	char where[64];
};

static bool read_common(const json_t *item, struct volume_request *v, struct refusal *rf)
{
	if (!json_is_object(item))
		return refuse_at(rf, v->where, "must be an object, not %s", json_type_name(item));
	if (!request_string(item, v->where, "name", &v->name, rf) ||
	    !request_string(item, v->where, "mountPath", &v->mount_path, rf) ||
	    !request_string(item, v->where, "subPath", &v->sub_path, rf) ||
	    !request_bool(item, v->where, "readOnly", &v->read_only, rf) ||
	    !request_object(item, v->where, "host", &v->host, rf) ||
	    !request_object(item, v->where, "pvc", &v->pvc, rf) ||
	    !request_object(item, v->where, "ossfs", &v->ossfs, rf))
		return false;
	if (v->name == NULL || !label_is_dns(span_str(v->name), 63))
		return refuse_at(rf, v->where,
				 "name must be of lower-case letters, digits and inner hyphens");
	if (v->mount_path == NULL || v->mount_path[0] != '/')
		return refuse_at(rf, v->where, "mountPath must be an absolute path");
	if ((v->host != NULL) + (v->pvc != NULL) + (v->ossfs != NULL) != 1)
		return refuse_at(rf, v->where, "exactly one of host, pvc and ossfs is required");
	return true;
}

/* dir, or dir/sub, from the arena; it must fit the message to the runner. */
static bool with_sub(const struct volume_request *v, struct creation *c, const char *dir,
		     const char **ret, struct refusal *rf)
{
	const char *path = v->sub_path != NULL ? arena_printf(&c->arena, "%s/%s", dir, v->sub_path)
					       : arena_strdup(&c->arena, dir);

	if (path == NULL)
		return refuse(rf, E_INTERNAL, "out of memory");
	if (strlen(path) >= MSG_PATH_SIZE)
		return refuse(rf, v->sub_path != NULL ? E_VOLUME_SUB_PATH : E_VOLUME_HOST_PATH,
			      "volume '%s': a path of more than %d bytes", v->name,
			      MSG_PATH_SIZE - 1);
	*ret = path;
	return true;
}

static bool read_host(const struct config *config, const struct volume_request *v,
		      struct creation *c, struct driver_volume *ret, struct refusal *rf)
{
	const char *path = NULL;
	struct stat st;

	if (!request_string(v->host, v->where, "path", &path, rf))
		return false;
	if (path == NULL || path[0] != '/')
		return refuse_at(rf, v->where, "host.path must be an absolute path");
	if (!hostpath_is_clean(path))
		return refuse(rf, E_VOLUME_HOST_PATH,
			      "host path '%.100s' has '.', '..', a double or a trailing slash",
			      path);
	if (!hostpath_allowed(path, config->allowed_host_paths.items, config->allowed_host_paths.n))
		return refuse(rf, E_VOLUME_NOT_ALLOWED,
			      "host path '%.100s' is not at or below an allowed path", path);
	if (!with_sub(v, c, path, &path, rf))
		return false;
	/* The runner opens it without following links; what we may not see ourselves it judges. */
	if (lstat(path, &st) < 0 ? errno == ENOENT : !S_ISDIR(st.st_mode))
		return refuse(rf, E_VOLUME_HOST_MISSING, "'%.100s' is not a directory", path);
	ret->from = path;
	return true;
}

static bool read_size(const struct volume_request *v, const char *text, uint64_t *ret,
		      struct refusal *rf)
{
	struct err e = ERR_INIT;

	if (quantity_bytes(span_str(text), ret, &e) < 0)
		return refuse(rf, E_VOLUME_SIZE, "volume '%s': storage: %s", v->name, e.msg);
	if (*ret < MSG_MIN_VOLUME || *ret > MSG_MAX_BYTES)
		return refuse(rf, E_VOLUME_SIZE, "volume '%s': storage must be from 16Mi to 1Pi",
			      v->name);
	return true;
}

static bool read_pvc(const struct config *config, const struct volume_request *v,
		     struct creation *c, struct driver_volume *ret, struct refusal *rf)
{
	struct claim claim = { .create = true };
	const char *storage = NULL;

	if (!request_string(v->pvc, v->where, "claimName", &claim.name, rf) ||
	    !request_bool(v->pvc, v->where, "createIfNotExists", &claim.create, rf) ||
	    !request_bool(v->pvc, v->where, "deleteOnSandboxTermination", &claim.ephemeral, rf) ||
	    !request_string(v->pvc, v->where, "storage", &storage, rf))
		return false;
	if (claim.name == NULL || !label_is_dns(span_str(claim.name), MSG_NAME_SIZE - 1))
		return refuse_at(rf, v->where,
				 "pvc.claimName must be of at most %d lower-case letters, digits "
				 "and inner hyphens",
				 MSG_NAME_SIZE - 1);
	ret->size_exact = storage != NULL;
	if (storage == NULL && config->volume_default_size[0] != '\0')
		storage = config->volume_default_size;
	if (storage != NULL && !read_size(v, storage, &ret->size_bytes, rf))
		return false;
	claim.name = arena_strdup(&c->arena, claim.name);
	if (claim.name == NULL)
		return refuse(rf, E_INTERNAL, "out of memory");
	ret->named = true;
	c->claims[c->n_claims++] = claim;
	return with_sub(v, c, claim.name, &ret->from, rf);
}

static bool read_volume(const struct config *config, const json_t *item, unsigned index,
			struct creation *c, struct refusal *rf)
{
	struct driver_volume *out = &c->volumes[index];
	struct volume_request v = { 0 };

	(void)snprintf(v.where, sizeof(v.where), "body.volumes.%u", index);
	if (!read_common(item, &v, rf))
		return false;
	if (v.ossfs != NULL)
		return refuse(rf, E_VOLUME_BACKEND, "volume '%s': ossfs is not offered here",
			      v.name);
	if (!hostpath_is_clean(v.mount_path) || strlen(v.mount_path) >= MSG_PATH_SIZE ||
	    path_below(v.mount_path, "/proc") || path_below(v.mount_path, "/sys") ||
	    path_below(v.mount_path, "/dev"))
		return refuse(rf, E_VOLUME_MOUNT_PATH, "volume '%s': '%.100s' cannot be mounted on",
			      v.name, v.mount_path);
	if (v.sub_path != NULL && v.sub_path[0] == '\0')
		v.sub_path = NULL;
	if (v.sub_path != NULL && !hostpath_is_sub(v.sub_path))
		return refuse(rf, E_VOLUME_SUB_PATH,
			      "volume '%s': subPath must be relative and without '..'", v.name);
	out->read_only = v.read_only;
	out->target = arena_strdup(&c->arena, v.mount_path);
	if (out->target == NULL)
		return refuse(rf, E_INTERNAL, "out of memory");
	return v.host != NULL ? read_host(config, &v, c, out, rf)
			      : read_pvc(config, &v, c, out, rf);
}

/* What the record keeps: enough to show, and to let go of named volumes at the end. */
static bool record_volumes(const json_t *list, struct creation *c, struct refusal *rf)
{
	struct buf out = BUF_INIT(KIB(64));
	struct jw w = JW_INIT(&out);
	json_t *item;
	size_t i;

	jw_array(&w);
	json_array_foreach ((json_t *)(uintptr_t)list, i, item) {
		const struct driver_volume *v = &c->volumes[i];

		jw_object(&w);
		jw_field_cstr(&w, "name", json_string_value(request_member(item, "name")));
		if (request_member(item, "pvc") != NULL)
			jw_field_cstr(&w, "claim",
				      json_string_value(request_member(request_member(item, "pvc"),
								       "claimName")));
		else
			jw_field_cstr(&w, "path", v->from);
		jw_field_cstr(&w, "mountPath", v->target);
		jw_field_bool(&w, "readOnly", v->read_only);
		jw_end(&w);
	}
	jw_end(&w);
	c->rec.volumes = jw_ok(&w) ? arena_dup(&c->arena, buf_span(&out)) : NULL;
	buf_free(&out);
	return c->rec.volumes != NULL || refuse(rf, E_INTERNAL, "out of memory");
}

bool request_volumes(const struct config *config, const json_t *list, struct creation *c,
		     struct refusal *rf)
{
	size_t n = json_array_size(list);

	if (n > CREATE_MAX_VOLUMES)
		return refuse_at(rf, "body.volumes", "at most %d volumes", CREATE_MAX_VOLUMES);
	for (size_t i = 0; i < n; i++) {
		const char *name;

		if (!read_volume(config, json_array_get(list, i), (unsigned)i, c, rf))
			return false;
		name = json_string_value(request_member(json_array_get(list, i), "name"));
		for (size_t k = 0; k < i; k++)
			if (strcmp(name, json_string_value(request_member(json_array_get(list, k),
									  "name"))) == 0)
				return refuse(rf, E_VOLUME_DUPLICATE, "two volumes are called '%s'",
					      name);
	}
	c->spec.n_volumes = (unsigned)n;
	return record_volumes(list, c, rf);
}
