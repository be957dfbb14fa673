/* Amounts as clients write them: "500m" of a processor, "1.5Gi" of memory.
 *
 * Whatever is not understood is refused with words: a limit that is dropped in silence is no limit.
 */
#ifndef OSB_POLICY_QUANTITY_H
#define OSB_POLICY_QUANTITY_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* "2", "0.5", "1.5", "500m" -> thousandths of a core. Above zero; what is finer than a thousandth
 * is refused. */
int quantity_cpu(struct span s, uint32_t *ret_milli, struct err *e);

/* "1073741824", "512Mi", "1.5Gi", "2G", "100k", any case, an optional "B" behind the unit. Ki is
 * 1024, k is 1000. Above zero and a whole number of bytes. */
int quantity_bytes(struct span s, uint64_t *ret_bytes, struct err *e);

/* "4096": a plain whole number above zero. */
int quantity_count(struct span s, uint32_t *ret_count, struct err *e);

#endif
