/* Time: monotonic for deadlines, wall clock for what people and protocols read, and the time since
 * boot for promises of hours: it goes on while the machine is suspended, and nobody sets it. */
#ifndef OSB_BASE_CLOCK_H
#define OSB_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);
int64_t clock_boot_us(void); /* the same for all programs until the next boot */
int64_t clock_wall_ms(void);
int64_t clock_wall_us(void);

/* "2026-01-02T03:04:05.678901Z"; the fraction has six digits and is left out when zero. */
#define CLOCK_RFC3339_SIZE 40
size_t clock_rfc3339(int64_t wall_us, char out[CLOCK_RFC3339_SIZE]);

/* Year-first RFC 3339 with any offset; no offset means UTC. False on anything else. */
bool clock_parse_rfc3339(struct span s, int64_t *ret_wall_us);

/* "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110 section 5.6.7), always 29 characters. */
#define CLOCK_HTTP_SIZE 30
size_t clock_http(int64_t wall_s, char out[CLOCK_HTTP_SIZE]);
bool clock_parse_http(struct span s, int64_t *ret_wall_s);

/* "250ms", "90s", "10m", "1h30m", "2d", or a bare number of seconds. */
bool clock_parse_duration(struct span s, uint64_t *ret_ms);

#endif
