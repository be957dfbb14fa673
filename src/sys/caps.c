#include "sys/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util.h"

int caps_limit(uint64_t keep, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	for (unsigned cap = 0; cap < 64; cap++) {
		if ((keep & CAPS_BIT(cap)) != 0)
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* past the last one this kernel knows */
			return err_sys(e, "drop capability %u", cap);
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return err_sys(e, "clear ambient capabilities");
	if (syscall(SYS_capget, &head, data) < 0)
		return err_sys(e, "read capabilities");
	for (unsigned i = 0; i < 2; i++) {
		uint32_t half = (uint32_t)(keep >> (32 * i));

		data[i].permitted &= half;
		data[i].effective = data[i].permitted;
		data[i].inheritable = 0;
	}
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(e, "set capabilities");
	return 0;
}

int caps_lower(uint64_t caps, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return err_sys(e, "read capabilities");
	for (unsigned i = 0; i < 2; i++)
		data[i].effective &= ~(uint32_t)(caps >> (32 * i));
	if (syscall(SYS_capset, &head, data) < 0)
		return err_sys(e, "set capabilities");
	return 0;
}

int caps_effective(uint64_t *ret)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return -errno;
	*ret = data[0].effective | (uint64_t)data[1].effective << 32;
	return 0;
}
