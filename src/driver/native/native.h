/* The native runtime: opensandbox-runner, started here or found on a socket, and what is said to
 * it (sandbox/msg.h). */
#ifndef OSB_DRIVER_NATIVE_NATIVE_H
#define OSB_DRIVER_NATIVE_NATIVE_H

#include "driver/driver.h"
#include "driver/native/keeper.h"

struct native_options {
	const char *state_dir;
	const char *runner_path;   /* the program to start ... */
	const char *runner_socket; /* ... or where it listens already */
	const char *log_level;     /* of the runner */
	/* the program, read once and given to every sandbox; the caller's */
	int execd_fd;
	const char *const *allowed_paths;
	unsigned n_allowed_paths;
	const char *const *dns; /* nameservers of sandboxes; none: the host's */
	unsigned n_dns;
	const char *const *open_networks; /* private ones that sandboxes may reach */
	unsigned n_open_networks;
	bool ipv6;
	unsigned max_queue; /* operations waiting or under way; more fail with -EAGAIN */
};

/* Forks what starts the runner, unless one listens already (keeper.fd is negative then). To be
 * called with one thread and with the rights that the runner needs. */
int native_keeper(const struct native_options *opt, struct keeper *ret, struct err *e);

/* Strings are copied. Starts at once; `up` of the events tells when it is ready. */
int native_new(struct io_loop *loop, const struct native_options *opt, const struct keeper *keeper,
	       const struct driver_events *events, void *ctx, struct driver **ret, struct err *e);

#endif
