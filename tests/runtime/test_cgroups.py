#!/usr/bin/env python3
"""Hosts differ in their cgroups: v1 alone, v2 alone, both. The runner is shown each kind by taking mounts away
from its own mount namespace.
timeout: 600"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from boxes import *  # noqa: E402,F403

need_root()


def mounts():
    """(mount point, type, options) of every cgroup tree"""
    found = []
    for line in open("/proc/self/mountinfo"):
        words = line.split()
        dash = words.index("-")
        if words[dash + 1] in ("cgroup", "cgroup2"):
            found.append((words[4], words[dash + 1], words[dash + 3]))
    return found


def without(unwanted):
    """A prefix that runs the runner where these mounts do not exist."""
    steps = "".join(f"umount {at}; " for at in unwanted)
    return ["unshare", "-m", "sh", "-c", f"{steps}exec \"$@\"", "sh"]


def put(path, value):
    with open(path, "w", encoding="ascii") as f:
        f.write(str(value))


def pause_works(r):
    r.create("p")
    s, reading = r.start_in("p", "sh", "-c", "while :; do echo x; done")
    os.read(reading, 10)
    for _ in range(3):
        r.pause("p")
        assert r.list()["p"].state == PAUSED
        r.resume("p")
        os.read(reading, 65536)
    r.pause("p")
    r.delete("p")
    os.close(reading)
    s.close()
    assert not any(census(r).values()), census(r)


@case
def v1_alone():
    v2 = [at for at, kind, _ in mounts() if kind == "cgroup2"]
    v1 = [options for _, kind, options in mounts() if kind == "cgroup"]
    if not any("freezer" in o.split(",") for o in v1):
        raise Skip("no v1 controllers on this host")
    with Runner(prefix=without(v2)) as r:
        assert r.features & CAN_PAUSE and r.features & CAN_MEMORY, r.missing
        pause_works(r)
        r.create("m", memory_bytes=64 << 20, cpu_milli=500, pids=50)
        assert r.run("m", "python3", "-c", "bytearray(200 << 20)")[0] == -9
        assert r.event("m", OOM).oom_kills >= 1
        s = r.stat("m")
        assert s.cpu_usec > 0 and s.memory_bytes > 0 and s.pids >= 1
        r.pause("m")
        r.restart()
        assert r.list()["m"].state == PAUSED
        r.resume("m")
        assert r.shell("m", "echo on") == (0, "on\n")


LIMITS = [("memory", CAN_MEMORY, {"memory_bytes": 64 << 20}), ("cpu", CAN_CPU, {"cpu_milli": 500}),
          ("pids", CAN_PIDS, {"pids": 50}), ("io", CAN_IO, {"io_read_bps": 1 << 20})]


def is_refused(r, **limit):
    """What nobody can hold is not taken."""
    try:
        r.create("limited", **limit)
        raise AssertionError(f"{limit} was taken without a controller for it")
    except Refused as e:
        assert e.code == errno.ENOTSUP, e


@case
def v2_alone():
    v1 = [at for at, kind, _ in mounts() if kind == "cgroup"]
    v2 = [at for at, kind, _ in mounts() if kind == "cgroup2"]
    if not v2:
        raise Skip("no v2 tree on this host")
    controllers = open(os.path.join(v2[0], "cgroup.controllers")).read().split()
    with Runner(prefix=without(v1)) as r:
        assert r.features & CAN_PAUSE, r.missing
        pause_works(r)
        item = r.create("m")
        # born in its cgroup, not moved there
        own = [line for line in open(f"/proc/{item.pid}/cgroup") if line.startswith("0::")]
        assert own == [f"0::/opensandbox-{r.tag}/m\n"], own
        assert r.stat("m").cpu_usec > 0
        for controller, feature, limit in LIMITS:
            assert bool(r.features & feature) == (controller in controllers), (controller, r.missing)
            if controller in controllers:
                r.create("limited", **limit)
                r.delete("limited")
                continue
            is_refused(r, **limit)
        # inside: its own cgroup is the root of what it sees
        code, out = r.shell("m", "cat /proc/self/cgroup")
        assert "0::/\n" in out, out


@case
def v2_in_a_container():
    """What looks like the root is a group with processes, which has to be emptied before it gives limits away."""
    v2 = [at for at, kind, _ in mounts() if kind == "cgroup2"]
    if not v2:
        raise Skip("no v2 tree on this host")
    for controller in open(os.path.join(v2[0], "cgroup.controllers")).read().split():
        if controller in ("cpu", "io", "memory", "pids"):
            put(os.path.join(v2[0], "cgroup.subtree_control"), "+" + controller)
    group = os.path.join(v2[0], f"osb-container-{os.getpid()}")
    os.mkdir(group)
    other = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        put(os.path.join(group, "cgroup.procs"), other.pid)
        controllers = open(os.path.join(group, "cgroup.controllers")).read().split()
        everything = " ".join(at for at, _, _ in reversed(mounts()))
        enter = ["sh", "-c", f"echo $$ >{group}/cgroup.procs; exec unshare -C -m sh -c 'umount {everything}; "
                 f"mount -t cgroup2 cgroup2 {v2[0]}; exec \"$@\"' sh \"$@\"", "sh"]
        with Runner(prefix=enter) as r:
            for controller, feature in (("memory", CAN_MEMORY), ("cpu", CAN_CPU), ("pids", CAN_PIDS), ("io", CAN_IO)):
                assert bool(r.features & feature) == (controller in controllers), (controller, r.missing)
            pause_works(r)
            if r.features & CAN_MEMORY:
                assert f"0::/{os.path.basename(group)}/opensandbox-rest\n" in open(f"/proc/{other.pid}/cgroup")
                r.create("m", memory_bytes=64 << 20)
                assert r.run("m", "python3", "-c", "bytearray(200 << 20)")[0] == -9
                assert r.event("m", OOM).oom_kills >= 1
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
        for path, _, _ in os.walk(group, topdown=False):
            os.rmdir(path)


@case
def none_at_all():
    everything = [at for at, _, _ in mounts()]
    with Runner(prefix=without(everything)) as r:
        assert not r.features & (CAN_PAUSE | CAN_MEMORY | CAN_CPU | CAN_PIDS | CAN_IO)
        assert "memory" in r.missing and "freezer" in r.missing
        r.create("x")
        assert r.shell("x", "echo on") == (0, "on\n")
        try:
            r.pause("x")
            raise AssertionError("paused without a freezer")
        except Refused as e:
            assert e.code == errno.ENOTSUP, e
        for _, _, limit in LIMITS:
            is_refused(r, **limit)
        r.delete("x")
        assert not any(census(r).values()), census(r)


main()
