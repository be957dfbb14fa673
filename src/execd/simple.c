#include "execd/simple.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "execd/proc.h"

/* Keywords and builtins of bash and of POSIX shells. */
static const char *const shell_words[] = {
	".",        ":",       "[",       "alias",   "bg",       "bind",     "break",   "builtin",
	"caller",   "case",    "cd",      "command", "compgen",  "complete", "compopt", "continue",
	"coproc",   "declare", "dirs",    "disown",  "do",       "done",     "echo",    "elif",
	"else",     "enable",  "esac",    "eval",    "exec",     "exit",     "export",  "false",
	"fc",       "fg",      "fi",      "for",     "function", "getopts",  "hash",    "help",
	"history",  "if",      "in",      "jobs",    "kill",     "let",      "local",   "logout",
	"mapfile",  "newgrp",  "popd",    "printf",  "pushd",    "pwd",      "read",    "readarray",
	"readonly", "return",  "select",  "set",     "shift",    "shopt",    "source",  "suspend",
	"test",     "then",    "time",    "times",   "trap",     "true",     "type",    "typeset",
	"ulimit",   "umask",   "unalias", "unset",   "until",    "wait",     "while",
};

/* Variables that make a shell do more than it was told. */
static const char *const shell_variables[] = { "BASH_ENV",  "BASHOPTS",   "ENV",
					       "SHELLOPTS", "SSH_CLIENT", "SSH2_CLIENT" };

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("_./:,@%+=-", c) != NULL);
}

static bool is_shell_word(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(shell_words); i++)
		if (strcmp(shell_words[i], word) == 0)
			return true;
	return false;
}

/* A builtin whose namesake in the file system does the very same with these words. */
static bool has_twin(const struct simple *s)
{
	if (strcmp(s->argv[0], "true") == 0 || strcmp(s->argv[0], "false") == 0)
		return s->n == 1;
	if (strcmp(s->argv[0], "echo") != 0)
		return false;
	return s->n == 1 || s->argv[1][0] != '-'; /* no options, and plain words have no escapes */
}

bool simple_split(const char *text, struct simple *ret)
{
	bool in_word = false;
	size_t len = strlen(text);

	ret->n = 0;
	if (len >= sizeof(ret->text))
		return false;
	for (size_t i = 0; i <= len; i++) {
		char c = text[i];

		if (c == ' ' || c == '\t' || c == '\0') {
			ret->text[i] = '\0';
			in_word = false;
			continue;
		}
		if (!is_plain(c))
			return false;
		ret->text[i] = c;
		if (!in_word) {
			if (ret->n == SIMPLE_MAX_WORDS)
				return false;
			ret->argv[ret->n++] = &ret->text[i];
			in_word = true;
		}
	}
	ret->argv[ret->n] = NULL;
	if (ret->n == 0 || strchr(ret->argv[0], '=') != NULL)
		return false;
	if (strchr(ret->argv[0], '/') != NULL && ret->argv[0][0] != '/')
		return false; /* relative to a directory we are not in */
	return !is_shell_word(ret->argv[0]) || has_twin(ret);
}

/* A PATH that depends on the directory is the shell's to follow. */
static bool path_is_absolute(const struct env *env)
{
	struct span rest = span_str(env_get(env, SPAN_LIT("PATH")));

	if (rest.len == 0)
		return false;
	while (rest.p != NULL)
		if (!span_starts(span_cut(&rest, ':'), "/"))
			return false;
	return true;
}

static bool shell_is_tampered(const struct env *env)
{
	for (size_t i = 0; i < ARRAY_LEN(shell_variables); i++)
		if (env_get(env, span_str(shell_variables[i])) != NULL)
			return true;
	for (size_t i = 0; i < env->n; i++)
		if (strncmp(env->vars[i], "BASH_FUNC_", 10) == 0)
			return true;
	return false;
}

/* The kernel can run it by itself: a shell would also try a file of bare commands. */
static bool is_program(const char *path)
{
	autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char magic[4];

	return fd >= 0 && read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	       (memcmp(magic, "\177ELF", 4) == 0 || memcmp(magic, "#!", 2) == 0);
}

/* PWD as a shell would find it: what it was told, if that is where it is. */
static void set_pwd(const char *cwd, struct env *env)
{
	const char *told = env_get(env, SPAN_LIT("PWD"));
	char real[PATH_MAX];
	struct stat a, b;

	if (told != NULL && told[0] == '/' && stat(told, &a) == 0 &&
	    stat(cwd != NULL ? cwd : ".", &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return;
	if (realpath(cwd != NULL ? cwd : ".", real) != NULL)
		(void)env_set(env, SPAN_LIT("PWD"), span_str(real));
}

bool simple_prepare(const char *text, const char *cwd, struct env *env, struct simple *ret)
{
	autofree char *path = NULL;

	if (!simple_split(text, ret) || shell_is_tampered(env) || !path_is_absolute(env))
		return false;
	path = proc_which(ret->argv[0], env->vars);
	if (path == NULL || !is_program(path) || access(path, X_OK) < 0)
		return false;
	set_pwd(cwd, env);
	/* a shell counts itself, and takes itself back when it is replaced by its last command */
	if (env_get(env, SPAN_LIT("SHLVL")) == NULL)
		(void)env_set(env, SPAN_LIT("SHLVL"), SPAN_LIT("0"));
	(void)env_set(env, SPAN_LIT("_"), span_str(path));
	ret->path = TAKE(path);
	return true;
}
