"""What lives in memory: processes with those below them, what each has for itself, and what the kernel has for all."""

import contextlib
import os
import re

KERNEL = ("Slab", "KernelStack", "PageTables", "Percpu", "Shmem")


def _status(pid, name):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
        return re.search(rf"^{name}:\s+(.*?)(?: kB)?$", status.read(), re.M).group(1)


def children(pid):
    """Of all its threads."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as listed:
            found += [int(child) for child in listed.read().split()]
    return found


def parent(pid):
    return int(_status(pid, "PPid"))


def tree(pid):
    """A process and all below it."""
    return [pid] + [one for child in children(pid) for one in tree(child)]


def program(pid):
    return _status(pid, "Name").removeprefix("memfd:")


def rss_kib(pid):
    return int(_status(pid, "VmRSS"))


def tables_kib(pid):
    return int(_status(pid, "VmPTE"))


SHARED_MEMORY = re.compile(r"^\S+ ...s \S+ \S+ \S+ +(?:/memfd:|/dev/shm/|/dev/zero|/SYSV)")


def private_kib(pid):
    """What is nobody else's, without mappings of shared memory, which the kernel counts as Shmem. Nothing, if it has
    ended meanwhile."""
    total, counts = 0, True
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), \
            open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            if line[0] in "0123456789abcdef":
                counts = not SHARED_MEMORY.match(line)
            elif counts and line.startswith("Private_"):
                total += int(line.split()[1])
    return total


def meminfo(*names):
    """KiB of each."""
    with open("/proc/meminfo", encoding="ascii") as info:
        found = dict(re.findall(r"(\S+):\s+(\d+)", info.read()))
    return [int(found[name]) for name in names]


def give_back():
    """The kernel lets go of names and inodes that nobody uses. It keeps them until it needs the memory, and so they
    are no part of what anything needs; like the contents of files, which are not counted either."""
    with contextlib.suppress(PermissionError), open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as control:
        control.write("2")


class Growth:
    """Of daemons (name -> pid) and of the kernel, since a moment."""

    def __init__(self, daemons):
        self.daemons = daemons
        self.rss = {name: rss_kib(pid) for name, pid in daemons.items()}
        self.kernel = meminfo(*KERNEL)

    def of_daemons(self, n):
        """Name -> KiB for each of n."""
        return {name: (rss_kib(pid) - self.rss[name]) / n for name, pid in self.daemons.items()}

    def of_kernel(self, n):
        return {name: (now - then) / n for name, then, now in zip(KERNEL, self.kernel, meminfo(*KERNEL))}
