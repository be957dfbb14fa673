#include "server/request_create.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "policy/label.h"
#include "policy/quantity.h"
#include "sandbox/msg.h"
#include "server/images.h"

#define MIN_TIMEOUT_S 60
#define MAX_LIMITS    KIB(4)
#define MAX_TIMEOUT_S (INT64_C(7900) * 366 * 86400) /* stays before the year 10000 */

static bool is_blank(const char *s)
{
	return s == NULL || span_trim(span_str(s)).len == 0;
}

static bool out_of_memory(struct refusal *rf)
{
	return refuse(rf, E_INTERNAL, "out of memory");
}

/* Text of a JSON value, into the arena; refused with this error if it is longer than that. */
static bool encode(struct creation *c, const json_t *v, const char *what, size_t max,
		   enum error error, char **ret, struct refusal *rf)
{
	struct buf out = BUF_INIT(max);
	int r = json_encode(v, &out);

	if (r >= 0)
		*ret = arena_dup(&c->arena, buf_span(&out));
	buf_free(&out);
	if (r == -EMSGSIZE)
		return refuse(rf, error, "%s is more than %zu bytes of JSON", what, max);
	return (r >= 0 && *ret != NULL) || out_of_memory(rf);
}

/* --- one member each; the schema first --- */

static bool read_image(const json_t *body, const char **ret_uri, struct refusal *rf)
{
	const char *username = NULL, *password = NULL;
	json_t *image = NULL, *auth = NULL;

	if (!request_object(body, "body", "image", &image, rf) || image == NULL)
		return image == NULL && rf->error == E_OK;
	if (!request_string(image, "body.image", "uri", ret_uri, rf) ||
	    !request_object(image, "body.image", "auth", &auth, rf))
		return false;
	if (*ret_uri == NULL)
		return refuse_at(rf, "body.image.uri", "uri is required");
	if (auth != NULL && (!request_string(auth, "body.image.auth", "username", &username, rf) ||
			     !request_string(auth, "body.image.auth", "password", &password, rf)))
		return false;
	if (auth != NULL && (username == NULL || password == NULL))
		return refuse_at(rf, "body.image.auth", "username and password are both required");
	return true;
}

static bool read_entrypoint(const json_t *body, struct creation *c, struct refusal *rf)
{
	json_t *list = NULL, *item;
	size_t i;

	if (!request_array(body, "body", "entrypoint", &list, rf))
		return false;
	if (list == NULL)
		return refuse_at(rf, "body.entrypoint", "entrypoint is required with an image");
	if (json_array_size(list) == 0)
		return refuse_at(rf, "body.entrypoint", "entrypoint must not be empty");
	json_array_foreach (list, i, item) {
		char place[64];

		(void)snprintf(place, sizeof(place), "body.entrypoint.%zu", i);
		if (!json_is_string(item))
			return refuse_at(rf, place, "must be a string, not %s",
					 json_type_name(item));
	}
	if (json_string_length(json_array_get(list, 0)) == 0)
		return refuse(rf, E_INVALID_PARAMETER, "the entrypoint names no program");
	c->entrypoint = json_incref(list);
	return encode(c, list, "entrypoint", SANDBOX_MAX_ENTRYPOINT, E_INVALID_PARAMETER,
		      &c->rec.entrypoint, rf);
}

static bool read_env(const json_t *body, struct creation *c, struct refusal *rf)
{
	json_t *env = NULL, *v;
	const char *key;

	c->env = json_object();
	if (c->env == NULL)
		return out_of_memory(rf);
	if (!request_object(body, "body", "env", &env, rf) || env == NULL)
		return rf->error == E_OK;
	if (!request_strings_only(env, "body.env", true, rf))
		return false;
	json_object_foreach (env, key, v) {
		if (key[0] == '\0' || strchr(key, '=') != NULL)
			return refuse(rf, E_INVALID_PARAMETER,
				      "'%.60s' cannot be the name of an environment variable", key);
		if (json_is_string(v) && json_object_set(c->env, key, v) < 0)
			return out_of_memory(rf);
	}
	return true;
}

static bool read_metadata(const json_t *body, struct creation *c, struct refusal *rf)
{
	json_t *map = NULL, *v;
	const char *key;
	struct err e;

	c->rec.metadata = arena_strdup(&c->arena, "{}");
	if (!request_object(body, "body", "metadata", &map, rf) || map == NULL)
		return rf->error == E_OK;
	if (!request_strings_only(map, "body.metadata", false, rf))
		return false;
	json_object_foreach (map, key, v)
		if (label_check(span_str(key), span_str(json_string_value(v)), &e) < 0)
			return refuse(rf, E_INVALID_METADATA, "%s", e.msg);
	return encode(c, map, "metadata", SANDBOX_MAX_METADATA, E_INVALID_METADATA,
		      &c->rec.metadata, rf);
}

static const struct {
	const char *name;
	enum { LIMIT_BYTES, LIMIT_CPU, LIMIT_COUNT } kind;
	size_t offset;
	unsigned feature;
	uint64_t min, max;
} limits[] = {
#define FIELD(member) offsetof(struct driver_limits, member)
	{ "cpu", LIMIT_CPU, FIELD(cpu_milli), DRIVER_CAN_CPU, MSG_MIN_CPU, MSG_MAX_CPU },
	{ "memory", LIMIT_BYTES, FIELD(memory_bytes), DRIVER_CAN_MEMORY, MSG_MIN_MEMORY,
	  MSG_MAX_BYTES },
	{ "disk", LIMIT_BYTES, FIELD(disk_bytes), DRIVER_CAN_DISK, MSG_MIN_DISK, MSG_MAX_BYTES },
	{ "storage", LIMIT_BYTES, FIELD(disk_bytes), DRIVER_CAN_DISK, MSG_MIN_DISK, MSG_MAX_BYTES },
	{ "ephemeral-storage", LIMIT_BYTES, FIELD(disk_bytes), DRIVER_CAN_DISK, MSG_MIN_DISK,
	  MSG_MAX_BYTES },
	{ "pids", LIMIT_COUNT, FIELD(pids), DRIVER_CAN_PIDS, MSG_MIN_PIDS, MSG_MAX_PIDS },
	{ "nofile", LIMIT_COUNT, FIELD(nofile), 0, MSG_MIN_NOFILE, MSG_MAX_NOFILE },
	{ "io.read", LIMIT_BYTES, FIELD(io_read_bps), DRIVER_CAN_IO, 1, MSG_MAX_BYTES },
	{ "io.write", LIMIT_BYTES, FIELD(io_write_bps), DRIVER_CAN_IO, 1, MSG_MAX_BYTES },
#undef FIELD
};

static uint64_t value_of(const struct driver_limits *l, size_t i)
{
	const char *field = (const char *)l + limits[i].offset;

	return limits[i].kind == LIMIT_BYTES ? *(const uint64_t *)(const void *)field
					     : *(const uint32_t *)(const void *)field;
}

/* Under another of its names it was asked for as well, and differently. */
static bool is_contradicted(const json_t *map, size_t i, const char *text)
{
	for (size_t k = 0; k < ARRAY_LEN(limits); k++) {
		const char *other = json_string_value(json_object_get(map, limits[k].name));

		if (limits[k].offset == limits[i].offset && other != NULL &&
		    strcmp(other, text) != 0)
			return true;
	}
	return false;
}

static bool read_limit(const json_t *map, const char *key, const char *text, struct creation *c,
		       struct refusal *rf)
{
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		char *field = (char *)&c->spec.limits + limits[i].offset;
		struct err e = ERR_INIT;
		int r = -EINVAL;

		if (strcmp(key, limits[i].name) != 0)
			continue;
		switch (limits[i].kind) {
		case LIMIT_BYTES:
			r = quantity_bytes(span_str(text), (uint64_t *)(void *)field, &e);
			break;
		case LIMIT_CPU:
			r = quantity_cpu(span_str(text), (uint32_t *)(void *)field, &e);
			break;
		case LIMIT_COUNT:
			r = quantity_count(span_str(text), (uint32_t *)(void *)field, &e);
			break;
		}
		if (r < 0)
			return refuse(rf, E_INVALID_LIMIT, "resourceLimits.%s: %s", key, e.msg);
		if (value_of(&c->spec.limits, i) < limits[i].min ||
		    value_of(&c->spec.limits, i) > limits[i].max)
			return refuse(rf, E_INVALID_LIMIT,
				      "resourceLimits.%s: '%.40s' is too little or too much", key,
				      text);
		if (is_contradicted(map, i, text))
			return refuse(rf, E_INVALID_LIMIT,
				      "resourceLimits.%s: asked for twice, under two names", key);
		return true;
	}
	return refuse(rf, E_INVALID_LIMIT, "resourceLimits.%.40s: there is no such limit here",
		      key);
}

static void clear(struct driver_limits *l, size_t i)
{
	memset((char *)l + limits[i].offset, 0,
	       limits[i].kind == LIMIT_BYTES ? sizeof(uint64_t) : sizeof(uint32_t));
}

/* What this host cannot hold is refused; or, if the operator says so, left out and noted. */
static bool check_held(const struct manager *m, struct creation *c, struct refusal *rf)
{
	bool ignore = strcmp(m->config->unheld_limits, "ignore") == 0;

	if (!m->was_up) /* then the runtime has the word */
		return true;
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		size_t len = strlen(c->unheld);

		if (limits[i].feature == 0 || (m->features & limits[i].feature) != 0 ||
		    value_of(&c->spec.limits, i) == 0)
			continue;
		if (!ignore)
			return refuse(rf, E_INVALID_LIMIT,
				      "resourceLimits.%s: this host cannot hold such a limit (see "
				      "runtime.unheld_limits)",
				      limits[i].name);
		clear(&c->spec.limits, i);
		(void)snprintf(c->unheld + len, sizeof(c->unheld) - len, "%s%s",
			       len > 0 ? ", " : "", limits[i].name);
	}
	return true;
}

static bool read_limits(const struct manager *m, const json_t *body, struct creation *c,
			struct refusal *rf)
{
	json_t *map = NULL, *requests = NULL, *v;
	const char *key;

	if (!request_object(body, "body", "resourceLimits", &map, rf) ||
	    !request_object(body, "body", "resourceRequests", &requests, rf))
		return false;
	if (map == NULL)
		return refuse_at(rf, "body.resourceLimits", "resourceLimits is required");
	if (!request_strings_only(map, "body.resourceLimits", false, rf))
		return false;
	if ((m->features & DRIVER_CAN_PIDS) != 0)
		c->spec.limits.pids = (uint32_t)m->config->default_pids;
	if (m->config->default_disk[0] != '\0')
		(void)quantity_bytes(span_str(m->config->default_disk), &c->spec.limits.disk_bytes,
				     NULL);
	json_object_foreach (map, key, v)
		if (!read_limit(map, key, json_string_value(v), c, rf))
			return false;
	if (!check_held(m, c, rf))
		return false;
	return encode(c, map, "resourceLimits", MAX_LIMITS, E_INVALID_LIMIT, &c->rec.limits, rf);
}

static bool read_platform(const json_t *body, struct creation *c, struct refusal *rf)
{
	const char *os = NULL, *arch = NULL, *here = "unknown";
	json_t *platform = NULL;
	struct utsname u;

	if (!request_object(body, "body", "platform", &platform, rf) || platform == NULL)
		return rf->error == E_OK;
	if (!request_string(platform, "body.platform", "os", &os, rf) ||
	    !request_string(platform, "body.platform", "arch", &arch, rf))
		return false;
	if (os == NULL || arch == NULL)
		return refuse_at(rf, "body.platform", "os and arch are both required");
	if (uname(&u) == 0)
		here = strcmp(u.machine, "x86_64") == 0    ? "amd64"
		       : strcmp(u.machine, "aarch64") == 0 ? "arm64"
							   : u.machine;
	if (!span_caseis(span_trim(span_str(os)), "linux"))
		return refuse(rf, E_INVALID_PARAMETER, "platform.os: only linux runs here");
	if (!span_caseis(span_trim(span_str(arch)), here))
		return refuse(rf, E_INVALID_PARAMETER, "platform.arch: this host is %s", here);
	c->rec.os = arena_strdup(&c->arena, "linux");
	c->rec.arch = arena_strdup(&c->arena, here);
	return true;
}

static bool read_extensions(const json_t *body, struct creation *c, struct refusal *rf)
{
	static const struct {
		const char *name;
		int64_t min, max;
		size_t offset;
	} numbers[] = {
		{ "access.renew.extend.seconds", 300, 86400, offsetof(struct record, renew_s) },
		{ "idle.timeout.seconds", 1, 31536000, offsetof(struct record, idle_s) },
	};
	json_t *map = NULL;

	c->rec.extensions = arena_strdup(&c->arena, "{}");
	if (!request_object(body, "body", "extensions", &map, rf) || map == NULL)
		return rf->error == E_OK;
	if (!request_strings_only(map, "body.extensions", false, rf))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		const char *text = json_string_value(json_object_get(map, numbers[i].name));
		int64_t n;

		if (text == NULL)
			continue;
		if (!span_i64(span_str(text), &n) || n < numbers[i].min || n > numbers[i].max)
			return refuse(rf, E_INVALID_PARAMETER,
				      "extensions[\"%s\"] must be a whole number from %lld to %lld",
				      numbers[i].name, (long long)numbers[i].min,
				      (long long)numbers[i].max);
		*(int64_t *)(void *)((char *)&c->rec + numbers[i].offset) = n;
	}
	if (!is_blank(json_string_value(json_object_get(map, "poolRef"))))
		return refuse(rf, E_UNSUPPORTED_POOL_REF, "this runtime has no pools");
	return encode(c, map, "extensions", SANDBOX_MAX_EXTENSIONS, E_INVALID_PARAMETER,
		      &c->rec.extensions, rf);
}

/* What would be accepted and not done is refused. */
static bool read_unenforced(const json_t *body, struct creation *c, struct refusal *rf)
{
	json_t *policy = NULL, *proxy = NULL;
	bool enabled = false;

	if (!request_object(body, "body", "networkPolicy", &policy, rf) ||
	    !request_object(body, "body", "credentialProxy", &proxy, rf) ||
	    !request_bool(body, "body", "secureAccess", &c->secure_access, rf))
		return false;
	if (proxy != NULL && !request_bool(proxy, "body.credentialProxy", "enabled", &enabled, rf))
		return false;
	if (enabled)
		return refuse(rf, E_UNSUPPORTED_VAULT,
			      "this server injects no credentials; leave credentialProxy out");
	if (policy != NULL)
		return refuse(rf, E_UNSUPPORTED_POLICY,
			      "this server enforces no networkPolicy; leave it out");
	return true;
}

/* Told before anything is made; the runner would refuse it too. */
static bool check_network(const struct manager *m, struct refusal *rf)
{
	if (!m->was_up || (m->features & DRIVER_CAN_NETWORK) != 0 ||
	    strcmp(m->config->network, "on") != 0)
		return true;
	return refuse(rf, E_UNSUPPORTED_API,
		      "network.enabled is \"on\", and this host can give sandboxes none");
}

static bool read_source(const struct manager *m, const json_t *body, struct creation *c,
			struct refusal *rf)
{
	const char *uri = NULL, *snapshot = NULL;
	struct err e = ERR_INIT;
	int r;

	if (!read_image(body, &uri, rf) ||
	    !request_string(body, "body", "snapshotId", &snapshot, rf))
		return false;
	if (is_blank(uri) == is_blank(snapshot))
		return refuse_at(rf, "body", "exactly one of image and snapshotId is required");
	if (!is_blank(snapshot))
		return refuse(rf, E_SNAPSHOT_NOT_FOUND, "there are no snapshots here");
	if (strlen(uri) > SANDBOX_MAX_IMAGE)
		return refuse(rf, E_INVALID_PARAMETER, "image.uri is more than %zu bytes",
			      SANDBOX_MAX_IMAGE);
	if (!read_entrypoint(body, c, rf))
		return false;
	r = images_resolve(m->config, uri, &c->arena, &c->spec, &e);
	if (r < 0)
		return refuse(rf,
			      r == -EPERM    ? E_INVALID_PARAMETER
			      : r == -ENOENT ? E_IMAGE_NOT_FOUND
					     : E_INTERNAL,
			      "%s", e.msg);
	c->rec.image = arena_strdup(&c->arena, uri);
	return c->rec.image != NULL || out_of_memory(rf);
}

static bool read_timeout(const struct manager *m, const json_t *body, struct creation *c,
			 struct refusal *rf)
{
	int64_t max = m->config->max_timeout_s;

	if (!request_integer(body, "body", "timeout", MIN_TIMEOUT_S, INT64_MAX, &c->timeout_s, rf))
		return false;
	if ((max > 0 && c->timeout_s > max) || c->timeout_s > MAX_TIMEOUT_S)
		return refuse(rf, E_INVALID_PARAMETER, "timeout must be at most %lld seconds",
			      (long long)(max > 0 ? max : MAX_TIMEOUT_S));
	return true;
}

bool request_create(const struct manager *m, const json_t *body, struct creation *c,
		    struct refusal *rf)
{
	json_t *volumes = NULL;

	*rf = (struct refusal){ .error = E_OK };
	if (!json_is_object(body))
		return refuse_at(rf, "body", "must be an object, not %s", json_type_name(body));
	c->rec.volumes = arena_strdup(&c->arena, "[]");
	return read_extensions(body, c, rf) && read_source(m, body, c, rf) &&
	       read_limits(m, body, c, rf) && read_env(body, c, rf) && read_metadata(body, c, rf) &&
	       read_platform(body, c, rf) && read_timeout(m, body, c, rf) &&
	       read_unenforced(body, c, rf) && check_network(m, rf) &&
	       request_array(body, "body", "volumes", &volumes, rf) &&
	       (volumes == NULL || request_volumes(m->config, volumes, c, rf));
}
