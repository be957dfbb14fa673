#include "server/options.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "server/errors.h"
#include "server/images.h"
#include "server/routes.h"
#include "sys/fsat.h"

#define HOME_FILE ".sandbox.toml" /* of a user who has said nothing else */

/* Options that stand for a setting; a flag sets "true". */
static const struct {
	const char *name, *argument, *key, *doc;
} settings[] = {
	{ "--state-dir", "DIR", "store.state_dir", "where everything lives" },
	{ "--host", "ADDRESS", "server.host", "where to listen" },
	{ "--port", "N", "server.port", "0 picks a free one" },
	{ "--runner-socket", "PATH", "runtime.runner_socket", "a runner that runs already" },
	{ "--log-level", "LEVEL", "log.level", "error, warn, info or debug" },
	{ "--kill-on-exit", NULL, "server.kill_on_exit", "delete all sandboxes at the end" },
	{ "--allow-insecure", NULL, "server.allow_insecure", "listen anywhere without a key" },
};

static void usage(FILE *to)
{
	(void)fprintf(to, "usage: opensandbox-server [OPTION...]\n"
			  "       opensandbox-server init-config [FILE] [--force] "
			  "[--example native|docker|kubernetes]\n"
			  "       opensandbox-server image import NAME TARBALL [OPTION...]\n"
			  "       opensandbox-server config-docs | error-docs | route-docs\n\n"
			  "  --config FILE            settings in TOML\n");
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		char left[40];

		(void)snprintf(left, sizeof(left), "%s %s", settings[i].name,
			       settings[i].argument != NULL ? settings[i].argument : "");
		(void)fprintf(to, "  %-24s %s\n", left, settings[i].doc);
	}
	(void)fprintf(to, "  %-24s %s\n  %-24s %s\n", "--set KEY=VALUE",
		      "any setting, such as server.backlog=100", "--version, --help", "");
}

static enum options_result bad(const char *what)
{
	(void)fprintf(stderr, "opensandbox-server: %s\n", what);
	return OPTIONS_BAD;
}

static enum options_result print_docs(void (*docs)(struct buf *out))
{
	struct buf out = BUF_INIT(MIB(1));

	docs(&out);
	(void)fwrite(out.data, 1, out.len, stdout);
	buf_free(&out);
	return OPTIONS_DONE;
}

/* --- init-config --- */

static enum options_result init_config(int argc, char **argv)
{
	const char *file = NULL, *example = "native", *home = getenv("HOME");
	struct buf out = BUF_INIT(MIB(1));
	char fallback[4096];
	bool force = false;
	int fd, r;

	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--force") == 0)
			force = true;
		else if (strcmp(argv[i], "--example") == 0 && i + 1 < argc)
			example = argv[++i];
		else if (argv[i][0] != '-' && file == NULL)
			file = argv[i];
		else
			return bad("init-config [FILE] [--force] [--example NAME]");
	}
	if (file == NULL && home != NULL && home[0] == '/' &&
	    (size_t)snprintf(fallback, sizeof(fallback), "%s/" HOME_FILE, home) < sizeof(fallback))
		file = fallback;
	if (file == NULL)
		return bad("init-config needs the name of the file to write");
	if (config_example(example, &out) < 0) {
		buf_free(&out);
		return bad("there are the examples native, docker and kubernetes");
	}
	/* it will hold a key: nobody else's to read */
	fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC | (force ? O_TRUNC : O_EXCL), 0600);
	r = fd >= 0 ? fsat_write_all(fd, out.data, out.len) : -errno;
	if (fd >= 0)
		(void)close(fd);
	buf_free(&out);
	if (r < 0) {
		(void)fprintf(stderr, "opensandbox-server: %s: %s%s\n", file, strerrordesc_np(-r),
			      r == -EEXIST ? " (--force replaces it)" : "");
		return OPTIONS_BAD;
	}
	(void)printf("wrote %s\n", file);
	return OPTIONS_DONE;
}

/* --- settings --- */

/* The file to read: named, or the first that exists; NULL for none. */
static const char *config_file(struct config *c, const char *named)
{
	const char *home = getenv("HOME"), *from_env = getenv("SANDBOX_CONFIG_PATH");
	const char *places[] = {
		"/etc/opensandbox/server.toml",
		home != NULL ? arena_printf(&c->arena, "%s/" HOME_FILE, home) : NULL,
	};

	if (named != NULL)
		return named;
	if (from_env != NULL && from_env[0] != '\0')
		return from_env;
	for (size_t i = 0; i < ARRAY_LEN(places); i++)
		if (places[i] != NULL && access(places[i], F_OK) == 0)
			return places[i];
	return NULL;
}

/* The key is for us alone: what we start later, the runner first of all, does not inherit it. */
static int read_environment(struct config *c, struct err *e)
{
	static const char key_name[] = "OPENSANDBOX_SERVER_API_KEY";
	const char *key = getenv(key_name);
	const char *insecure = getenv("OPENSANDBOX_INSECURE_SERVER");
	int r = 0;

	if (key != NULL)
		r = config_set(c, "server.api_key", key, e);
	(void)unsetenv(key_name);
	if (r >= 0 && insecure != NULL && strcmp(insecure, "YES") == 0)
		r = config_set(c, "server.allow_insecure", "true", e);
	return r;
}

/* One option at argv[*i]; 1 if it was one, 0 if not, < 0 on a mistake. */
static int read_setting(struct config *c, int argc, char **argv, int *i, struct err *e)
{
	const char *name = argv[*i];
	int r;

	for (size_t k = 0; k < ARRAY_LEN(settings); k++) {
		const char *value = "true";

		if (strcmp(name, settings[k].name) != 0)
			continue;
		if (settings[k].argument != NULL) {
			if (*i + 1 >= argc)
				return err_set(e, EINVAL, "%s needs a value", name);
			value = argv[++*i];
		}
		r = config_set(c, settings[k].key, value, e);
		return r < 0 ? r : 1;
	}
	if (strcmp(name, "--set") == 0 && *i + 1 < argc) {
		struct span value = span_str(argv[++*i]);
		struct span left = span_cut(&value, '=');
		const char *key = arena_dup(&c->arena, left);

		if (value.p == NULL || key == NULL)
			return err_set(e, EINVAL, "--set needs KEY=VALUE");
		r = config_set(c, key, value.p, e);
		return r < 0 ? r : 1;
	}
	return 0;
}

/* File first, then environment, then command line: the nearer wins. */
static int read_all(struct config *c, int argc, char **argv, const char **words, int *n_words,
		    struct err *e)
{
	const char *file = NULL;
	int r;

	for (int i = 1; i + 1 < argc; i++)
		if (strcmp(argv[i], "--config") == 0)
			file = argv[i + 1];
	file = config_file(c, file);
	r = file != NULL ? config_load(c, file, e) : 0;
	if (r >= 0)
		r = read_environment(c, e);
	for (int i = 1; r >= 0 && i < argc; i++) {
		if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) {
			i++;
			continue;
		}
		r = read_setting(c, argc, argv, &i, e);
		if (r != 0)
			continue;
		if (argv[i][0] == '-' || *n_words == 4)
			return err_set(e, EINVAL, "'%s' is not understood; see --help", argv[i]);
		words[(*n_words)++] = argv[i];
	}
	return r < 0 ? r : config_finish(c, e);
}

enum options_result options_read(int argc, char **argv, struct config *config)
{
	static const struct {
		const char *name;
		void (*docs)(struct buf *out);
	} docs[] = {
		{ "config-docs", config_docs },
		{ "error-docs", error_docs },
		{ "route-docs", route_docs },
	};
	const char *words[4];
	struct err e = ERR_INIT;
	int n_words = 0;

	for (size_t i = 0; argc == 2 && i < ARRAY_LEN(docs); i++)
		if (strcmp(argv[1], docs[i].name) == 0)
			return print_docs(docs[i].docs);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			usage(stdout);
			return OPTIONS_DONE;
		}
		if (strcmp(argv[i], "--version") == 0) {
			(void)puts("opensandbox-server " OSB_VERSION);
			return OPTIONS_DONE;
		}
	}
	if (argc > 1 && strcmp(argv[1], "init-config") == 0)
		return init_config(argc - 2, argv + 2);
	if (config_init(config, &e) < 0 || read_all(config, argc, argv, words, &n_words, &e) < 0)
		return bad(e.msg);
	if (n_words == 4 && strcmp(words[0], "image") == 0 && strcmp(words[1], "import") == 0)
		return images_import(config, words[2], words[3], &e) < 0 ? bad(e.msg)
									 : OPTIONS_DONE;
	if (n_words > 0) {
		usage(stderr);
		return OPTIONS_BAD;
	}
	return OPTIONS_RUN;
}
