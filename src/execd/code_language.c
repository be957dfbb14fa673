#include "execd/code_language.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "execd/proc.h"

#define PYTHON_ARGV                                                                  \
	{                                                                            \
		"-c", "exec(compile(open(4, 'rb').read(), '<osb kernel>', 'exec'))", \
	}
/* import() belongs to the script it is written in, so the driver gets one that works */
#define NODE_ARGV                                                                   \
	{                                                                           \
		"-e",                                                               \
			"{ const s = require('node:fs').readFileSync(4, 'utf8');"   \
			"new Function('require', 'importer', 'source', s)"          \
			"(require, (what, options) => import(what, options), s) }", \
	}

static const struct code_language languages[] = {
	{
		.name = "python",
		.driver = "python",
		.needs = { "python3|python" },
		.advice = "Python 3.8 or newer",
		.argv = PYTHON_ARGV,
		.from_python = true,
	},
	{
		.name = "sql",
		.driver = "python",
		.needs = { "python3|python" },
		.advice = "Python 3.8 or newer, whose sqlite3 module runs the statements",
		.argv = PYTHON_ARGV,
		.from_python = true,
	},
	{
		.name = "javascript",
		.driver = "javascript",
		.needs = { "node|nodejs" },
		.advice = "Node.js 18 or newer",
		.argv = NODE_ARGV,
	},
	{
		.name = "typescript",
		.driver = "javascript",
		.needs = { "node|nodejs" },
		.advice = "Node.js 22.13 or newer, or an older one and the typescript package",
		.argv = NODE_ARGV,
	},
	{
		.name = "bash",
		.driver = "bash",
		.needs = { "bash" },
		.advice = "bash 4.4 or newer",
		.argv = { "--noprofile", "--norc", "-c", "%s", "bash" },
		.text_cells = true,
	},
	{
		.name = "java",
		.driver = "java",
		.needs = { "java" },
		.advice = "a JDK, 11 or newer",
		.argv = { "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
			  "--add-opens=java.base/java.io=ALL-UNNAMED", "--source", "11",
			  "/dev/fd/4" },
	},
	{
		.name = "go",
		.driver = "go",
		.needs = { "sh", "go" },
		.advice = "Go 1.20 or newer",
		.argv = { "/dev/fd/4" },
		.needs_dir = true,
	},
	{
		.name = "ruby",
		.driver = "ruby",
		.needs = { "ruby" },
		.advice = "Ruby 2.7 or newer",
		.argv = { "-e", "eval(IO.for_fd(4).read, TOPLEVEL_BINDING.dup, 'osb kernel')" },
	},
	{
		.name = "r",
		.driver = "r",
		.needs = { "bash", "Rscript" },
		.advice = "R 3.6 or newer",
		.argv = { "--noprofile", "--norc", "-c",
			  "exec 5< <(trap '' INT; exec cat <&3) 6> >(trap '' INT; exec cat >&3) 3<&-; "
			  "TMPDIR=$OSB_KERNEL_DIR exec Rscript --no-init-file /dev/fd/4" },
		.text_cells = true,
		.needs_dir = true,
	},
};

const struct code_language *code_language_find(struct span name)
{
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (span_is(name, languages[i].name))
			return &languages[i];
	return NULL;
}

const struct kernel_program *code_language_driver(const struct code_language *lang)
{
	const struct kernel_program *p = kernel_programs;

	while (p->name != NULL && strcmp(p->name, lang->driver) != 0)
		p++;
	return p->name != NULL ? p : NULL;
}

/* The first of the names that PATH has. */
static char *locate_one(const char *names, const struct env *env)
{
	struct span rest = span_str(names);
	char name[32], *path = NULL;

	while (rest.p != NULL && path == NULL)
		if (span_copy(span_cut(&rest, '|'), name, sizeof(name)))
			path = proc_which(name, env->vars);
	return path;
}

int code_language_locate(const struct code_language *lang, const struct env *env, char **ret,
			 struct err *e)
{
	autofree char *first = NULL;

	if (code_language_driver(lang) == NULL)
		return err_set(e, ENOENT, "%s is not part of this build", lang->name);
	for (size_t i = 0; i < ARRAY_LEN(lang->needs) && lang->needs[i] != NULL; i++) {
		autofree char *path = locate_one(lang->needs[i], env);

		if (path == NULL)
			return err_set(e, ENOENT,
				       "%s is not in this image: there is no '%s' on the PATH "
				       "(needed: %s)",
				       lang->name, lang->needs[i], lang->advice);
		if (i == 0)
			first = TAKE(path);
	}
	*ret = TAKE(first);
	return 0;
}
