#include "execd/code_jupyter.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec/json.h"
#include "execd/code_context.h"
#include "execd/proc.h"

#define MAX_SPEC KIB(64)

/* Does DIR/NAME/kernel.json say that it is of this language? */
static bool is_of_language(int dir_fd, const char *name, struct span language)
{
	autofree char *text = malloc(MAX_SPEC);
	AUTO(json_decref) json_t *spec = NULL;
	autofd int fd = -EBADF;
	struct span found = { NULL, 0 };
	char path[NAME_MAX + 16];
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%.*s/kernel.json", NAME_MAX, name);
	fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	n = fd >= 0 && text != NULL ? read(fd, text, MAX_SPEC) : -1;
	if (n <= 0 || json_parse(span_of(text, (size_t)n), &json_default_limits, &spec, NULL) < 0 ||
	    json_get_span(spec, "language", JSON_MAY, &found, NULL) < 0)
		return false;
	return span_eq(span_str(name), language) || span_caseeq(found, language);
}

static bool in_directory(const char *path, struct span language)
{
	DIR *dir = opendir(path);
	struct dirent *d;
	bool found = false;

	if (dir == NULL)
		return false;
	while (!found && (d = readdir(dir)) != NULL)
		found = d->d_name[0] != '.' && is_of_language(dirfd(dir), d->d_name, language);
	(void)closedir(dir);
	return found;
}

/* The places where Jupyter itself looks. */
static bool image_has(const struct env *env, struct span language)
{
	static const char *const usual[] = { "/usr/local/share/jupyter/kernels",
					     "/usr/share/jupyter/kernels" };
	struct span rest = span_str(env_get(env, SPAN_LIT("JUPYTER_PATH")));
	autofree char *python = proc_which("python3", env->vars);
	const char *home = env_get(env, SPAN_LIT("HOME"));
	char path[PATH_MAX], *slash = python != NULL ? strrchr(python, '/') : NULL;

	while (rest.p != NULL) {
		struct span part = span_cut(&rest, ':');

		(void)snprintf(path, sizeof(path), "%.*s/kernels", SPAN_FMT(part));
		if (part.len > 0 && in_directory(path, language))
			return true;
	}
	if (home != NULL) {
		(void)snprintf(path, sizeof(path), "%s/.local/share/jupyter/kernels", home);
		if (in_directory(path, language))
			return true;
	}
	if (slash != NULL) { /* of a virtual environment, or /usr */
		*slash = '\0';
		(void)snprintf(path, sizeof(path), "%s/../share/jupyter/kernels", python);
		if (in_directory(path, language))
			return true;
	}
	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		if (in_directory(usual[i], language))
			return true;
	return false;
}

static bool is_name(struct span s)
{
	if (s.len == 0 || s.len >= sizeof(((struct code_jupyter *)0)->name))
		return false;
	for (size_t i = 0; i < s.len; i++)
		if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+#.-",
			   s.p[i]) == NULL ||
		    s.p[i] == '\0')
			return false;
	return true;
}

static const struct code_language *find(struct execd *x, struct span name)
{
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct code_jupyter *j;

	list_for_each (it, &x->code->jupyter) {
		j = LIST_ENTRY(it, struct code_jupyter, link);
		if (span_is(name, j->name))
			return &j->lang;
	}
	env_init(env);
	if (!is_name(name) || env_for_process(x, env, NULL) < 0 || !image_has(env, name))
		return NULL;
	j = calloc(1, sizeof(*j));
	if (j == NULL)
		return NULL;
	(void)span_copy(name, j->name, sizeof(j->name));
	j->lang = *code_language_find(SPAN_LIT("python"));
	j->lang.name = j->name;
	j->lang.advice = "the Python that the Jupyter kernel was installed for";
	j->lang.from_python = false;
	list_push_back(&x->code->jupyter, &j->link);
	return &j->lang;
}

const struct code_language *code_jupyter_or_ours(struct execd *x, struct span name)
{
	const struct code_language *lang = code_language_find(name);

	return lang != NULL ? lang : find(x, name);
}
