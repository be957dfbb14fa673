/* The shell scripts around each run of a session. */
#ifndef OSB_EXECD_SESSION_DRIVER_H
#define OSB_EXECD_SESSION_DRIVER_H

/* Arguments: the directory to start in. Descriptors: 3 the command, 4 the state to begin with, 5
 * the state at the end (whole only if it ends in SESSION_DRIVER_END), 6 the directory at the
 * end. */
extern const char session_driver_bash[];
extern const char session_driver_sh[];

#define SESSION_DRIVER_END "#end\n"

#endif
