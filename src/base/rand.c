#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t len)
{
	unsigned char *at = p;

	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			abort();
		at += n;
		len -= (size_t)n;
	}
}

uint64_t rand_u64(void)
{
	uint64_t v;

	rand_bytes(&v, sizeof(v));
	return v;
}

static const char hex[] = "0123456789abcdef";

void rand_hex(char *out, size_t n_bytes)
{
	unsigned char byte[64];

	while (n_bytes > 0) {
		size_t n = n_bytes < sizeof(byte) ? n_bytes : sizeof(byte);

		rand_bytes(byte, n);
		for (size_t i = 0; i < n; i++) {
			*out++ = hex[byte[i] >> 4];
			*out++ = hex[byte[i] & 15];
		}
		n_bytes -= n;
	}
	*out = '\0';
}

void rand_uuid(char out[RAND_UUID_SIZE])
{
	unsigned char b[16];

	rand_bytes(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(b); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*out++ = '-';
		*out++ = hex[b[i] >> 4];
		*out++ = hex[b[i] & 15];
	}
	*out = '\0';
}

void rand_token(char *out, size_t n_bytes)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

	for (; n_bytes >= 3; n_bytes -= 3) {
		unsigned char b[3];

		rand_bytes(b, sizeof(b));
		*out++ = digits[b[0] >> 2];
		*out++ = digits[(b[0] & 3) << 4 | b[1] >> 4];
		*out++ = digits[(b[1] & 15) << 2 | b[2] >> 6];
		*out++ = digits[b[2] & 63];
	}
	*out = '\0';
}
