#include "execd/linecut.h"

#include <string.h>

#include "base/util.h"

#define MAX_CRS KIB(64) /* a longer run of them is text */

void linecut_init(struct linecut *c, uint64_t first, uint64_t count)
{
	*c = (struct linecut){ .skip = first - 1, .left = count };
}

static void give_crs(struct linecut *c, struct buf *out)
{
	for (; c->crs > 0; c->crs--)
		(void)buf_add_char(out, '\r');
}

/* A part of a wanted line. */
static void give(struct linecut *c, struct span part, struct buf *out)
{
	size_t len = part.len;

	if (!c->begun) {
		c->begun = true;
		if (c->joined)
			(void)buf_add_char(out, '\n');
	}
	while (len > 0 && part.p[len - 1] == '\r')
		len--;
	if (len > 0) {
		give_crs(c, out);
		(void)buf_add(out, part.p, len);
	}
	c->crs += part.len - len;
	if (c->crs > MAX_CRS)
		give_crs(c, out);
}

bool linecut_feed(struct linecut *c, struct span text, struct buf *out)
{
	while (text.len > 0 && c->left > 0) {
		ptrdiff_t at = span_find(text, '\n');
		struct span part = at < 0 ? text : span_first(text, (size_t)at);

		text = span_skip(text, part.len + (at >= 0));
		if (c->skip == 0)
			give(c, part, out);
		if (at < 0)
			break;
		if (c->skip > 0) {
			c->skip--;
			continue;
		}
		c->crs = 0;
		c->begun = false;
		c->joined = true;
		c->left--;
	}
	return c->left == 0;
}
