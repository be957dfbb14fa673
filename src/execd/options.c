#include "execd/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/span.h"
#include "base/util.h"

#define DEFAULT_PORT "44772"

enum option {
	OPT_PORT,
	OPT_LISTEN,
	OPT_LISTEN_FD,
	OPT_SPEC_FD,
	OPT_TOKEN,
	OPT_ENVS,
	OPT_LOG_LEVEL,
	OPT_STOP_GRACE,
	OPT_WARM,
	OPT_INTERRUPT_GRACE,
	OPT_JUPYTER_HOST,
	OPT_JUPYTER_TOKEN,
	OPT_GRACEFUL,
	OPT_IDLE_POLL,
	OPT_COUNT
};

static const struct {
	const char *name, *arg, *env, *help;
	bool secret;
} options[OPT_COUNT] = {
	[OPT_PORT] = { "port", "N", NULL, "listen on this TCP port of all addresses (44772)" },
	[OPT_LISTEN] = { "listen", "ADDRESS", NULL,
			 "listen here: 127.0.0.1:8080, [::1]:80, unix:/path" },
	[OPT_LISTEN_FD] = { "listen-fd", "N", NULL, "use this descriptor, which is listening" },
	[OPT_SPEC_FD] = { "spec-fd", "N", NULL,
			  "read token, environment and COMMAND from this descriptor" },
	[OPT_TOKEN] = { "access-token", "TOKEN", "EXECD_ACCESS_TOKEN",
			"what clients must send in X-EXECD-ACCESS-TOKEN", true },
	[OPT_ENVS] = { "envs", "FILE", "EXECD_ENVS", "KEY=VALUE lines for whatever is started" },
	[OPT_LOG_LEVEL] = { "log-level", "LEVEL", NULL, "error, warn, info, debug or 0 to 7 (6)" },
	[OPT_STOP_GRACE] = { "stop-grace", "TIME", NULL,
			     "between SIGTERM and SIGKILL for COMMAND (10s)" },
	[OPT_WARM] = { "warm", "LANGUAGES", "EXECD_WARM",
		       "have kernels of these at hand from the start: python,java (none)" },
	[OPT_INTERRUPT_GRACE] = { "interrupt-grace", "TIME", "EXECD_INTERRUPT_GRACE",
				  "how long an interrupted cell may take before its kernel is "
				  "killed (10s)" },
	[OPT_JUPYTER_HOST] = { "jupyter-host", "URL", "JUPYTER_HOST", "server of code kernels" },
	[OPT_JUPYTER_TOKEN] = { "jupyter-token", "TOKEN", "JUPYTER_TOKEN", "its token", true },
	[OPT_GRACEFUL] = { "graceful-shutdown-timeout", "TIME", "EXECD_API_GRACE_SHUTDOWN",
			   "accepted and not needed: streams end when they end" },
	[OPT_IDLE_POLL] = { "jupyter-idle-poll-interval", "TIME",
			    "EXECD_JUPYTER_IDLE_POLL_INTERVAL", "accepted and not needed" },
};

static void usage(FILE *to)
{
	(void)fprintf(
		to, "usage: execd [OPTION...] [-- COMMAND [ARG...]]\n"
		    "Runs commands, files and terminals of a sandbox for clients that ask by HTTP,"
		    " and supervises COMMAND.\n");
	for (unsigned i = 0; i < OPT_COUNT; i++) {
		char left[64];

		(void)snprintf(left, sizeof(left), "--%s %s", options[i].name, options[i].arg);
		(void)fprintf(to, "  %-36s %s\n", left, options[i].help);
	}
	(void)fprintf(to, "  %-36s %s\n  %-36s %s\n", "--version", "print it", "--help", "this");
}

/* Numbers as syslog has them, or names. */
static bool parse_level(const char *text, enum log_level *ret)
{
	uint64_t n;

	if (!span_u64(span_str(text), &n))
		return log_parse_level(text, ret);
	*ret = n <= 3 ? LOG_ERROR : n == 4 ? LOG_WARN : n <= 6 ? LOG_INFO : LOG_DEBUG;
	return true;
}

static bool parse_int(const char *text, uint64_t max, uint64_t *ret)
{
	return span_u64(span_str(text), ret) && *ret <= max;
}

static bool apply(enum option opt, const char *value, struct execd_options *ret,
		  enum log_level *ret_level)
{
	uint64_t n = 0;

	switch (opt) {
	case OPT_PORT:
		if (!parse_int(value, 65535, &n))
			return false;
		(void)snprintf(ret->listen_buf, sizeof(ret->listen_buf), "0.0.0.0:%u", (unsigned)n);
		ret->listen = ret->listen_buf;
		return true;
	case OPT_LISTEN:
		ret->listen = value;
		return true;
	case OPT_LISTEN_FD:
		if (!parse_int(value, 65535, &n))
			return false;
		ret->listen_fd = (int)n;
		return true;
	case OPT_SPEC_FD:
		if (!parse_int(value, 65535, &n))
			return false;
		ret->spec_fd = (int)n;
		return true;
	case OPT_TOKEN:
		free(ret->access_token);
		ret->access_token = value[0] != '\0' ? strdup(value) : NULL;
		return true;
	case OPT_ENVS:
		ret->envs_file = value[0] != '\0' ? value : NULL;
		return true;
	case OPT_LOG_LEVEL:
		return parse_level(value, ret_level);
	case OPT_STOP_GRACE:
		return clock_parse_duration(span_str(value), &ret->stop_grace_ms);
	case OPT_WARM:
		ret->warm = value;
		return true;
	case OPT_INTERRUPT_GRACE:
		return clock_parse_duration(span_str(value), &ret->interrupt_grace_ms) &&
		       ret->interrupt_grace_ms > 0;
	case OPT_JUPYTER_HOST:
		ret->jupyter_host = value;
		return true;
	case OPT_JUPYTER_TOKEN:
		free(ret->jupyter_token);
		ret->jupyter_token = strdup(value);
		return true;
	case OPT_GRACEFUL:
	case OPT_IDLE_POLL:
		return true;
	case OPT_COUNT:
		break;
	}
	return false;
}

/* /proc/PID/cmdline and environ show these bytes to everybody. */
static void wipe(char *text)
{
	memset(text, 'x', strlen(text));
}

static void from_environment(char **env, struct execd_options *ret, enum log_level *ret_level)
{
	for (; *env != NULL; env++) {
		for (unsigned i = 0; i < OPT_COUNT; i++) {
			size_t n = options[i].env != NULL ? strlen(options[i].env) : 0;

			if (n > 0 && strncmp(*env, options[i].env, n) == 0 && (*env)[n] == '=')
				(void)apply((enum option)i, *env + n + 1, ret, ret_level);
		}
	}
}

static int find(struct span name)
{
	for (int i = 0; i < OPT_COUNT; i++)
		if (span_is(name, options[i].name))
			return i;
	return -1;
}

enum options_verdict options_parse(int argc, char **argv, char **env, struct execd_options *ret,
				   enum log_level *ret_level)
{
	*ret = (struct execd_options){
		.listen = "0.0.0.0:" DEFAULT_PORT,
		.listen_fd = -EBADF,
		.spec_fd = -EBADF,
		.stop_grace_ms = 10000,
		.interrupt_grace_ms = 10000,
		.warm = "none",
	};
	from_environment(env, ret, ret_level);
	for (int i = 1; i < argc; i++) {
		struct span rest, name;
		char *value;
		int opt;

		if (strcmp(argv[i], "--") == 0) {
			ret->entrypoint = i + 1 < argc ? argv + i + 1 : NULL;
			break;
		}
		if (argv[i][0] != '-') /* images append words of their own: not for us */
			break;
		rest = span_str(argv[i] + (argv[i][1] == '-' ? 2 : 1));
		name = span_cut(&rest, '=');
		if (span_is(name, "help") || span_is(name, "h")) {
			usage(stdout);
			return OPTIONS_EXIT_OK;
		}
		if (span_is(name, "version")) {
			(void)printf("execd %s\n", OSB_VERSION);
			return OPTIONS_EXIT_OK;
		}
		opt = find(name);
		value = rest.p != NULL             ? argv[i] + (rest.p - argv[i])
			: opt >= 0 && i + 1 < argc ? argv[++i]
						   : NULL;
		if (opt < 0 || value == NULL || !apply((enum option)opt, value, ret, ret_level)) {
			(void)fprintf(stderr, "execd: bad option or value: %s\n", argv[i]);
			usage(stderr);
			return OPTIONS_EXIT_USAGE;
		}
		if (options[opt].secret)
			wipe(value);
	}
	for (; *env != NULL; env++)
		if (strncmp(*env, "EXECD_ACCESS_TOKEN=", 19) == 0)
			wipe(*env + 19);
	return OPTIONS_RUN;
}
