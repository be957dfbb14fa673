#include "execd/quiet.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "execd/execd.h"

#define REST_MS 2000

static int unmap_segments(struct dl_phdr_info *info, size_t size, void *user)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	(void)size;
	(void)user;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t from = (info->dlpi_addr + p->p_vaddr) & ~(page - 1);

		/* never written, so that the file has the same bytes */
		if (p->p_type == PT_LOAD && (p->p_flags & PF_W) == 0)
			(void)madvise((void *)from, p->p_memsz, MADV_DONTNEED);
	}
	return 1; /* the program comes first, and is all there is when it is static */
}

static void let_go(void)
{
	(void)malloc_trim(0);
	(void)dl_iterate_phdr(unmap_segments, NULL);
}

/* One timer, started at most once per rest however many requests there are. */
static void on_timer(struct io_timer *t)
{
	struct quiet *q = CONTAINER_OF(t, struct quiet, timer);

	q->armed = q->touched;
	if (q->touched)
		io_timer_start(t, REST_MS, 0);
	else
		let_go();
	q->touched = false;
}

void quiet_setup(struct execd *x)
{
	io_timer_init(&x->loop, &x->quiet.timer, on_timer);
	let_go();
}

void quiet_touch(struct execd *x)
{
	x->quiet.touched = x->quiet.armed;
	if (x->quiet.armed)
		return;
	x->quiet.armed = true;
	io_timer_start(&x->quiet.timer, REST_MS, 0);
}
