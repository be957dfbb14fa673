#!/usr/bin/env python3
"""Exhaustion: a sandbox takes all it can get of something and keeps it. It must be stopped by a limit of its own, and
its neighbours and the host must still get theirs.
timeout: 600"""

import re
import subprocess

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from boxes import CAN_DISK, CAN_MEMORY, CAN_PIDS, Runner, census
from census import rss_kib

setup()
MIB = 1 << 20


class Hoard:
    """Someone in a sandbox who has taken all there was, and holds it."""

    def __init__(self, runner, box, kind, uid=0):
        self.s, self.reading = runner.start_in(box, "probe", "hoard", kind, uid=uid, program=PROBE)
        text = b""
        while b"\n" not in text:
            more = os.read(self.reading, 1000)
            if not more:
                break  # killed for it
            text += more
        self.text = text.decode()
        found = re.match(r"got (\d+) ", self.text)
        self.n = int(found.group(1)) if found else None
        self.enough = "enough" in self.text

    def let_go(self):
        os.close(self.reading)
        self.s.close()


def gets(runner, box, kind, n):
    """Does another sandbox get that many?"""
    code, out = probe_in(runner, box, "hoard", kind, str(n))
    assert code == 0, (kind, out)


def host_gets(kind, n):
    done = subprocess.run([PROBE, "hoard", kind, str(n)], stdout=subprocess.PIPE, text=True, check=False, timeout=60)
    assert done.returncode == 0, (kind, done.stdout)


@case
def E57_fork_and_thread_bombs():
    with Runner() as r:
        assert r.features & CAN_PIDS, r.missing
        r.create("other", pids=64)
        for kind in ("processes", "threads"):
            for uid in users():
                r.create("bomb", pids=64)
                hoard = Hoard(r, "bomb", kind, uid)
                assert hoard.n is not None and 10 < hoard.n < 64, hoard.text
                assert r.stat("bomb").pids <= 64
                gets(r, "other", kind, 20)
                r.delete("bomb")
                hoard.let_go()
    p = product()
    for uid in users():
        box = p.box(resourceLimits={"memory": "128Mi", "pids": "64"})
        p.server.execd(box, "POST", "/command", {"command": ":(){ :|:& };:", "background": True, "uid": uid})
        # PID 1 has no room for another process now; it must say so, and the sandbox must go when it is told to
        for _ in range(5):
            assert p.server.execd(box, "GET", "/ping").status == 200
        assert p.server.delete(box).status == 204


NUMBERS = 400  # the kernel takes no less than 301

SPIN = """
import os, sys
taken, last, rounds = set(map(int, sys.argv[2:])), 0, 0
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    assert os.waitpid(pid, 0) == (pid, 0) and pid not in taken, pid
    rounds += pid < last
    last = pid
print('rounds', rounds)
"""


# somebody else with the number that was written there
HOLD = """
import os, signal, sys
wanted = int(open(sys.argv[1]).read())
for _ in range(2000):
    pid = os.fork()
    if pid == 0:
        signal.pause() if os.getpid() == wanted else os._exit(0)
    if pid == wanted:
        sys.exit(0)
    os.waitpid(pid, 0)
sys.exit('it was not given again')
"""


def give_few_numbers(pid):
    """To a sandbox's PID namespace, from outside, so that numbers are used again soon."""
    if tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups())) < (6, 14):
        raise Lacks("a pid_max for each PID namespace (Linux 6.14)")  # there it would be the machine's
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as f:
        before = f.read()
        subprocess.run(["nsenter", "-t", str(pid), "-p", "sh", "-c", f"echo {NUMBERS} > /proc/sys/kernel/pid_max"],
                       check=True)
        f.seek(0)
        assert f.read() == before


@case
def E57_numbers_of_processes_go_round():
    """A number that is used again is not that of one who lives, and who was known by it before is not taken for it."""
    with Runner() as r:
        give_few_numbers(r.create("box").pid)
        for uid in users():
            s, reading = r.start_in("box", "sh", "-c", "echo $$; exec tail -f /dev/null", uid=uid)
            living = os.read(reading, 10).decode().strip()
            code, out = r.run("box", "python3", "-c", SPIN, "2000", "1", living, uid=uid)
            assert code == 0 and int(out.split()[1]) >= 4, out
            assert r.shell("box", f"cat /proc/{living}/comm") == (0, "tail\n")
            os.close(reading)
            s.close()
    p = product()
    for uid in users():
        box = p.box()
        give_few_numbers(p.first_process(box))
        p.upload(box, "/tmp/spin.py", SPIN.encode())
        code, out = p.run(box, "python3 /tmp/spin.py 2000 1", uid)  # from now on there are but those from 300 on
        assert code == 0 and int(out.split()[1]) >= 4, out
        asked = {"command": "echo $$ > /tmp/number", "background": True, "uid": uid}
        answer = p.server.execd(box, "POST", "/command", asked)
        command = re.search(rb'"text":"([0-9a-f-]+)"', answer.body).group(1).decode()
        until(lambda: not p.server.execd(box, "GET", f"/command/status/{command}").json["running"], "it to end")
        p.upload(box, "/tmp/hold.py", HOLD.encode())
        assert p.run(box, "python3 /tmp/hold.py /tmp/number", uid) == (0, "")
        p.server.execd(box, "DELETE", f"/command?id={command}")
        assert p.run(box, "cat /proc/$(cat /tmp/number)/comm", uid) == (0, "python3")
        p.server.delete(box)


@case
def E58_memory_of_all_kinds():
    """Whatever it is called, it is charged to the sandbox: pages, files in memory, kernel memory."""
    limit = 64 * MIB
    with Runner() as r:
        assert r.features & CAN_MEMORY, r.missing
        r.create("other", memory_bytes=limit)
        for kind in ("anon", "tmpfs", "memfd", "sysv", "pipes", "sockets", "dentries", "disk"):
            for uid in users():
                r.create("box", memory_bytes=limit)
                hoard = Hoard(r, "box", kind, uid)
                # caches give way; all else ends in a refusal, or in an end
                if kind not in ("dentries", "disk"):
                    assert not hoard.enough, (kind, hoard.text)
                used = r.stat("box")
                assert used.memory_peak_bytes <= limit + 2 * MIB, (kind, used.memory_peak_bytes)
                gets(r, "other", "anon", 16)
                r.delete("box")
                hoard.let_go()
        # the sandbox goes before the programs that keep it
        _, out = r.shell("other", "cat /proc/self/oom_score_adj; echo -1000 > /proc/self/oom_score_adj; "
                                  "echo 0 > /proc/self/oom_score_adj; cat /proc/self/oom_score_adj")
        values = [int(line) for line in out.splitlines() if re.fullmatch(r"-?\d+", line)]
        with open(f"/proc/{r.process.pid}/oom_score_adj", encoding="ascii") as f:
            ours = int(f.read())
        assert values[0] >= 300 and values[-1] >= ours, (out, ours)
        with open("/proc/self/status", encoding="ascii") as f:
            effective = int(re.search(r"CapEff:\t(\w+)", f.read()).group(1), 16)
        assert not effective & 1 << 24 or values[-1] >= 300, out  # a floor, where root has CAP_SYS_RESOURCE


@case
def E59_disk_inodes_depth():
    with Runner() as r:
        assert r.features & CAN_DISK, r.missing
        r.create("other", disk_bytes=32 * MIB)
        for kind in ("disk", "tiny", "deep"):
            for uid in users():
                r.create("box", disk_bytes=32 * MIB)
                hoard = Hoard(r, "box", kind, uid)
                assert hoard.n is not None, hoard.text
                assert kind == "deep" or not hoard.enough, hoard.text
                assert kind != "deep" or hoard.n > 1000, hoard.text
                assert r.stat("box").disk_bytes <= 33 * MIB
                gets(r, "other", "disk", 4)
                assert r.shell("other", "rm /tmp/hoard") == (0, "")
                # a path longer than any buffer, asked about by those who show mounts and directories
                r.shell("box", "cat /proc/*/mountinfo /proc/*/maps > /dev/null; ls -l /proc/*/cwd > /dev/null")
                assert r.shell("box", "echo alive")[1] == "alive\n"
                r.delete("box")
                hoard.let_go()
        r.delete("other")
        assert not any(census(r).values()), census(r)


@case
def E60_counted_things():
    """Descriptors, watchers, queues, shared memory, terminals, queued signals, locked memory: what the kernel counts
    per user or per machine is not taken from others."""
    with Runner() as r:
        r.create("other")
        for kind, fair in (("fds", 200), ("inotify", 60), ("mqueues", 4), ("shm", 16), ("sems", 16), ("ptys", 32),
                           ("signals", 200), ("locked", 16)):
            for uid in users():
                r.create("box", nofile=4096, memory_bytes=256 * MIB)
                hoard = Hoard(r, "box", kind, uid)
                assert hoard.n is None or (hoard.n >= fair and not hoard.enough), hoard.text
                gets(r, "other", kind, fair)
                if kind not in ("mqueues", "shm", "sems"):  # those would stay on the host
                    host_gets(kind, 16)
                r.delete("box")
                hoard.let_go()
        # of these the kernel has one number for the machine
        assert "got 0 aio" in probe_in(r, "other", "hoard", "aio", "1")[1]
        host_gets("aio", 16)


def flood(p, uid):
    box = p.box(resourceLimits={"memory": "256Mi"})
    pid = p.first_process(box)
    before = rss_kib(p.server.pid)
    prefix, headers = p.server.endpoint(box)
    deaf = []
    for _ in range(4):  # clients that ask for a flood and never read it
        s = p.server.connect()
        body = f'{{"command":"yes never read","uid":{uid}}}'.encode()
        fields = "".join(f"{name}: {value}\r\n" for name, value in headers)
        s.sendall(f"POST {prefix}/command HTTP/1.1\r\nHost: {p.server.host}\r\n{fields}"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        deaf.append(s)
    answer = p.server.execd(box, "POST", "/command", {"command": "yes kept | head -c 300M", "background": True,
                                                          "uid": uid})
    command = answer.json["id"] if answer.body.startswith(b'{"id"') else re.search(rb'"text":"([0-9a-f-]+)"',
                                                                                  answer.body).group(1).decode()
    until(lambda: not p.server.execd(box, "GET", f"/command/status/{command}").json["running"], "300 MB written", 120)
    assert rss_kib(pid) < 96 * 1024, rss_kib(pid)
    assert rss_kib(p.server.pid) < before + 32 * 1024, (before, rss_kib(p.server.pid))
    assert p.server.run(box, "echo alive") == "alive"
    for s in deaf:
        s.close()
    p.server.delete(box)


@case
def E61_floods_of_output():
    """Output nobody reads, and more of it than anybody could: memory of execd and of the server stays what it was."""
    p = product()
    for uid in users():
        flood(p, uid)
    loud = p.server.make(entrypoint=["yes", "all the time"], resourceLimits={"memory": "64Mi"})
    for _ in range(20):
        assert p.server.run(loud, "echo alive") == "alive"
    assert rss_kib(p.first_process(loud)) < 64 * 1024
    p.server.delete(loud)


@case
def E62_processor_time_and_priorities():
    product().tries("E62")
    with Runner() as r:
        r.create("box")
        busy = [r.start_in("box", "sh", "-c", "echo up; while :; do :; done", uid=uid) for uid in users()
                for _ in range(4)]
        for _, reading in busy:
            assert os.read(reading, 10) == b"up\n"
        r.create("other")
        assert r.shell("other", "echo alive") == (0, "alive\n")
        for s, reading in busy:
            os.close(reading)
            s.close()


@case
def E64_clock_and_names():
    with open("/proc/sys/kernel/domainname", encoding="ascii") as f:
        before = f.read()
    product().tries("E64")
    with open("/proc/sys/kernel/domainname", encoding="ascii") as f:
        assert f.read() == before
    with Runner() as r:  # limits that a sandbox puts on itself are its own
        r.create("box")
        r.create("other")
        _, limit = r.shell("other", "ulimit -n")
        assert r.shell("box", "ulimit -n 16; ulimit -c 0; ulimit -n") == (0, "16\n")
        assert r.shell("other", "ulimit -n") == (0, limit)


@case
def X09_memory_in_sockets():
    """What waits in sockets of the Internet's protocols is in the sandbox's limit of memory, too. Cgroups of version 1
    leave it out unless they are told. What no kernel counts is not to be had."""
    product().tries("X09")
    limit = 64 * MIB
    with Runner() as r:
        assert r.features & CAN_MEMORY, r.missing
        r.create("other", memory_bytes=limit)
        for kind in ("tcp", "udp"):
            for uid in users():
                r.create("box", memory_bytes=limit)
                hoard = Hoard(r, "box", kind, uid)
                assert hoard.n is None or (hoard.n < 64 and not hoard.enough), hoard.text
                gets(r, "other", kind, 4)
                r.delete("box")
                hoard.let_go()


@case
def X11_huge_pages_of_the_host():
    """Pages that the host has set aside are in no limit of memory, so they are not for sandboxes: a file in memory can
    be made of them, were they allowed, also where there are none."""
    if not os.path.exists("/sys/kernel/mm/hugepages"):
        raise Lacks("huge pages")
    with Runner() as r:
        r.create("box")
        for uid in users():
            code, out = probe_in(r, "box", "hoard", "huge", "1", uid=uid)
            assert (code, out) == (1, "got 0 huge: Cannot allocate memory\n"), out


main()
