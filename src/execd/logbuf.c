#include "execd/logbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execd/api.h"

/* Blocks grow, so that three lines of output do not cost as much as three megabytes. */
#define BLOCK_MIN KIB(1)
#define BLOCK_MAX KIB(64)

struct block {
	struct list link;
	uint64_t at; /* position of the first byte */
	size_t len, cap;
	char data[];
};

struct reader {
	struct list link;
	struct logbuf *log; /* NULL: it is gone */
	struct http_req *req;
	uint64_t at;
	uint64_t until; /* what was promised, unless it follows */
	bool follow;
	bool full;
};

static struct block *newest(const struct logbuf *l)
{
	return list_empty(&l->blocks) ? NULL : LIST_ENTRY(l->blocks.prev, struct block, link);
}

void logbuf_init(struct logbuf *l, size_t max)
{
	*l = (struct logbuf){ .max = max };
	list_init(&l->blocks);
	list_init(&l->readers);
}

static void drop_oldest(struct logbuf *l)
{
	struct block *b = LIST_ENTRY(l->blocks.next, struct block, link);

	list_remove(&b->link);
	free(b);
	b = LIST_FIRST(&l->blocks, struct block, link);
	l->start = b != NULL ? b->at : l->end;
}

static struct block *block_new(struct logbuf *l)
{
	const struct block *last = newest(l);
	size_t cap = last != NULL ? MIN(last->cap * 4, BLOCK_MAX) : BLOCK_MIN;
	struct block *b;

	while (!list_empty(&l->blocks) && l->end - l->start + cap > l->max)
		drop_oldest(l);
	b = malloc(sizeof(*b) + cap);
	if (b == NULL)
		return NULL;
	*b = (struct block){ .at = l->end, .cap = cap };
	list_push_back(&l->blocks, &b->link);
	return b;
}

struct span logbuf_at(const struct logbuf *l, uint64_t *position)
{
	const struct block *b, *after = NULL;

	*position = MAX(*position, l->start);
	/* from the newest: readers are mostly there */
	for (struct list *it = l->blocks.prev; it != &l->blocks; it = it->prev) {
		b = LIST_ENTRY(it, const struct block, link);
		if (*position >= b->at && *position < b->at + b->len)
			return span_of(b->data + (*position - b->at),
				       (size_t)(b->at + b->len - *position));
		if (*position >= b->at)
			break;
		after = b;
	}
	if (after == NULL)
		return span_of("", 0);
	*position = after->at; /* over a gap */
	return span_of(after->data, after->len);
}

/* --- answers --- */

static void reader_end(struct reader *rd)
{
	struct http_req *r = rd->req;

	list_remove(&rd->link);
	rd->log = NULL;
	http_end(r);
}

static void reader_go_on(struct reader *rd)
{
	while (!rd->full && (rd->follow || rd->at < rd->until)) {
		uint64_t at = rd->at;
		struct span data = logbuf_at(rd->log, &at);
		int w;

		if (at != rd->at && !rd->follow) {
			http_abort(rd->req); /* dropped meanwhile: the promise cannot be kept */
			return;
		}
		if (data.len == 0)
			return;
		if (!rd->follow)
			data.len = (size_t)MIN((uint64_t)data.len, rd->until - at);
		rd->at = at + data.len;
		w = http_write(rd->req, data.p, data.len);
		if (w < 0)
			return;
		rd->full = w == WIRE_FULL;
	}
	if (!rd->follow && rd->at >= rd->until)
		reader_end(rd);
}

static void reader_drained(struct http_req *r)
{
	struct reader *rd = r->user;

	rd->full = false;
	if (rd->log != NULL)
		reader_go_on(rd);
}

static void reader_done(struct http_req *r)
{
	list_remove(&((struct reader *)r->user)->link);
}

void logbuf_reply(struct logbuf *l, struct http_req *r, uint64_t cursor, bool follow)
{
	struct reader *rd = arena_zalloc(&r->arena, sizeof(*rd));
	uint64_t at = MIN(MAX(cursor, l->start), MAX(cursor, l->end));
	char text[24];

	if (rd == NULL) {
		api_error(r, 500, API_RUNTIME_ERROR, "out of memory");
		return;
	}
	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)MAX(l->end, cursor));
	http_header(r, LOGBUF_CURSOR_FIELD, text);
	http_header(r, "Content-Type", API_TEXT_TYPE);
	*rd = (struct reader){
		.log = l,
		.req = r,
		.at = at,
		.until = MAX(l->end, at),
		.follow = follow,
	};
	list_push_back(&l->readers, &rd->link);
	r->user = rd;
	r->on_drain = reader_drained;
	r->done = reader_done;
	http_start(r, 200, follow ? HTTP_LENGTH_UNKNOWN : (int64_t)(rd->until - rd->at));
	reader_go_on(rd);
}

void logbuf_add(struct logbuf *l, struct span data)
{
	while (data.len > 0) {
		struct block *b = newest(l);
		size_t n;

		if (b == NULL || b->len == b->cap || b->at + b->len != l->end)
			b = block_new(l);
		if (b == NULL) {
			l->end += data.len;
			l->start = list_empty(&l->blocks) ? l->end : l->start;
			break;
		}
		n = MIN(data.len, b->cap - b->len);
		memcpy(b->data + b->len, data.p, n);
		b->len += n;
		l->end += n;
		data = span_skip(data, n);
	}
	list_for_each_safe (it, &l->readers) {
		struct reader *rd = LIST_ENTRY(it, struct reader, link);

		if (rd->follow && !rd->full)
			reader_go_on(rd);
	}
}

void logbuf_finish(struct logbuf *l)
{
	list_for_each_safe (it, &l->readers) {
		struct reader *rd = LIST_ENTRY(it, struct reader, link);

		if (!rd->follow)
			continue;
		rd->follow = false; /* it still gets what there is */
		rd->until = l->end;
		if (!rd->full)
			reader_go_on(rd);
	}
}

void logbuf_free(struct logbuf *l)
{
	list_for_each_safe (it, &l->readers) {
		struct reader *rd = LIST_ENTRY(it, struct reader, link);

		list_remove(it);
		rd->log = NULL;
		if (rd->follow)
			http_end(rd->req);
		else
			http_abort(rd->req);
	}
	while (!list_empty(&l->blocks))
		drop_oldest(l);
}
