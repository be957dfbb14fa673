/* Frames of a kernel's control socket: however the bytes are cut, the same frames come out, each
 * within bounds; and what was put in as frames comes out as it was. */
#include <errno.h>

#include "execd/kernel_frames.h"
#include "check.h"

#define MAX_FRAMES 256

struct found {
	size_t lens[MAX_FRAMES];
	uint64_t sums[MAX_FRAMES];
	unsigned n;
	bool broken;
};

/* Take all frames that are there. False: what follows is no frame. */
static bool take(struct kernel_frames *f, struct found *out)
{
	struct span body;
	int r;

	while ((r = kernel_frames_first(f, &body)) > 0) {
		CHECK(body.len > 0 && body.len <= KERNEL_FRAME_MAX && body.p[0] == '{');
		CHECK(check_within(body, f->in.data, f->in.len));
		if (out->n < MAX_FRAMES) {
			out->lens[out->n] = body.len;
			out->sums[out->n] = check_seed(body.p, body.len);
		}
		out->n++;
		kernel_frames_drop(f);
	}
	CHECK(r == 0 || r == -EPROTO);
	return r == 0;
}

static void feed(const uint8_t *data, size_t size, bool in_pieces, struct found *out)
{
	uint64_t seed = check_seed(data, size);
	struct kernel_frames f;

	*out = (struct found){ 0 };
	kernel_frames_init(&f);
	while (size > 0 && !out->broken) {
		size_t n = in_pieces ? check_piece(&seed, size) : size;
		char *copy = check_copy(data, n);

		CHECK(kernel_frames_add(&f, span_of(copy, n)) == 0);
		free(copy);
		out->broken = !take(&f, out);
		data += n;
		size -= n;
	}
	kernel_frames_free(&f);
}

/* The input as the body of a frame, twice. */
static void there_and_back(const uint8_t *data, size_t size)
{
	struct buf wire = BUF_INIT(MIB(1)), body = BUF_INIT(MIB(1));
	struct found out;

	(void)buf_add_char(&body, '{');
	(void)buf_add(&body, data, size);
	CHECK(kernel_frames_put(&wire, buf_span(&body)) == 0);
	CHECK(kernel_frames_put(&wire, buf_span(&body)) == 0);
	feed((const uint8_t *)wire.data, wire.len, true, &out);
	CHECK(out.n == 2 && !out.broken && out.lens[0] == body.len);
	CHECK(out.sums[0] == check_seed(body.data, body.len) && out.sums[1] == out.sums[0]);
	buf_free(&wire);
	buf_free(&body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct found whole, pieces;

	if (size > KIB(64))
		return 0;
	feed(data, size, false, &whole);
	feed(data, size, true, &pieces);
	CHECK(whole.n == pieces.n && whole.broken == pieces.broken);
	for (unsigned i = 0; i < MIN(whole.n, (unsigned)MAX_FRAMES); i++)
		CHECK(whole.lens[i] == pieces.lens[i] && whole.sums[i] == pieces.sums[i]);
	there_and_back(data, size);
	return 0;
}
