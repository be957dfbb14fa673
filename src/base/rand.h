/* Randomness from the kernel, and identifiers made of it. A failure aborts: no id is better than a
 * guessable one. */
#ifndef OSB_BASE_RAND_H
#define OSB_BASE_RAND_H

#include <stddef.h>
#include <stdint.h>

void rand_bytes(void *p, size_t len);
uint64_t rand_u64(void);

/* 2 * n_bytes lowercase hex digits and a NUL */
void rand_hex(char *out, size_t n_bytes);

/* RFC 9562 version 4, with dashes */
#define RAND_UUID_SIZE 37
void rand_uuid(char out[RAND_UUID_SIZE]);

/* URL-safe base64 without padding: 4 characters per 3 bytes, n_bytes divisible by 3, and a NUL */
void rand_token(char *out, size_t n_bytes);

#endif
