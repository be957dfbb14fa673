#include "server/load.h"

#include <fcntl.h>
#include <string.h>

#include "base/log.h"
#include "sys/fsat.h"

/* It has come to be: not one that waits for it, nor one that is being removed because it did
 * not. */
static bool was_made(const struct sandbox *sb)
{
	return sb->state != SANDBOX_PENDING && sb->ending != CAUSE_UNMADE;
}

static int load_one(void *ctx, struct record *rec, struct err *e)
{
	struct manager *m = ctx;
	struct sandbox *sb;
	struct err why = ERR_INIT;
	int r;

	r = sandbox_new(m, rec, &sb, &why);
	if (r == -ENOMEM)
		return err_code(e, r, "load sandboxes");
	if (r < 0) { /* one bad row must not keep the server from starting */
		log_error("a record cannot be used", { "error", why.msg });
		return 0;
	}
	if (manager_add(m, sb) < 0) {
		sandbox_drop(sb);
		return err_code(e, ENOMEM, "load sandboxes");
	}
	if (sb->rec.boot_id == NULL || strcmp(sb->rec.boot_id, m->boot_id) != 0)
		sandbox_date_alone(sb); /* time since another boot says nothing */
	if (!sandbox_ended(sb)) {
		if (sb->state == SANDBOX_STOPPING)
			sb->ending = MAX(sandbox_cause_of(sb->rec.reason), CAUSE_DELETED);
		r = volumes_use_recorded(&m->volumes, sb->rec.volumes, was_made(sb), &why);
		if (r == -ENOMEM)
			return err_code(e, r, "load volumes");
		if (r < 0)
			log_error("volumes of a record cannot be used", { "id", sb->rec.id },
				  { "error", why.msg });
	}
	manager_schedule(sb);
	return 0;
}

/* As the runtime tells it, too; but lives may end before it is there. */
static int read_boot_id(struct manager *m, struct err *e)
{
	ssize_t n = fsat_read(AT_FDCWD, "/proc/sys/kernel/random/boot_id", m->boot_id,
			      sizeof(m->boot_id));

	if (n < 0)
		return err_code(e, (int)n, "read the boot's id");
	m->boot_id[strcspn(m->boot_id, "\n")] = '\0';
	return 0;
}

int load_sandboxes(struct manager *m, struct err *e)
{
	int r = read_boot_id(m, e);

	return r < 0 ? r : records_load(m->store, load_one, m, e);
}
