#include "store/ends.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/span.h"
#include "base/util.h"

#define SLOT_SIZE ((off_t)sizeof(struct ends_note))

_Static_assert(sizeof(struct ends_note) == 64, "the size of a slot on disk");

#define PIECE 64

static const struct ends_note none[PIECE];

/* Written rather than asked for: blocks that were only set aside may still need room when they are
 * written first. What is not there after a full disk is no slot. */
static int allocate(int fd, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(e, "size of the notes of ends");
	for (int slot = (int)MIN(st.st_size / SLOT_SIZE, ENDS_MAX) / PIECE * PIECE; slot < ENDS_MAX;
	     slot += PIECE)
		if (pwrite(fd, none, sizeof(none), slot * SLOT_SIZE) != (ssize_t)sizeof(none))
			return slot;
	return ENDS_MAX;
}

int ends_open(struct ends *ends, const char *path, struct err *e)
{
	autofd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct ends_note note;

	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	*ends = (struct ends){ .fd = -EBADF };
	ends->n_slots = allocate(fd, e);
	if (ends->n_slots < 0)
		return ends->n_slots;
	ends->fd = TAKE_FD(fd);
	for (int slot = 0; slot < ends->n_slots; slot++)
		ends->used[slot] = ends_read(ends, slot, &note);
	return 0;
}

void ends_close(struct ends *ends)
{
	fd_close(&ends->fd);
}

static int write_slot(struct ends *ends, int slot, const struct ends_note *note)
{
	errno = 0;
	if (pwrite(ends->fd, note, sizeof(*note), slot * SLOT_SIZE) != SLOT_SIZE)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

static int free_slot(const struct ends *ends)
{
	for (int slot = 0; slot < ends->n_slots; slot++)
		if (!ends->used[slot])
			return slot;
	return -ENOSPC;
}

int ends_put(struct ends *ends, int slot, const char *id, const char *reason, bool hidden,
	     struct err *e)
{
	struct ends_note note = { .hidden = hidden };
	int r;

	if (!span_copy(span_str(id), note.id, sizeof(note.id)) ||
	    !span_copy(span_str(reason), note.reason, sizeof(note.reason)))
		return err_code(e, ENAMETOOLONG, "note of an end");
	if (slot < 0)
		slot = free_slot(ends);
	r = slot < 0 ? slot : write_slot(ends, slot, &note);
	if (r < 0)
		return err_code(e, r, "note of an end");
	ends->used[slot] = true;
	return slot;
}

/* If it cannot be wiped it stays taken, and is read once more: it says what the store says, too. */
void ends_remove(struct ends *ends, int slot)
{
	if (write_slot(ends, slot, none) == 0)
		ends->used[slot] = false;
}

bool ends_read(const struct ends *ends, int slot, struct ends_note *ret)
{
	struct ends_note note;

	if (pread(ends->fd, &note, sizeof(note), slot * SLOT_SIZE) != SLOT_SIZE ||
	    note.id[0] == '\0' || memchr(note.id, '\0', sizeof(note.id)) == NULL ||
	    memchr(note.reason, '\0', sizeof(note.reason)) == NULL)
		return false;
	*ret = note;
	return true;
}
