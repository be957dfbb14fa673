#include "execd/code_port.h"

#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "execd/env.h"
#include "io/listener.h"

#define USUAL_PORT 44772 /* of execd itself */

static void accepted(struct listener *l, int fd, bool overloaded)
{
	(void)l;
	(void)overloaded;
	(void)close(fd); /* that it could connect is the answer */
}

void code_port_open(struct execd *x)
{
	static struct listener listener; /* lives as long as the process */
	AUTO(env_free) struct env *env = &(struct env){ 0 };
	struct err e = ERR_INIT;
	const char *port;
	char address[32];
	uint64_t number;
	int fd;

	env_init(env);
	if ((x->opt.listen_fd < 0 && x->port != USUAL_PORT) || x->opt.jupyter_host != NULL ||
	    env_for_process(x, env, &e) < 0 || env_get(env, SPAN_LIT("JUPYTER_HOST")) != NULL)
		return;
	port = env_get(env, SPAN_LIT("JUPYTER_PORT"));
	if (!span_u64(span_str(port != NULL ? port : CODE_PORT_DEFAULT), &number) ||
	    number > UINT16_MAX)
		return;
	(void)snprintf(address, sizeof(address), "127.0.0.1:%u", (unsigned)number);
	if (listener_bind(address, 16, &fd, &e) < 0 ||
	    listener_start(&x->loop, &listener, fd, accepted, &e) < 0)
		log_debug("no port of the code interpreter", { "error", e.msg });
}
