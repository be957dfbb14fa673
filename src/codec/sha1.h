/* SHA-1 (RFC 3174), for the WebSocket handshake only: it proves that a server understood the
 * question and protects nothing. */
#ifndef OSB_CODEC_SHA1_H
#define OSB_CODEC_SHA1_H

#include "base/span.h"

#define SHA1_SIZE 20

void sha1(struct span data, unsigned char out[SHA1_SIZE]);

#endif
