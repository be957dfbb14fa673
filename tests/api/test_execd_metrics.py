#!/usr/bin/env python3
"""CPU and memory as execd reports them: once, and every second."""
# timeout: 300

import json
import os
import subprocess
import sys
import time

from harness import DEADLINE, Program, Reader, case, request, run_cases, until

execd = Program("execd", "--port", "0")
KEYS = {"cpu_count", "cpu_used_pct", "mem_total_mib", "mem_used_mib", "timestamp"}


def sane(m):
    assert KEYS <= set(m), m
    assert isinstance(m["cpu_count"], int) and 1 <= m["cpu_count"] <= os.cpu_count()
    assert 0 <= m["cpu_used_pct"] <= 100
    assert 0 < m["mem_used_mib"] <= m["mem_total_mib"]
    assert isinstance(m["timestamp"], int) and abs(m["timestamp"] / 1000 - time.time()) < 60


def metrics():
    reply = request(execd, "GET", "/metrics")
    assert reply.status == 200 and reply.get("content-type").startswith("application/json")
    return json.loads(reply.body)


@case
def all_fields_from_the_first_call_on():
    for _ in range(3):
        m = metrics()
        sane(m)
        assert set(m) == KEYS


@case
def cpu_count_is_written_as_an_integer():
    body = request(execd, "GET", "/metrics").body
    assert b'"cpu_count":%d,' % json.loads(body)["cpu_count"] in body


@case
def a_busy_machine_shows():
    burners = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    try:
        until(lambda: metrics()["cpu_used_pct"] > 50, "more than half in use")
    finally:
        for b in burners:
            b.kill()
            b.wait()


@case
def many_at_once_are_all_answered():
    fresh = Program("execd", "--port", "0")  # has no sample yet, so that all wait for one
    socks = [fresh.connect() for _ in range(30)]
    for s in socks:
        s.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    for s in socks[:10]:
        s.close()  # some do not wait
    for s in socks[10:]:
        sane(json.loads(Reader(s).reply().body))
        s.close()
    assert fresh.stop() == 0


class Watch:
    def __init__(self):
        self.sock = execd.connect()
        self.sock.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        self.reader = Reader(self.sock)
        self.head = self.reader.head()
        self.chunks = self.reader.chunks()


@case
def watch_is_a_stream_of_lines():
    w = Watch()
    assert w.head.status == 200 and w.head.get("content-type") == "text/event-stream"
    assert w.head.get("transfer-encoding") == "chunked"
    assert w.head.get("cache-control") == "no-cache"
    seen = []
    for chunk in w.chunks:
        assert chunk.startswith(b"{") and chunk.endswith(b"}\n\n") and chunk.count(b"\n") == 2
        m = json.loads(chunk)
        sane(m)
        assert m["cpu_used_percentage"] == m["cpu_used_pct"]
        assert m["memory_total_in_mib"] == m["mem_total_mib"]
        assert m["memory_used_in_mib"] == m["mem_used_mib"]
        seen.append(m["timestamp"])
        if len(seen) == 3:
            break
    assert seen == sorted(seen) and seen[2] - seen[1] > 500  # a second apart, not a flood
    w.sock.close()


@case
def watchers_come_and_go():
    request(execd, "GET", "/ping")
    before = execd.fds()
    watchers = [Watch() for _ in range(10)]
    for w in watchers:
        sane(json.loads(next(w.chunks)))
    for w in watchers[::2]:
        w.sock.close()
    for w in watchers[1::2]:
        sane(json.loads(next(w.chunks)))
        w.sock.close()
    until(lambda: execd.fds() < before + 5, "connections closed")


@case
def nobody_watches_nothing_wakes():
    def switches():
        with open(f"/proc/{execd.pid}/status", encoding="ascii") as f:
            return sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)

    metrics()
    # a second of another execd's watching passes by; this one is left alone
    with Program("execd", "--port", "0") as clock:
        s = clock.connect()
        s.sendall(b"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        reader = Reader(s)
        reader.head()
        chunks = reader.chunks()
        next(chunks)
        spans = []
        while not spans or spans[-1] > 0:  # first it tidies up behind the last request
            assert len(spans) < 5, spans
            before = switches()
            for _ in range(3):
                next(chunks)
            spans.append(switches() - before)
        s.close()


@case
def limits_of_our_own_control_group():
    """Started in a group with limits, execd reports those instead of the machine's."""
    made, enter = [], []
    limit = 256 << 20
    try:
        with open("/proc/self/mountinfo", encoding="ascii") as f:
            mounts = [line.split() for line in f]
        v1 = {opt: m[4] for m in mounts if m[m.index("-") + 1] == "cgroup"
              for opt in m[-1].split(",")}
        v2 = [m[4] for m in mounts if m[m.index("-") + 1] == "cgroup2"]
        name = f"osb-metrics-{os.getpid()}"

        def group(top, settings):
            path = f"{top}/{name}"
            if path not in made:
                os.mkdir(path)
                made.append(path)
                enter.append(path + "/cgroup.procs")
            for key, value in settings.items():
                with open(f"{path}/{key}", "w", encoding="ascii") as out:
                    out.write(str(value))

        try:
            if "memory" in v1 and "cpu" in v1:
                group(v1["memory"], {"memory.limit_in_bytes": limit})
                group(v1["cpu"], {"cpu.cfs_period_us": 100000, "cpu.cfs_quota_us": 50000})
                group(v1["cpuacct"], {})
            elif v2:
                with open(v2[0] + "/cgroup.subtree_control", "w", encoding="ascii") as out:
                    out.write("+cpu +memory")
                group(v2[0], {"memory.max": limit, "cpu.max": "50000 100000"})
            else:
                raise OSError("no control groups")
        except OSError as e:
            print(f"skip limits_of_our_own_control_group {e}")
            return

        def join():
            for path in enter:
                with open(path, "w", encoding="ascii") as out:
                    out.write("0")

        with Program("execd", "--port", "0", preexec_fn=join) as inside:
            reply = request(inside, "GET", "/metrics")
            m = json.loads(reply.body)
            assert m["mem_total_mib"] == 256 and m["mem_used_mib"] < 256, m
            assert m["cpu_count"] == 1
            # half a processor is all there is: shares are shares of that
            body = json.dumps({"command": "while :; do :; done", "timeout": 60000}).encode()
            s = inside.connect()
            s.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                      % len(body) + body)

            def used_s():
                if "cpuacct" in v1:
                    with open(f"{v1['cpuacct']}/{name}/cpuacct.usage", encoding="ascii") as f:
                        return int(f.read()) / 1e9
                with open(f"{v2[0]}/{name}/cpu.stat", encoding="ascii") as f:
                    return int(f.readline().split()[1]) / 1e6

            begin = time.monotonic()
            request(inside, "GET", "/metrics")
            before = used_s()
            until(lambda: used_s() > before + 0.2, "some time used")
            used = used_s() - before
            got = json.loads(request(inside, "GET", "/metrics").body)["cpu_used_pct"]
            least = 100 * used / ((time.monotonic() - begin) * 0.5)
            assert got >= min(least, 100) * 0.9, (got, least)
            s.close()
    finally:
        def emptied(path):
            try:
                os.rmdir(path)
            except OSError:
                return False
            return True

        for path in made:
            until(lambda: emptied(path), f"{path} is empty", DEADLINE)


def end():
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    code = execd.stop()
    print("ok execd_ended_well" if code == 0 else f"not ok execd ended with {code}")
    sys.exit(1 if failed or code != 0 else 0)


end()
