#include "server/config_table.h"

#include <string.h>

#include "policy/netaddr.h"
#include "server/rights.h"

#define AT(member) offsetof(struct config, member)

const struct config_option config_options[] = {
	{ "server.host", CONFIG_STRING, AT(host), "127.0.0.1", 0, 0,
	  "Address to listen on. Anything but loopback needs `api_key`." },
	{ "server.port", CONFIG_INTEGER, AT(port), "8080", 0, 65535,
	  "Port to listen on; 0 picks a free one (the first line of output names it)." },
	{ "server.api_key", CONFIG_STRING, AT(api_key), "", 0, 0,
	  "What clients send as `OPEN-SANDBOX-API-KEY`. Empty: no authentication, loopback only. "
	  "The environment variable `OPENSANDBOX_SERVER_API_KEY` replaces it." },
	{ "server.eip", CONFIG_STRING, AT(public_address), "", 0, 0,
	  "Public `host[:port][/prefix]` that endpoints are given out with. Empty: the Host that "
	  "the client used." },
	{ "server.allow_insecure", CONFIG_BOOLEAN, AT(allow_insecure), "false", 0, 0,
	  "Listen beyond loopback without a key. Whoever reaches the port then owns every sandbox. "
	  "`OPENSANDBOX_INSECURE_SERVER=YES` does the same." },
	{ "server.cors_origins", CONFIG_LIST, AT(cors_origins), "", 0, 0,
	  "Web origins that may call the API from a browser. Empty: any, if there is a key; "
	  "loopback ones, if there is none." },
	{ "server.max_sandbox_timeout_seconds", CONFIG_INTEGER, AT(max_timeout_s), "0", 0,
	  INT32_MAX, "Longest `timeout` that a create may ask for; 0: no limit." },
	{ "server.limit_concurrency", CONFIG_INTEGER, AT(max_connections), "10000", 0, 1000000,
	  "Connections at a time; more are answered 503. 0: as many as there are descriptors "
	  "for." },
	{ "server.timeout_keep_alive", CONFIG_INTEGER, AT(keep_alive_s), "75", 1, 86400,
	  "Seconds that an idle connection is kept." },
	{ "server.backlog", CONFIG_INTEGER, AT(backlog), "4096", 1, 65535,
	  "Connections that may wait to be accepted." },
	{ "server.max_concurrent_creates", CONFIG_INTEGER, AT(max_creates), "1024", 1, 100000,
	  "Creates under way at a time; more are answered 503 with Retry-After." },
	{ "server.max_sandboxes", CONFIG_INTEGER, AT(max_sandboxes), "10000", 1, 1000000,
	  "Sandboxes alive at a time; creates beyond are answered 503." },
	{ "server.kill_on_exit", CONFIG_BOOLEAN, AT(kill_on_exit), "false", 0, 0,
	  "Delete all sandboxes when the server ends. Otherwise they live on and are found again "
	  "by the next one." },

	{ "server.user", CONFIG_STRING, AT(user), RIGHTS_DEFAULT_USER, 0, 0,
	  "Whom a server that is started as root becomes, by name or number. Where there is no "
	  "`opensandbox`, the number 61000 is taken; `root` stays root." },

	{ "store.state_dir", CONFIG_STRING, AT(state_dir), "", 0, 0,
	  "Everything that survives a restart lies below. Empty: `/var/lib/opensandbox` for root; for "
	  "others `$XDG_STATE_HOME/opensandbox`, or `~/.opensandbox` where that is not set." },
	{ "store.path", CONFIG_STRING, AT(store_path), "", 0, 0,
	  "The SQLite file. Empty: `server/server.db` in the state directory." },
	{ "store.retention_seconds", CONFIG_INTEGER, AT(retention_s), "3600", 0, 2592000,
	  "How long a sandbox that has ended can still be looked at." },
	{ "store.max_ended", CONFIG_INTEGER, AT(max_ended), "1000", 1, 1000000,
	  "How many of those are kept; the oldest go first." },

	{ "log.level", CONFIG_STRING, AT(log_level), "info", 0, 0,
	  "`error`, `warn`, `info` or `debug` (which has a line per request)." },
	{ "log.format", CONFIG_STRING, AT(log_format), "text", 0, 0, "`text` or `json`.",
	  config_check_log_format },

	{ "runtime.type", CONFIG_STRING, AT(runtime), "native", 0, 0,
	  "What runs the sandboxes. `native`: the kernel alone, through opensandbox-runner." },
	{ "runtime.runner_path", CONFIG_STRING, AT(runner_path), "", 0, 0,
	  "The runner to start. Empty: `opensandbox-runner` beside the server.",
	  config_check_program },
	{ "runtime.runner_socket", CONFIG_STRING, AT(runner_socket), "", 0, 0,
	  "Where a runner listens that somebody else starts (systemd). What it may mount and reach "
	  "is then said by its own options too: `--allow-path`, `--open-net`, `--dns`, `--ipv6`. "
	  "Empty: the server starts its own." },
	{ "runtime.execd_path", CONFIG_STRING, AT(execd_path), "", 0, 0,
	  "The program that becomes PID 1 of every sandbox. Empty: `execd` beside the server.",
	  config_check_program },
	{ "runtime.create_timeout_seconds", CONFIG_INTEGER, AT(create_timeout_s), "30", 1, 3600,
	  "How long a new sandbox may take until its execd answers." },
	{ "runtime.default_pids", CONFIG_INTEGER, AT(default_pids), "4096", 0, 4194304,
	  "Processes and threads per sandbox when the request sets no `pids`; 0: no limit." },
	{ "runtime.default_disk", CONFIG_STRING, AT(default_disk), "", 0, 0,
	  "Size of what a sandbox may write when the request sets no `disk`, such as `10Gi`. "
	  "Empty: no limit.",
	  config_check_size },
	{ "runtime.unheld_limits", CONFIG_STRING, AT(unheld_limits), "refuse", 0, 0,
	  "A limit that this host cannot hold, as without root or without cgroups: `refuse` the "
	  "create, or `ignore` the limit. Clients ask for `cpu` and `memory` by default.",
	  config_check_unheld },

	{ "network.enabled", CONFIG_STRING, AT(network), "auto", 0, 0,
	  "`on`: every sandbox gets a network, or its create fails. `off`: none does. `auto`: if "
	  "the host can.",
	  config_check_net_mode },

	{ "network.dns", CONFIG_LIST, AT(dns), "", 0, NETADDR_MAX_DNS,
	  "Addresses of the nameservers of sandboxes, at most three. Empty: those of the host.",
	  config_check_address },
	{ "network.allowed_private", CONFIG_LIST, AT(open_networks), "", 0, NETADDR_MAX_OPEN,
	  "Private networks (CIDR) that sandboxes may reach. Without them all private ranges, the "
	  "host's loopback, cloud metadata addresses and other sandboxes are closed.",
	  config_check_network },
	{ "network.ipv6", CONFIG_BOOLEAN, AT(ipv6), "false", 0, 0,
	  "Give sandboxes IPv6 as well; turns on forwarding of it on the host." },

	{ "storage.allowed_host_paths", CONFIG_LIST, AT(allowed_host_paths), "", 0, 0,
	  "Host directories that volumes may come from, themselves and all below. Empty: none.",
	  config_check_path },

	{ "storage.volume_default_size", CONFIG_STRING, AT(volume_default_size), "", 0, 0,
	  "What a new named volume can hold when the request sets no `storage`, such as `1Gi`. "
	  "Empty: no limit.",
	  config_check_size },

	{ "images.default", CONFIG_STRING, AT(image_default), "", 0, 0,
	  "What a name stands for that is no image here, such as `host`. Empty: such a name is an "
	  "error." },
	{ "images.aliases", CONFIG_PAIRS, AT(image_aliases), "", 0, 0,
	  "Names and what they stand for: `\"python:3.12\" = \"host\"`. A `*` at the end of a name "
	  "matches the rest." },
	{ "images.allowed_paths", CONFIG_LIST, AT(image_paths), "", 0, 0,
	  "Directories that `dir:/path` images may come from, themselves and all below. Empty: "
	  "none.",
	  config_check_path },

	{ "renew_intent.enabled", CONFIG_BOOLEAN, AT(renew_enabled), "true", 0, 0,
	  "Honour the extension `access.renew.extend.seconds`: traffic through the gateway moves "
	  "the expiry of a sandbox that asked for it." },
	{ "renew_intent.min_interval_seconds", CONFIG_INTEGER, AT(renew_interval_s), "60", 1, 86400,
	  "At most one such renewal per sandbox in this time." },
	{ NULL, CONFIG_STRING, 0, NULL, 0, 0, NULL, NULL },
};

static const struct {
	const char *name, *text;
} sections[] = {
	{ "server", "Who may talk to the server, and how many." },
	{ "store", "What is kept, and for how long." },
	{ "log", "Lines on standard error." },
	{ "runtime", "How sandboxes are made." },
	{ "network", "What sandboxes may reach." },
	{ "storage", "What may be mounted into sandboxes." },
	{ "images",
	  "What sandboxes start from: `host` (the machine's own /usr, read-only), an "
	  "imported root file system (`opensandbox-server image import NAME TARBALL`), or "
	  "`dir:/path`." },
	{ "renew_intent", "Renewal on access." },
};

static const char *section_text(struct span name)
{
	for (size_t i = 0; i < ARRAY_LEN(sections); i++)
		if (span_is(name, sections[i].name))
			return sections[i].text;
	return "";
}

static const char *type_name(enum config_type t)
{
	switch (t) {
	case CONFIG_STRING:
		return "string";
	case CONFIG_INTEGER:
		return "integer";
	case CONFIG_BOOLEAN:
		return "boolean";
	case CONFIG_LIST:
		return "list of strings";
	case CONFIG_PAIRS:
		return "table of strings";
	}
	return "";
}

static void add_value(struct buf *out, const struct config_option *o)
{
	switch (o->type) {
	case CONFIG_STRING:
		(void)buf_printf(out, "\"%s\"", o->fallback);
		break;
	case CONFIG_INTEGER:
	case CONFIG_BOOLEAN:
		(void)buf_add_str(out, o->fallback);
		break;
	case CONFIG_LIST:
		(void)buf_add_str(out, "[]");
		break;
	case CONFIG_PAIRS:
		(void)buf_add_str(out, "{}");
		break;
	}
}

/* "section.name" apart; true if the section is another than before. */
static bool split_key(const char *key, struct span *section, struct span *name)
{
	struct span rest = span_str(key), before = *section;

	*section = span_cut(&rest, '.');
	*name = rest;
	return !span_eq(before, *section);
}

/* Wraps the text at blanks, each line behind the prefix. */
static void add_wrapped(struct buf *out, const char *prefix, const char *text)
{
	struct span rest = span_str(text);
	size_t column = 0;

	while (rest.p != NULL) {
		struct span word = span_cut(&rest, ' ');

		if (column == 0 || column + word.len + 1 > 96) {
			(void)buf_printf(out, "%s%s", column > 0 ? "\n" : "", prefix);
			column = strlen(prefix);
		} else {
			(void)buf_add_char(out, ' ');
			column++;
		}
		(void)buf_add_span(out, word);
		column += word.len;
	}
	(void)buf_add_char(out, '\n');
}

int config_example(const char *example, struct buf *out)
{
	static const char *const known[] = { "native", "docker", "kubernetes" };
	struct span section = { NULL, 0 }, name;
	bool found = false;

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		found |= strcmp(example, known[i]) == 0;
	if (!found)
		return -EINVAL;
	(void)buf_add_str(out, "# Settings of opensandbox-server. What is commented out is the "
			       "default.\n");
	for (const struct config_option *o = config_options; o->key != NULL; o++) {
		bool active = strcmp(o->key, "runtime.type") == 0;

		if (split_key(o->key, &section, &name)) {
			(void)buf_printf(out, "\n[%.*s]\n", SPAN_FMT(section));
			add_wrapped(out, "# ", section_text(section));
		}
		(void)buf_add_char(out, '\n');
		add_wrapped(out, "# ", o->doc);
		(void)buf_printf(out, "%s%.*s = ", active ? "" : "# ", SPAN_FMT(name));
		if (active)
			(void)buf_printf(out, "\"%s\"", example);
		else
			add_value(out, o);
		(void)buf_add_char(out, '\n');
		if (active && strcmp(example, "native") != 0)
			add_wrapped(out, "# ",
				    "This type needs a server that was built with its driver; "
				    "others refuse to start.");
	}
	return buf_failed(out) ? -ENOMEM : 0;
}

void config_docs(struct buf *out)
{
	struct span section = { NULL, 0 }, name;

	(void)buf_add_str(
		out,
		"# Configuration of opensandbox-server\n\n"
		"A TOML file, named by `--config` or by the environment variable\n"
		"`SANDBOX_CONFIG_PATH`; otherwise `/etc/opensandbox/server.toml` or\n"
		"`~/.sandbox.toml`, whichever exists first; otherwise the defaults below hold.\n"
		"`opensandbox-server init-config [FILE]` writes a commented one (the last of\n"
		"these, if none is named), and `--set SECTION.KEY=VALUE` on the command line\n"
		"replaces a single setting. A key that nothing reads is warned about at the\n"
		"start; a value that cannot be used ends it.\n\n"
		"This page is made from the program's own table by `opensandbox-server\n"
		"config-docs`; a test compares the two.\n");
	for (const struct config_option *o = config_options; o->key != NULL; o++) {
		if (split_key(o->key, &section, &name))
			(void)buf_printf(out,
					 "\n## [%.*s]\n\n%s\n\n"
					 "| Key | Type | Default | Meaning |\n|---|---|---|---|\n",
					 SPAN_FMT(section), section_text(section));
		(void)buf_printf(out, "| `%.*s` | %s | `", SPAN_FMT(name), type_name(o->type));
		add_value(out, o);
		(void)buf_printf(out, "` | %s |\n", o->doc);
	}
}
