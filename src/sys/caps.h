/* Capabilities as bit masks: bit N is capability N. */
#ifndef OSB_SYS_CAPS_H
#define OSB_SYS_CAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define CAPS_BIT(cap) (1ULL << (cap))

/* Keep these and no others, in every set, bounding set included; inheritable and ambient become
 * empty. What is not in the permitted set now is not gained. */
int caps_limit(uint64_t keep, struct err *e);

/* Out of the effective set; still permitted. */
int caps_lower(uint64_t caps, struct err *e);

/* The effective set, for telling what this process can do. */
int caps_effective(uint64_t *ret);

#endif
