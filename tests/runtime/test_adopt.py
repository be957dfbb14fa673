#!/usr/bin/env python3
"""A runner may be killed at any instant: its sandboxes go on, the next one finds them, and what was
half made is gone.
timeout: 900"""

import os
import random
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from boxes import *  # noqa: E402,F403

need_root()


def settled(r):
    """The census, once the broom is through."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        left = census(r)
        if not left["trash"] or time.monotonic() > deadline:
            return left
        r.list()


@case
def sandboxes_outlive_the_runner():
    with Runner() as r:
        before = r.create("a", spec=b"s")
        r.create("b")
        s, reading = r.start_in("a", "sh", "-c", "echo up; read x < /dev/zero; echo never")
        r.pause("b")
        r.kill()
        # reachable while nobody keeps it
        assert r.shell("a", "echo still here") == (0, "still here\n")
        r.start()
        found = r.list()
        assert set(found) == {"a", "b"}
        assert found["a"].pid == before.pid and found["a"].uid_base == before.uid_base
        assert found["a"].state == RUNNING and found["b"].state == PAUSED
        r.resume("b")
        assert r.shell("b", "echo on") == (0, "on\n")
        os.kill(before.pid, signal.SIGTERM)  # PID 1 has no handler: ignored
        r.create("c")
        assert r.list()["c"].uid_base not in (found["a"].uid_base, found["b"].uid_base)
        with r.dial("a", 9) as c:
            select.select([], [c], [], DEADLINE_S)
            assert c.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED
        os.kill(before.pid, signal.SIGKILL)
        r.event("a", EXITED)
        os.close(reading)
        s.close()


@case
def one_that_died_meanwhile_is_listed_dead():
    with Runner() as r:
        item = r.create("a")
        fd = os.pidfd_open(item.pid)
        r.kill()
        signal.pidfd_send_signal(fd, signal.SIGKILL)
        select.select([fd], [], [], DEADLINE_S)
        os.close(fd)
        r.start()
        assert r.list()["a"].state == DEAD
        r.delete("a")
        left = settled(r)
        assert not any(left.values()), left


@case
def limits_and_oom_survive():
    with Runner() as r:
        if not r.features & CAN_MEMORY:
            raise Skip("no memory controller")
        r.create("m", memory_bytes=64 << 20)
        r.restart()
        assert r.run("m", "python3", "-c", "bytearray(200 << 20)")[0] == -9
        assert r.event("m", OOM).oom_kills >= 1
        assert r.stat("m").memory_limit_bytes == 64 << 20


@case
def another_boot_means_dead():
    with Runner() as r:
        item = r.create("a")
        r.kill()
        path = os.path.join(r.state, "table")
        with open(path, "r+b") as f:
            data = bytearray(f.read())
        # a row of another boot: the checksum (FNV-1a over all before it) must fit
        at = next(i for i in range(0, len(data), 512) if any(data[i:i + 512]))
        size = struct.unpack_from("I", data, at + 4)[0]
        data[at + 8 + 64] ^= 1
        h = 0xcbf29ce484222325
        for b in data[at:at + size - 8]:
            h = ((h ^ b) * 0x100000001b3) & (2 ** 64 - 1)
        struct.pack_into("Q", data, at + size - 8, h)
        with open(path, "wb") as f:
            f.write(data)
        r.start()
        assert r.list()["a"].state == DEAD
        os.kill(item.pid, 0)  # nobody touched a process that may be somebody else's
        fd = os.pidfd_open(item.pid)
        r.delete("a")
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the broom was faster: by now its cgroup is nobody's
        assert select.select([fd], [], [], DEADLINE_S)[0]  # else the sweep finds its cgroup in use
        os.close(fd)
        r.sweep()
        left = settled(r)
        assert not any(left.values()), left


@case
def a_torn_row_is_no_sandbox():
    with Runner() as r:
        item = r.create("a")
        r.kill()
        with open(os.path.join(r.state, "table"), "r+b") as f:
            f.seek(20)
            f.write(b"\xff" * 8)
        fd = os.pidfd_open(item.pid)
        r.start()
        assert r.list() == {}
        # found by its cgroup and ended
        assert select.select([fd], [], [], DEADLINE_S)[0]
        os.close(fd)
        deadline = time.monotonic() + DEADLINE_S
        while any(settled(r).values()):
            if time.monotonic() > deadline:
                raise AssertionError(census(r))
            r.sweep()


@case
def killed_at_random_instants():
    rng = random.Random(4)
    with Runner("--pool", "4") as r:
        serial = 0
        alive = set()
        for round_ in range(50):
            begun, ended = {}, {}
            for _ in range(rng.randrange(1, 6)):
                serial += 1
                begun[f"k{serial}"] = r.begin(f"k{serial}", memory_bytes=(64 << 20) if serial % 2 else 0)
            for name in rng.sample(sorted(alive), min(len(alive), rng.randrange(3))):
                ended[name] = r.send(Named(id=name.encode()), DELETE)
            # from the very start to well past the end of the work
            select.select([], [], [], rng.random() * 0.02)
            r.kill()
            r.start()
            found = r.list()
            for name in alive - set(ended):
                assert name in found and found[name].state == RUNNING, name
            assert set(found) <= alive | set(begun), found
            alive = set()
            for name, item in found.items():
                if item.state == DEAD:
                    r.delete(name)
                else:
                    assert r.shell(name, "echo yes") == (0, "yes\n"), name
                    alive.add(name)
            left = settled(r)
            assert set(left["boxes"]) == alive and set(left["sockets"]) == alive, (left, alive)
            assert left["rows"] == len(alive) and not left["mounts"]
            deadline = time.monotonic() + DEADLINE_S
            while {os.path.basename(d) for d in cgroup_dirs(r.tag)} != alive:
                assert time.monotonic() < deadline, (cgroup_dirs(r.tag), alive)
                r.sweep()
        assert serial > 50
        for name in alive:
            r.delete(name)
        left = settled(r)
        assert not any(left.values()), left


main()
