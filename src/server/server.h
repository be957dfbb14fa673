/* The server's parts in one place; http_server.user points here. */
#ifndef OSB_SERVER_SERVER_H
#define OSB_SERVER_SERVER_H

#include "http/server.h"
#include "server/config.h"
#include "server/manager.h"

struct server {
	struct io_loop loop;
	struct config config;
	struct store *store;
	struct driver *driver;
	struct manager manager;
	struct http_server http;
	char address[160]; /* where it listens */
	bool loopback;     /* ... and nobody else gets there */
	bool stopping;
	int exit_code;
	uint64_t started_us;
};

#endif
