/* Names and labels, by the rules of Kubernetes, which the public protocol follows. */
#ifndef OSB_POLICY_LABEL_H
#define OSB_POLICY_LABEL_H

#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"

#define LABEL_RESERVED_PREFIX "opensandbox.io/"

/* "[a-z0-9]([-a-z0-9]*[a-z0-9])?", at most max bytes. */
bool label_is_dns(struct span s, size_t max);

/* "name" or "prefix/name": the prefix a DNS subdomain of at most 253 bytes, the name at most 63
 * with letters or digits at its ends and "-_." within. */
bool label_is_key(struct span s);

/* Empty, or at most 63 bytes with letters or digits at its ends and "-_." within. */
bool label_is_value(struct span s);

bool label_is_reserved(struct span key);

/* Key and value of a client's metadata; says what is wrong. */
int label_check(struct span key, struct span value, struct err *e);

#endif
