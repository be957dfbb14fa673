#include "server/errors.h"

static const struct {
	int status;
	const char *code, *doc;
} rows[] = {
#define ERROR_ROW(name, status, code, doc) { status, code, doc },
	ERRORS(ERROR_ROW)
#undef ERROR_ROW
};

int error_status(enum error e)
{
	return rows[e].status;
}

const char *error_code(enum error e)
{
	return rows[e].code;
}

const char *error_doc(enum error e)
{
	return rows[e].doc;
}

enum error error_of_status(int status)
{
	/* the rows of the HTTP layer come first */
	for (unsigned i = E_OK + 1; i <= E_OVERLOADED; i++)
		if (rows[i].status == status)
			return (enum error)i;
	return status < 500 ? E_BAD_REQUEST : E_INTERNAL;
}

void error_docs(struct buf *out)
{
	(void)buf_add_str(out, "| Status | Code | Meaning |\n|---|---|---|\n");
	for (unsigned i = E_OK + 1; i < E_COUNT; i++)
		(void)buf_printf(out, "| %d | `%s` | %s |\n", rows[i].status, rows[i].code,
				 rows[i].doc);
}
