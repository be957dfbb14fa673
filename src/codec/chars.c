#include "codec/chars.h"

/* One row per sixteen bytes; each entry is the sum of its classes. The unit test derives the table
 * again from the grammars. */
/* clang-format off */
const unsigned char chars_table[256] = {
	16, 16, 16, 16, 16, 16, 16, 16, 16,  0, 16, 16, 16, 16, 16, 16, /* NUL to SI */
	16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, /* DLE to US */
	 0, 11,  2,  1, 11,  3, 11, 11, 10, 10, 11, 11, 10, 15, 47, 10, /* blank to / */
	47, 47, 47, 47, 47, 47, 47, 47, 47, 47, 42, 10,  2, 10,  2,  2, /* 0 to ? */
	10, 47, 47, 47, 47, 47, 47, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* @ to O */
	15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  2,  2,  2,  3, 15, /* P to _ */
	 3, 47, 47, 47, 47, 47, 47, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* ` to o */
	15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,  2,  3,  2, 15, 16, /* p to DEL */
	/* 0x80 and above: none */
};
/* clang-format on */
