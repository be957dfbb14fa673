/* Bytes from one file to another, blocking, for jobs. */
#ifndef OSB_EXECD_COPYFD_H
#define OSB_EXECD_COPYFD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

#define COPYFD_ALL UINT64_MAX

/* `len` bytes from in_fd at `offset` to where out_fd stands; the file position of in_fd is not
 * used. COPYFD_ALL: up to the end, holes kept as holes. -EPIPE: in_fd has fewer. */
int copyfd(int in_fd, off_t offset, uint64_t len, int out_fd, struct err *e);

int copyfd_write(int fd, const void *p, size_t len, struct err *e); /* all of it */

/* Extended attributes of users' own, and the access list if `acl`; as far as both sides have
 * them. */
void copyfd_attributes(const char *from, int out_fd, bool acl);

/* A nameless file in TMPDIR (or memory, where there is no room for files) to put things aside. */
int copyfd_spool(struct err *e);

#endif
