#include "runner/adopt.h"

#include <stdio.h>

#include "base/log.h"
#include "base/util.h"
#include "runner/box.h"
#include "runner/sweep.h"

int adopt_all(struct runner *r, struct err *e)
{
	uint32_t swept = 0, left = 0;
	char found[16], cleaned[16];

	for (unsigned n = 0; n < TABLE_ROWS; n++) {
		struct table_row row;
		int q;

		if (!table_read(&r->table, n, &row))
			continue;
		if (box_find(r, row.id) != NULL) {
			(void)table_clear(&r->table, n); /* the same id twice cannot be */
			continue;
		}
		q = box_adopt(r, n, &row, e);
		if (q < 0)
			return q;
	}
	sweep_all(r, &swept, &left);
	(void)snprintf(found, sizeof(found), "%zu", r->boxes.count);
	(void)snprintf(cleaned, sizeof(cleaned), "%u", swept);
	log_info("looked around", { "found", found }, { "swept", cleaned });
	return 0;
}
