/* Range requests for bytes (RFC 9110 14). One range is served, never several parts. */
#ifndef OSB_CODEC_RANGE_H
#define OSB_CODEC_RANGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

enum range_result {
	RANGE_WHOLE,         /* not bytes, or nothing to cut: answer 200 with everything */
	RANGE_PART,          /* 206 */
	RANGE_UNSATISFIABLE, /* well-formed, but all beyond the end: 416 with its Content-Range */
	RANGE_MALFORMED,     /* 416, or as the route sees fit */
};

struct range {
	uint64_t first;
	uint64_t last; /* inclusive, below the size */
};

static inline uint64_t range_len(struct range r)
{
	return r.last - r.first + 1;
}

/* The value of a Range field for something of `size` bytes. Of several ranges the first that can be
 * satisfied is taken; one malformed spoils all. *ret is written for RANGE_PART only. */
enum range_result range_parse(struct span value, uint64_t size, struct range *ret);

/* The value of Content-Range: "bytes 0-4/10". With part == NULL, as an answer 416 has it, an
 * asterisk stands for the range. Returns the length; a NUL follows. */
#define RANGE_TEXT_SIZE 72
size_t range_content_range(char out[RANGE_TEXT_SIZE], const struct range *part, uint64_t size);

#endif
