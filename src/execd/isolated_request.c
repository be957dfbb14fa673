#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "codec/glob.h"
#include "execd/isolated.h"
#include "execd/users.h"

#define DEFAULT_IDLE_S 1800
#define MAX_MOUNTS     32

static bool is_word(const char *s, const char *a, const char *b, const char *c)
{
	return strcmp(s, a) == 0 || strcmp(s, b) == 0 || (c != NULL && strcmp(s, c) == 0);
}

/* A path that exists and is not everything. */
static int check_path(const struct execd *x, const char *what, const char *path, char **ret,
		      struct err *e)
{
	struct stat st;
	int r = env_expand_path(x, span_str(path), ret, e);

	if (r < 0)
		return err_wrap(e, "%s", what);
	if (strcmp(*ret, "/") == 0)
		return err_set(e, EINVAL, "%s must not be the root directory", what);
	if (stat(*ret, &st) < 0)
		return err_set(e, EINVAL, "%s does not exist: %s", what, path);
	return S_ISDIR(st.st_mode);
}

static int read_workspace(const struct execd *x, struct isolated_request *q, struct err *e)
{
	const char *path = NULL;
	json_t *w = NULL;
	int r;

	r = json_get_object(q->json, "workspace", JSON_MUST, &w, e);
	if (r >= 0)
		r = json_get_str(w, "path", JSON_MUST, &path, e);
	if (r >= 0)
		r = json_get_str(w, "mode", JSON_MAY, &q->mode, e);
	if (r < 0)
		return r;
	if (path[0] == '\0')
		return err_set(e, EINVAL, "workspace.path must not be empty");
	if (q->mode == NULL || q->mode[0] == '\0')
		q->mode = q->strict ? "overlay" : "rw";
	if (!is_word(q->mode, "rw", "overlay", "ro"))
		return err_set(e, EINVAL, "workspace.mode must be rw, overlay or ro");
	r = check_path(x, "workspace.path", path, &q->workspace, e);
	return r == 0 ? err_set(e, EINVAL, "workspace.path is not a directory: %s", path) : r;
}

static int read_words(struct isolated_request *q, struct err *e)
{
	const char *profile = "strict", *uid_mode = "setpriv", *mode = "deny";
	json_t *env = NULL, *keys = NULL;
	int r;

	r = json_get_str(q->json, "profile", JSON_MAY, &profile, e);
	if (r >= 0)
		r = json_get_str(q->json, "uid_mode", JSON_MAY, &uid_mode, e);
	if (r >= 0)
		r = json_get_object(q->json, "env_passthrough", JSON_MAY, &env, e);
	if (r > 0)
		r = json_get_str(env, "mode", JSON_MAY, &mode, e);
	if (r >= 0 && env != NULL)
		r = json_get_array(env, "keys", JSON_MAY, &keys, e);
	if (r < 0)
		return r;
	if (!is_word(profile, "strict", "balanced", NULL))
		return err_set(e, EINVAL, "profile must be strict or balanced");
	if (!is_word(uid_mode, "setpriv", "userns", NULL))
		return err_set(e, EINVAL, "uid_mode must be setpriv or userns");
	if (!is_word(mode, "allow", "deny", NULL))
		return err_set(e, EINVAL, "env_passthrough.mode must be allow or deny");
	for (size_t i = 0; i < json_array_size(keys); i++)
		if (!json_is_string(json_array_get(keys, i)))
			return err_set(e, EINVAL, "env_passthrough.keys must be strings");
	q->strict = strcmp(profile, "strict") == 0;
	q->userns = strcmp(uid_mode, "userns") == 0;
	return 0;
}

static int read_numbers(struct isolated_request *q, struct err *e)
{
	int64_t idle_s = DEFAULT_IDLE_S;
	int r;

	r = json_get_bool(q->json, "share_net", JSON_MAY, &q->share_net, e);
	if (r >= 0)
		r = json_get_i64(q->json, "idle_timeout_seconds", JSON_MAY, &idle_s, e);
	if (r >= 0) {
		r = json_get_u32(q->json, "uid", JSON_MAY, &q->uid, e);
		q->has_uid = r > 0;
	}
	if (r >= 0) {
		r = json_get_u32(q->json, "gid", JSON_MAY, &q->gid, e);
		q->has_gid = r > 0;
	}
	if (r < 0)
		return r;
	if (idle_s < 0 || idle_s > INT32_MAX)
		return err_set(e, EINVAL, "idle_timeout_seconds is out of range");
	if (q->has_gid && !q->has_uid)
		return err_set(e, EINVAL, "uid is required when gid is provided");
	q->idle_ms = (uint64_t)idle_s * 1000;
	return 0;
}

int isolated_request_read(const struct execd *x, json_t *json, struct isolated_request *ret,
			  struct err *e)
{
	struct isolated_request q = { .json = json };
	int r;

	r = read_words(&q, e);
	if (r >= 0)
		r = read_numbers(&q, e);
	if (r >= 0)
		r = read_workspace(x, &q, e);
	if (r < 0) {
		isolated_request_free(&q);
		return r;
	}
	*ret = q;
	return 0;
}

void isolated_request_free(struct isolated_request *q)
{
	json_decref(TAKE(q->json));
	free(TAKE(q->workspace));
}

/* --- the plan --- */

static int write_bind(const struct execd *x, struct jw *w, const char *what, const char *source,
		      const char *dest, bool readonly, struct err *e)
{
	autofree char *from = NULL, *to = NULL;
	int r = check_path(x, what, source, &from, e);

	if (r >= 0)
		r = env_expand_path(x, span_str(dest), &to, e);
	if (r < 0)
		return r;
	if (strcmp(to, "/") == 0)
		return err_set(e, EINVAL, "%s must not cover the root directory", what);
	jw_object(w);
	jw_field_cstr(w, "source", from);
	jw_field_cstr(w, "dest", to);
	jw_field_bool(w, "readonly", readonly);
	jw_end(w);
	return 0;
}

static int write_binds(const struct execd *x, const struct isolated_request *q, struct jw *w,
		       struct err *e)
{
	json_t *writable = NULL, *binds = NULL;
	int r;

	r = json_get_array(q->json, "extra_writable", JSON_MAY, &writable, e);
	if (r >= 0)
		r = json_get_array(q->json, "binds", JSON_MAY, &binds, e);
	if (r >= 0 && json_array_size(writable) + json_array_size(binds) > MAX_MOUNTS)
		r = err_set(e, EINVAL, "more than %d mounts", MAX_MOUNTS);
	for (size_t i = 0; r >= 0 && i < json_array_size(writable); i++) {
		const char *path = json_string_value(json_array_get(writable, i));

		r = path == NULL ? err_set(e, EINVAL, "extra_writable must be strings")
				 : write_bind(x, w, "extra_writable", path, path, false, e);
	}
	for (size_t i = 0; r >= 0 && i < json_array_size(binds); i++) {
		const json_t *b = json_array_get(binds, i);
		const char *source = NULL, *dest = NULL;
		bool readonly = false;

		r = json_need_object(b, e);
		if (r >= 0)
			r = json_get_str(b, "source", JSON_MUST, &source, e);
		if (r >= 0)
			r = json_get_str(b, "dest", JSON_MAY, &dest, e);
		if (r >= 0)
			r = json_get_bool(b, "readonly", JSON_MAY, &readonly, e);
		if (r >= 0)
			r = write_bind(x, w, "binds", source,
				       dest != NULL && dest[0] != '\0' ? dest : source, readonly,
				       e);
	}
	return r < 0 ? r : 0;
}

int isolated_request_plan(const struct execd *x, const struct isolated_request *q, struct buf *out,
			  struct err *e)
{
	AUTO(users_free) struct users *u = users_load();
	struct user_ids ids = { .uid = q->uid, .gid = q->gid };
	struct jw w = JW_INIT(out);
	int r;

	if (u != NULL && q->has_uid && !q->has_gid)
		users_ids(u, q->uid, NULL, &ids);
	jw_object(&w);
	jw_field_bool(&w, "userns", q->userns);
	jw_field_bool(&w, "share_net", q->share_net);
	jw_field_bool(&w, "private_tmp", q->strict);
	if (q->has_uid) {
		jw_field_u64(&w, "uid", q->uid);
		jw_field_u64(&w, "gid", ids.gid);
	}
	jw_field_cstr(&w, "workspace", q->workspace);
	jw_field_cstr(&w, "workspace_mode", q->mode);
	jw_key(&w, "binds");
	jw_array(&w);
	r = write_binds(x, q, &w, e);
	if (r < 0)
		return r;
	jw_end(&w);
	jw_end(&w);
	return buf_failed(out) ? err_code(e, ENOMEM, "plan") : 0;
}

/* --- the environment --- */

static bool is_listed(const json_t *keys, const char *name)
{
	for (size_t i = 0; i < json_array_size(keys); i++)
		if (strcmp(json_string_value(json_array_get(keys, i)), name) == 0)
			return true;
	return false;
}

/* Names that secrets go by. */
static bool looks_secret(const char *name)
{
	static const char patterns[] = "{*_API_KEY,*_TOKEN,*_SECRET,*_PASSWORD,AWS_*,ALI_*,"
				       "ALIYUN_*,K8S_*,KUBE_*}";
	char upper[256];
	struct glob g;
	bool found;
	size_t n = 0;

	for (; name[n] != '\0' && n < sizeof(upper); n++)
		upper[n] = (char)(name[n] >= 'a' && name[n] <= 'z' ? name[n] - 'a' + 'A' : name[n]);
	if (name[n] != '\0' || glob_init(&g, span_str(patterns), NULL) < 0)
		return true;
	found = glob_match(&g, span_of(upper, n));
	glob_free(&g);
	return found;
}

bool isolated_env_passes(const struct isolated_request *q, const char *name)
{
	json_t *env = NULL, *keys = NULL;
	const char *mode = "deny";

	if (json_get_object(q->json, "env_passthrough", JSON_MAY, &env, NULL) > 0) {
		(void)json_get_str(env, "mode", JSON_MAY, &mode, NULL);
		(void)json_get_array(env, "keys", JSON_MAY, &keys, NULL);
	}
	if (strcmp(mode, "allow") == 0)
		return is_listed(keys, name);
	return !is_listed(keys, name) && !(q->strict && looks_secret(name));
}

int isolated_request_spec(const struct execd *x, const struct isolated_request *q,
			  const char *token, struct buf *out, struct err *e)
{
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct jw w = JW_INIT(out);
	int r;

	env_init(env);
	r = env_for_process(x, env, e);
	if (r < 0)
		return r;
	jw_object(&w);
	jw_field_cstr(&w, "accessToken", token);
	jw_field_cstr(&w, "cwd", q->workspace);
	jw_key(&w, "env");
	jw_object(&w);
	for (size_t i = 0; i < env->n; i++) {
		struct span value = span_str(env->vars[i]);
		autofree char *name = span_dup(span_cut(&value, '='));

		if (name != NULL && value.p != NULL && isolated_env_passes(q, name)) {
			jw_key(&w, name);
			jw_str(&w, value);
		}
	}
	jw_end(&w);
	jw_end(&w);
	return buf_failed(out) ? err_code(e, ENOMEM, "environment") : 0;
}

/* --- the answer --- */

void isolated_request_echo(const struct isolated_request *q, struct jw *w)
{
	static const char *const plain[] = { "extra_writable", "binds", "env_passthrough" };

	jw_field_cstr(w, "profile", q->strict ? "strict" : "balanced");
	jw_key(w, "workspace");
	jw_object(w);
	jw_field_cstr(w, "path", q->workspace);
	jw_field_cstr(w, "mode", q->mode);
	jw_end(w);
	jw_field_bool(w, "share_net", q->share_net);
	jw_field_cstr(w, "uid_mode", q->userns ? "userns" : "setpriv");
	jw_field_u64(w, "idle_timeout_seconds", q->idle_ms / 1000);
	if (q->has_uid)
		jw_field_u64(w, "uid", q->uid);
	if (q->has_gid)
		jw_field_u64(w, "gid", q->gid);
	for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
		const json_t *v = json_object_get(q->json, plain[i]);

		if (v != NULL && !json_is_null(v)) {
			jw_key(w, plain[i]);
			json_write(w, v);
		}
	}
}
