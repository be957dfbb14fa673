/* UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef OSB_CODEC_UTF8_H
#define OSB_CODEC_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/* The character at the front of a span that is not empty. > 0: its bytes, *ret_cp is set. < 0: not
 * well-formed; that many bytes are what one U+FFFD stands for (the "maximal subpart" of the Unicode
 * standard, section 3.9), so that a cut character costs one mark and no good byte is lost. */
int utf8_decode(struct span s, uint32_t *ret_cp);

/* Bytes written to out (1 to 4); 0 for a surrogate or a number too large. */
size_t utf8_put(uint32_t cp, char out[4]);

bool utf8_valid(struct span s);

/* How many bytes at the end (0 to 3) begin a character that the next piece may complete. */
size_t utf8_tail(struct span s);

#endif
