#!/usr/bin/env python3
"""Everything an instance of the runtime has on this machine, found from the outside.

    census.py STATE_DIR [TAG]

An instance is known by its state directory and by the tag that its cgroups, links and packet filter carry, so
that instances side by side are told apart. Network links and filters are those of the caller's network
namespace. Nothing here asks the programs under test; it reads /proc, /sys and the state directory.
"""

import fcntl
import os
import re
import select
import socket
import stat
import struct
import subprocess
import sys
import time

CGROUPS = "/sys/fs/cgroup"
CLAIMS = "/run/opensandbox"
ROW_SIZE, ROW_ID_AT, ROW_ID_SIZE = 512, 8, 64
LOOP_GET_STATUS64 = 0x4C05
PROGRAMS = ("opensandbox-server", "opensandbox-runner")
POOL = 8  # namespaces with a link that a runner keeps ready, unless it is told otherwise


def tag_of(state):
    """The tag of an instance that was given none."""
    value = 0xcbf29ce484222325
    for byte in os.fsencode(state):
        value = ((value ^ byte) * 0x100000001b3) & (2 ** 64 - 1)
    return f"{value & 0xffffff:06x}"


def read(path, mode="r"):
    """Its contents; None if it is gone, as things in /proc may be at any time."""
    try:
        with open(path, mode, errors=None if "b" in mode else "replace") as f:
            return f.read()
    except OSError:
        return None


def names(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


class Instance:
    """What is there of one instance. Every method looks anew."""

    def __init__(self, state, tag=None):
        self.state, self.tag = state, tag or tag_of(state)
        self.group = f"opensandbox-{self.tag}"

    def claims(self):
        """Files that claim numbers (user ids, addresses) for it."""
        return [name for name in names(CLAIMS)
                if (read(os.path.join(CLAIMS, name)) or "").split(" ")[-1] == self.state]

    # --- processes ---

    def _is_ours(self, pid):
        groups = read(f"/proc/{pid}/cgroup")
        if groups is None:
            return None
        for line in groups.splitlines():
            path = line.split(":", 2)[-1]
            if f"/{self.group}" in path:
                return path.rsplit("/", 1)[-1]
        words = (read(f"/proc/{pid}/cmdline", "rb") or b"").split(b"\0")
        program = os.path.basename(os.fsdecode(words[0]))
        # a sandbox on its way looks like the runner it comes from
        return program if program in PROGRAMS and os.fsencode(self.state) in words else None

    def processes(self):
        """{pid: sandbox id or name of the program}. Of the dead, those that a process of ours has not waited
        for; what outlived its runner is init's to wait for, which takes its time."""
        found = {pid: self._is_ours(pid) for pid in pids()}
        found = {pid: what for pid, what in found.items() if what}
        return {pid: what for pid, what in found.items() if not is_zombie(pid) or parent(pid) in found}

    def program(self, name):
        """The process of the server or the runner, or None. The youngest, should one be on its way out; not one that
        it has forked, to sweep or to become a sandbox."""
        here = {pid for pid, what in self.processes().items() if what == name and not is_zombie(pid)}
        return max((pid for pid in here if parent(pid) not in here), default=None, key=start_time)

    def inside(self, sandbox):
        """Processes of a sandbox; one that ends meanwhile may be among them."""
        return {int(pid) for place in self.groups()
                for pid in (read(os.path.join(place, sandbox, "cgroup.procs")) or "").split()}

    def first_process(self, sandbox):
        """PID 1 of a sandbox, or None."""
        for pid in self.inside(sandbox):
            number = re.search(r"^NSpid:.*\s(\d+)$", read(f"/proc/{pid}/status") or "", re.MULTILINE)
            if number and number.group(1) == "1":
                return pid
        return None

    # --- cgroups ---

    def groups(self):
        """The instance's directory in each hierarchy."""
        tops = [CGROUPS] + [os.path.join(CGROUPS, name) for name in names(CGROUPS)]
        return [path for path in (os.path.join(top, self.group) for top in tops) if os.path.isdir(path)]

    def leaves(self):
        """{sandbox id: the hierarchies it is in}"""
        found = {}
        for place in self.groups():
            for entry in os.scandir(place):
                if entry.is_dir():
                    found.setdefault(entry.name, []).append(place.split("/")[-2])
        return found

    # --- network ---

    def links(self):
        return sorted(name for _, name in socket.if_nameindex() if name.startswith(f"osb{self.tag}."))

    def filters(self):
        try:
            done = subprocess.run(["nft", "list", "tables"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False, timeout=60)
        except FileNotFoundError:
            return []
        return [line for line in done.stdout.splitlines() if line.endswith(f" opensandbox_{self.tag}")]

    def namespaces(self):
        """Network namespaces that its processes live in or hold by a descriptor, the caller's left out."""
        own, found = os.readlink("/proc/self/ns/net"), set()
        for pid in self.processes():
            for path in [f"/proc/{pid}/ns/net"] + [f"/proc/{pid}/fd/{fd}" for fd in names(f"/proc/{pid}/fd")]:
                try:
                    target = os.readlink(path)
                except OSError:
                    continue
                if target.startswith("net:[") and target != own:
                    found.add(target)
        return sorted(found)

    # --- mounts and disks ---

    def _device(self):
        """The device of the state directory, if it is a file system of its own."""
        try:
            number = os.stat(self.state).st_dev
            return number if os.path.ismount(self.state) else None
        except OSError:
            return None

    def mounts(self):
        """Lines about it in all mount namespaces, but for those of the runner and of sandboxes that live."""
        device, seen, found = self._device(), set(), []
        ours = self.processes()
        for pid in pids():
            try:
                space = os.readlink(f"/proc/{pid}/ns/mnt")
            except OSError:
                continue
            if space in seen or pid in ours:
                continue
            seen.add(space)
            for line in (read(f"/proc/{pid}/mountinfo") or "").splitlines():
                words = line.split(" ")
                if len(words) < 5 or words[4] == self.state:
                    continue  # the place itself
                inside = device is not None and words[2] == f"{os.major(device)}:{os.minor(device)}"
                if inside or f"{self.state}/" in line:
                    found.append(line)
        return found

    def mounts_of(self, pid):
        return (read(f"/proc/{pid}/mountinfo") or "").splitlines()

    def loops(self):
        """Loop devices on files of it."""
        device, found = self._device(), []
        for name in names("/sys/block"):
            if not name.startswith("loop"):
                continue
            backing = read(f"/sys/block/{name}/loop/backing_file")
            if backing is None or "/sandboxes/" not in backing:
                continue  # not a sandbox's disk
            if backing.startswith(self.state + "/") or (device is not None and loop_device(name) == device):
                found.append(f"{name} {backing.strip()}")
        return found

    # --- the state directory ---

    def rows(self):
        """Sandboxes in the runner's table."""
        data = read(os.path.join(self.state, "table"), "rb") or b""
        rows = [data[at:at + ROW_SIZE] for at in range(0, len(data), ROW_SIZE)]
        return sorted(os.fsdecode(row[ROW_ID_AT:ROW_ID_AT + ROW_ID_SIZE].rstrip(b"\0"))
                      for row in rows if any(row[:4]))

    def entries(self, name):
        return names(os.path.join(self.state, name))

    # --- judgement ---

    def sandboxes(self):
        """What each place says is there: they must agree."""
        return {"directories": set(self.entries("sandboxes")), "sockets": set(self.entries("sock")),
                "rows": set(self.rows()), "cgroups": set(self.leaves()),
                "processes": {what for what in self.processes().values() if what not in PROGRAMS}}

    def disagreements(self, expected):
        """Where something is missing or too much, for exactly these sandboxes and a server at work."""
        found = {}
        for place, here in self.sandboxes().items():
            if here != expected:
                found[place] = {"too much": sorted(here - expected), "missing": sorted(expected - here)}
        for what in ("mounts", "trash"):
            here = self.mounts() if what == "mounts" else self.entries("trash")
            if here:
                found[what] = here
        # a link per sandbox, and those of prepared namespaces; which is whose the host cannot tell
        links = self.links()
        if len(links) > len(expected) + POOL:
            found["links"] = links
        disks = {name for name in expected if os.path.exists(os.path.join(self.state, "sandboxes", name, "disk"))}
        loops = [re.search(r"/sandboxes/([^/]+)/", line).group(1) for line in self.loops()]
        if sorted(loops) != sorted(disks):
            found["loops"] = {"of": sorted(loops), "disks": sorted(disks)}
        if len(self.filters()) > 1:
            found["filters"] = self.filters()
        return found

    def leftovers(self):
        """What is there of it after its end; {} is what we want to see."""
        found = {
            "processes": {pid: describe(pid) for pid in self.processes()},
            "mounts": self.mounts(), "loops": self.loops(), "cgroups": self.groups(), "links": self.links(),
            "filters": self.filters(), "claims": self.claims(), "rows": self.rows(),
            **{name: self.entries(name) for name in ("sandboxes", "sock", "trash", "mnt")},
        }
        return {what: here for what, here in found.items() if here}

    def agrees(self, expected, timeout_s=30):
        """Wait until all places show exactly these sandboxes; raises with the differences."""
        settle(lambda: self.disagreements(set(expected)), timeout_s, "places disagree about what is there")

    def gone(self, timeout_s=30):
        """Wait until nothing is left; raises with what is."""
        settle(self.leftovers, timeout_s, "left behind")


# --- processes, whoever's ---

def describe(pid):
    return (read(f"/proc/{pid}/cmdline", "rb") or b"").replace(b"\0", b" ").decode("utf-8", "replace").strip() \
        or (read(f"/proc/{pid}/comm") or "?").strip()


def fields_of(pid):
    """The fields of /proc/PID/stat from the third on, which is the state."""
    return (read(f"/proc/{pid}/stat") or "").rpartition(")")[2].split()


def is_zombie(pid):
    fields = fields_of(pid)
    return not fields or fields[0] == "Z"


def parent(pid):
    fields = fields_of(pid)
    return int(fields[1]) if len(fields) > 1 else 0


def start_time(pid):
    fields = fields_of(pid)
    return int(fields[19]) if len(fields) > 19 else 0


def rss_kib(pid):
    found = re.search(r"VmRSS:\s+(\d+)", read(f"/proc/{pid}/status") or "")
    return int(found.group(1)) if found else 0


def fd_count(pid):
    return len(names(f"/proc/{pid}/fd"))


def loop_device(name):
    """Device number of the file system that the file of a loop device is on."""
    try:
        fd = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if not stat.S_ISBLK(os.fstat(fd).st_mode):
            return None
        info = bytearray(232)
        fcntl.ioctl(fd, LOOP_GET_STATUS64, info)
        return struct.unpack_from("Q", info)[0]
    except OSError:
        return None
    finally:
        os.close(fd)


def settle(what, timeout_s, words):
    """Wait until `what` returns nothing; for things that no descriptor tells of."""
    end = time.monotonic() + timeout_s
    while True:
        found = what()
        if not found:
            return
        if time.monotonic() > end:
            raise AssertionError(f"{words}: {found}")
        select.select([], [], [], 0.02)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.split("\n\n")[1].strip())
    here = Instance(*sys.argv[1:])
    print(f"tag {here.tag}")
    for what, found in {**here.leftovers(), "namespaces": here.namespaces(), "leaves": here.leaves()}.items():
        print(f"{what}: {len(found)}")
        for item in found.items() if isinstance(found, dict) else found:
            print(f"  {item}")


if __name__ == "__main__":
    main()
