/* Base64 (RFC 4648 section 4), padded, strict. */
#ifndef OSB_CODEC_BASE64_H
#define OSB_CODEC_BASE64_H

#include <stddef.h>

#include "base/span.h"

/* Characters for n bytes, without a NUL. */
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)

/* Writes BASE64_LEN(in.len) characters and no NUL; returns their number. */
size_t base64_encode(struct span in, char *out);

/* The bytes decoded, at most in.len / 4 * 3; or -EINVAL for anything an encoder would not have
 * written (blanks, missing padding, stray bits at the end), or -ENOBUFS. `out` may be the input's
 * own memory. */
ptrdiff_t base64_decode(struct span in, void *out, size_t size);

#endif
