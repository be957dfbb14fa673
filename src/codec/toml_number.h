/* Numbers of TOML: 1_000, 0xff, 0o17, 0b101, -2.5e-3, inf, nan. */
#ifndef OSB_CODEC_TOML_NUMBER_H
#define OSB_CODEC_TOML_NUMBER_H

#include <stdbool.h>

#include "base/span.h"
#include "codec/toml.h"

/* Sets type and value of *ret. False: not a number, or beyond what 64 bits hold; *ret is then
 * undefined. */
bool toml_number(struct span s, struct toml_node *ret);

#endif
