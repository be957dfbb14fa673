#include "execd/kernel_process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/fsat.h"

int kernel_process_driver(const struct code_language *lang, struct err *e)
{
	const struct kernel_program *driver = code_language_driver(lang);
	autofd int fd = memfd_create("kernel", MFD_CLOEXEC);

	if (fd < 0 || fsat_write_all(fd, driver->text, driver->len) < 0 ||
	    lseek(fd, 0, SEEK_SET) != 0)
		return err_sys(e, "driver of the kernel");
	return TAKE_FD(fd);
}

int kernel_process_start(struct execd *x, struct proc *p, const struct code_language *lang,
			 struct env *env, const char *path, const char *cwd, const int fds[3],
			 struct kernel_scratch **ret_scratch, struct err *e)
{
	autofd int text = kernel_process_driver(lang, e);
	struct proc_spec spec = {
		.path = path,
		.cwd = cwd,
		.fds = { -EBADF, fds[1], fds[2], fds[0], text },
		.n_fds = 5,
	};
	const char *argv[ARRAY_LEN(lang->argv) + 2], *slash = strrchr(path, '/');
	size_t n = 0;
	int r;

	if (text < 0)
		return text;
	r = lang->needs_dir ? kernel_scratch_make(x, lang->name, env, ret_scratch, e) : 0;
	if (r < 0)
		return r;
	if (env_set(env, SPAN_LIT("OSB_KERNEL"), span_str(lang->name)) < 0)
		return err_code(e, ENOMEM, "environment");
	argv[n++] = slash != NULL ? slash + 1 : path;
	for (size_t i = 0; i < ARRAY_LEN(lang->argv) && lang->argv[i] != NULL; i++)
		argv[n++] = strcmp(lang->argv[i], "%s") == 0 ? code_language_driver(lang)->text
							     : lang->argv[i];
	argv[n] = NULL;
	spec.argv = (char *const *)(uintptr_t)argv;
	spec.envp = env->vars;
	return proc_start(x, p, &spec, e);
}
