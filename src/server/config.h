/* The server's settings: one table of options makes the defaults, reads the file, writes the
 * commented example and the reference page. */
#ifndef OSB_SERVER_CONFIG_H
#define OSB_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct config_list {
	const char *const *items;
	unsigned n;
};

struct config_pairs {
	struct config_pair {
		const char *key, *value;
	} * items;
	unsigned n;
};

struct config {
	struct arena arena; /* all strings */

	const char *host;
	int64_t port;
	const char *api_key; /* "" : none */
	const char *public_address;
	bool allow_insecure;
	struct config_list cors_origins;
	int64_t max_timeout_s; /* 0: no limit */
	int64_t max_connections;
	int64_t keep_alive_s;
	int64_t backlog;
	int64_t max_creates;
	int64_t max_sandboxes;
	bool kill_on_exit;
	const char *user;

	const char *state_dir;
	const char *store_path;
	int64_t retention_s;
	int64_t max_ended;

	const char *log_level;
	const char *log_format;

	const char *runtime;
	const char *runner_path;
	const char *runner_socket;
	const char *execd_path;
	int64_t create_timeout_s;
	int64_t default_pids;
	const char *default_disk;
	const char *volume_default_size;
	const char *unheld_limits;

	const char *network;
	struct config_list dns;
	struct config_list open_networks;
	bool ipv6;

	struct config_list allowed_host_paths;

	const char *image_default;
	struct config_pairs image_aliases;
	struct config_list image_paths;

	bool renew_enabled;
	int64_t renew_interval_s;
};

/* Defaults. */
int config_init(struct config *c, struct err *e);
void config_free(struct config *c);

/* From a TOML file. Keys that nobody reads are warned about in the log. */
int config_load(struct config *c, const char *path, struct err *e);

/* One value as the command line or the environment gives it: "server.port", "8080". Lists are
 * separated by commas. */
int config_set(struct config *c, const char *key, const char *value, struct err *e);

/* Fill in what follows from the rest (paths), and refuse what does not fit together. */
int config_finish(struct config *c, struct err *e);

/* A commented file that config_load() reads; NULL for an example that does not exist. */
int config_example(const char *example, struct buf *out);

/* The reference page docs/configuration.md, whole. */
void config_docs(struct buf *out);

#endif
