/* Shared by the attempts. */
#ifndef OSB_ESCAPE_PROBE_H
#define OSB_ESCAPE_PROBE_H

/* Tell about one attempt: r < 0 with errno is a refusal. 0 if refused, 1 if it worked. */
int refused(const char *what, long r);

#endif
