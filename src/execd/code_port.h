/* The port by which some clients ask whether code can be run: images with a Jupyter server have it
 * at 127.0.0.1:44771, and the clients try to connect there from a command. Here execd itself runs
 * code, so it takes such connections, and closes them. Not where the image brings its own
 * server. */
#ifndef OSB_EXECD_CODE_PORT_H
#define OSB_EXECD_CODE_PORT_H

#include "execd/execd.h"

#define CODE_PORT_DEFAULT "44771"

/* Inside a sandbox, or on the port that is usual there. Not being able to is no failure. */
void code_port_open(struct execd *x);

#endif
