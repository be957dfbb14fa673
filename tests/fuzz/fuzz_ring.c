/* The ring of a terminal: each byte of the input adds some output, its low bit is the channel.
 *  - What is kept is the end of all that was added, byte for byte and channel for channel.
 *  - It is never more than the size, and never less unless the channels changed too often. */
#include "check.h"

#include "base/buf.h"
#include "execd/ring.h"

#define SIZE 61

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf all = BUF_INIT(MIB(8)), channels = BUF_INIT(MIB(8));
	struct ring r;

	if (size > KIB(16))
		return 0;
	CHECK(ring_init(&r, SIZE) == 0);
	for (size_t i = 0; i < size; i++) {
		unsigned char channel = (unsigned char)(1 + (data[i] & 1)), got_channel;
		size_t n = data[i] >> 1;
		char piece[128];
		struct span got;

		for (size_t k = 0; k < n; k++)
			piece[k] = (char)(i * 31 + k);
		ring_add(&r, channel, span_of(piece, n));
		(void)buf_add(&all, piece, n);
		for (size_t k = 0; k < n; k++)
			(void)buf_add_char(&channels, (char)channel);
		CHECK(r.end == all.len && r.end - r.start <= SIZE);
		CHECK(r.end - r.start == MIN(all.len, (size_t)SIZE));
		for (uint64_t at = r.start; at < r.end; at += got.len) {
			size_t max = data[i] % 13 + 1u;

			CHECK(ring_get(&r, at, max, &got, &got_channel));
			CHECK(got.len > 0 && got.len <= max);
			CHECK(memcmp(got.p, all.data + at, got.len) == 0);
			for (size_t k = 0; k < got.len; k++)
				CHECK(channels.data[at + k] == (char)got_channel);
		}
		CHECK(!ring_get(&r, r.end, 1, &got, &got_channel));
		CHECK(r.start == 0 || !ring_get(&r, r.start - 1, 1, &got, &got_channel));
	}
	ring_free(&r);
	buf_free(&all);
	buf_free(&channels);
	return 0;
}
