#include "execd/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codec/json.h"

#define MAX_SPEC MIB(1)

static const char *const default_env[][2] = {
	{ "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" },
	{ "HOME", "/root" },
	{ "LANG", "C.UTF-8" },
	{ "SHELL", "/bin/sh" },
	{ "USER", "root" },
};

static int read_all(int fd, struct buf *b, struct err *e)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "look at the sandbox's spec");
	r = buf_reserve(b, (size_t)st.st_size);
	if (r < 0)
		return err_code(e, r, "read the sandbox's spec");
	while (b->len < (size_t)st.st_size) {
		ssize_t n = pread(fd, b->data + b->len, (size_t)st.st_size - b->len, (off_t)b->len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? err_sys(e, "read the sandbox's spec")
				     : err_set(e, EIO, "the sandbox's spec is cut short");
		b->len += (size_t)n;
	}
	return 0;
}

static int take_env(const json_t *spec, struct err *e)
{
	json_t *env = NULL, *value;
	const char *name;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(default_env); i++)
		(void)setenv(default_env[i][0], default_env[i][1], 0);
	r = json_get_object(spec, "env", JSON_MAY, &env, e);
	if (r <= 0)
		return r;
	json_object_foreach (env, name, value) {
		if (!json_is_string(value) || name[0] == '\0' || strchr(name, '=') != NULL)
			return err_set(e, EINVAL, "env '%s' of the spec cannot be set", name);
		if (setenv(name, json_string_value(value), 1) < 0)
			return err_sys(e, "set env '%s'", name);
	}
	return 0;
}

/* The vector lives as long as the process. */
static int take_entrypoint(const json_t *spec, struct execd_options *opt, struct err *e)
{
	json_t *list = NULL;
	char **argv;
	size_t n;
	int r;

	r = json_get_array(spec, "entrypoint", JSON_MAY, &list, e);
	n = r > 0 ? json_array_size(list) : 0;
	if (r < 0 || n == 0)
		return r < 0 ? r : 0;
	argv = calloc(n + 1, sizeof(*argv));
	if (argv == NULL)
		return err_code(e, ENOMEM, "entrypoint");
	for (size_t i = 0; i < n; i++) {
		const char *word = json_string_value(json_array_get(list, i));

		argv[i] = word != NULL ? strdup(word) : NULL;
		if (argv[i] == NULL)
			return err_set(e, EINVAL,
				       "entrypoint of the spec is not a list of strings");
	}
	opt->entrypoint = argv;
	return 0;
}

static int take_token(const json_t *spec, struct execd_options *opt, struct err *e)
{
	const char *token = NULL;
	int r = json_get_str(spec, "accessToken", JSON_MAY, &token, e);

	if (r <= 0)
		return r;
	free(opt->access_token);
	opt->access_token = strdup(token);
	return opt->access_token == NULL ? err_code(e, ENOMEM, "token") : 0;
}

static int take_cwd(const json_t *spec, struct err *e)
{
	const char *cwd = NULL;
	int r = json_get_str(spec, "cwd", JSON_MAY, &cwd, e);

	if (r <= 0)
		return r;
	return chdir(cwd) < 0 ? err_sys(e, "working directory '%s'", cwd) : 0;
}

int spec_load(int fd, struct execd_options *opt, struct err *e)
{
	AUTO(buf_free) struct buf *text = &BUF_INIT(MAX_SPEC);
	AUTO(json_decref) json_t *spec = NULL;
	autofd int own = fd;
	int r;

	r = read_all(own, text, e);
	if (r == 0)
		r = json_parse(buf_span(text), &json_default_limits, &spec, e);
	if (r == 0)
		r = json_need_object(spec, e);
	if (r == 0)
		r = take_env(spec, e);
	if (r == 0)
		r = take_token(spec, opt, e);
	if (r == 0)
		r = take_cwd(spec, e);
	if (r == 0)
		r = take_entrypoint(spec, opt, e);
	/* the token lay in both */
	if (text->data != NULL)
		explicit_bzero(text->data, text->len);
	return r < 0 ? err_wrap(e, "spec of the sandbox") : 0;
}
