/* multipart/form-data (RFC 7578) as a stream: pieces in, events out. No allocation, no I/O, and
 * never more than one part's head in memory; data spans point into the caller's piece.
 *
 *	multipart_init(&m, content_type, &multipart_default_limits, &e);
 *	for each piece of the body:
 *		while ((r = multipart_next(&m, &piece, &data, &e)) > MULTIPART_MORE)
 *			switch (r) ...
 *	at the end of the body: multipart_finish(&m, &e)
 *
 * What may be the beginning of a delimiter at the end of a piece is held back. Those bytes are by
 * definition the first ones of the delimiter, so that nothing has to be stored but their number:
 * if the next piece shows that they were data after all, the span points into the delimiter.
 *
 * Lines end in CRLF; a bare LF or CR within a part's head is refused, as is a head without a
 * name. Text before the first and behind the last delimiter is passed over. */
#ifndef OSB_CODEC_MULTIPART_H
#define OSB_CODEC_MULTIPART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define MULTIPART_BOUNDARY_MAX 70 /* RFC 2046 5.1.1 */
#define MULTIPART_HEAD_MAX     4096

struct multipart_limits {
	size_t max_head; /* bytes of one part's header lines, and of the preamble;
			  * at most MULTIPART_HEAD_MAX */
	unsigned max_parts;
};

extern const struct multipart_limits multipart_default_limits; /* 4 KiB, 1000 parts */

enum multipart_event {
	MULTIPART_MORE,     /* the piece is used up, bring the next one */
	MULTIPART_PART,     /* a part begins, m->part describes it */
	MULTIPART_DATA,     /* some of its contents, never empty */
	MULTIPART_PART_END, /* it is complete */
	MULTIPART_END,      /* no more parts; what follows is passed over */
};

/* Spans live until the next part begins. */
struct multipart_part {
	struct span name;
	bool has_filename;
	struct span filename;     /* that of filename* if there is one; any bytes but NUL */
	struct span content_type; /* as sent, or empty */
};

struct multipart {
	struct multipart_limits limits;
	struct multipart_part part;
	unsigned state;
	unsigned n_parts;
	unsigned match;   /* bytes of the delimiter seen so far */
	unsigned implied; /* of these, how many were never sent: see multipart.c */
	unsigned delim_len;
	size_t head_len;
	size_t skipped;                         /* bytes of preamble */
	char delim[4 + MULTIPART_BOUNDARY_MAX]; /* CR LF - - boundary */
	char head[MULTIPART_HEAD_MAX];          /* header lines; values are decoded in place */
};

/* From the value of Content-Type. -EINVAL: not multipart/form-data, or without a usable boundary.
 */
int multipart_init(struct multipart *m, struct span content_type,
		   const struct multipart_limits *limits, struct err *e);

/* The next event; *in becomes what is left of the piece. MULTIPART_DATA sets *ret_data, valid until
 * the next call. < 0: -EINVAL (malformed), -EMSGSIZE (a limit); the stream is dead then. */
int multipart_next(struct multipart *m, struct span *in, struct span *ret_data, struct err *e);

/* The body ended: 0 if the last delimiter was seen, -EINVAL if something is missing. */
int multipart_finish(const struct multipart *m, struct err *e);

#endif
