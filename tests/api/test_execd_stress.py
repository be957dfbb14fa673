#!/usr/bin/env python3
"""execd under load: many commands one after the other and at once, clients that vanish, much output;
and afterwards everything is as before."""
# timeout: 900

import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading

from execdlib import call, children, first, open_stream, run, start, target
from harness import DEADLINE, case, run_cases, until

SANITIZED = "asan" in os.environ.get("OSB_BUILD", "")
execd = start()


def temporary_files():
    return {name for name in os.listdir("/tmp") if name.startswith("execd")}


def quiet():
    """Nothing runs, nobody is connected."""
    until(lambda: not children(execd.pid), "no process is left", 60)


def settle(fds):
    until(lambda: execd.fds() <= fds, f"no more than {fds} descriptors", 60)


@case
def an_idle_daemon_waits_without_a_clock():
    with start() as idle:
        def waits_for_ever():
            with open(f"/proc/{idle.pid}/syscall", encoding="ascii") as f:
                words = f.read().split()
            # epoll_wait or epoll_pwait; the fourth argument is the timeout, -1 for none
            return len(words) > 4 and int(words[4], 16) & 0xffffffff == 0xffffffff
        until(waits_for_ever, "the loop has nothing to wake up for")
        if not SANITIZED:
            assert idle.own_kib() <= 192, idle.own_kib()


@case
def after_work_it_is_small_again():
    with start() as idle:
        for _ in range(50):
            run(idle, "echo x; echo y >&2")
        assert call(idle, "GET", "/files/search?path=/etc").status == 200
        assert call(idle, "GET", "/metrics").status == 200
        if not SANITIZED:
            until(lambda: idle.rss_kib() <= 1228, "what the work needed has been given back")


@case
def a_thousand_commands_leave_nothing():
    with execd.connect() as sock:
        for _ in range(1100):  # until no more finished ones are kept
            run(execd, "true", sock=sock)
        quiet()
        fds, rss, files = execd.fds(), execd.rss_kib(), temporary_files()
        for i in range(1000):
            s = run(execd, ("true", "exit 3", "echo x; echo y >&2", "nonexistent-xyz")[i % 4],
                    sock=sock)
            assert s.code == (0, 3, 0, 127)[i % 4]
        quiet()
        settle(fds)
        assert temporary_files() == files
        if not SANITIZED:
            assert execd.rss_kib() <= rss + 256, (rss, execd.rss_kib())


@case
def two_hundred_streams_at_once_all_complete():
    failures = []

    def one(i):
        try:
            s = run(execd, f"for n in $(seq 1 200); do echo {i}-$n; done; exit $(({i} % 7))")
            assert s.out == [f"{i}-{n}" for n in range(1, 201)]
            assert s.code == i % 7
        except Exception as e:  # pylint: disable=broad-except
            failures.append((i, repr(e)[:300]))
    quiet()
    fds = execd.fds()
    threads = [threading.Thread(target=one, args=(i,)) for i in range(200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    quiet()
    settle(fds)


@case
def a_flood_passes_with_flat_memory():
    size = (64 << 20) if SANITIZED else (1 << 30)
    line = "x" * 79
    with start() as flooded:
        sock, _ = None, None
        body = json.dumps({"command": f"yes {line} | head -c {size}"}).encode()
        with flooded.connect(timeout=300) as sock:
            sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                         % len(body) + body)
            seen, lines, buffer, tail = 0, 0, bytearray(1 << 20), b""
            while not tail.endswith(b"0\r\n\r\n"):
                n = sock.recv_into(buffer)
                assert n > 0, "the stream was cut"
                piece = tail[-7:] + bytes(memoryview(buffer)[:n])
                # counts line ends only where they are not part of what was counted before
                lines += piece.count(b'","timestam', max(0, len(tail[-7:]) - 9))
                tail = piece[-16:]
                seen += n
        assert seen > size
        assert size // 80 - lines < size // 80 // 100, (size // 80, lines)
        if not SANITIZED:
            assert flooded.peak_rss_kib() <= 8 << 10, flooded.peak_rss_kib()


CLIENT = """
import json, socket, sys
sock = socket.create_connection((sys.argv[1], int(sys.argv[2])))
body = json.dumps({"command": sys.argv[4]}).encode()
sock.sendall(b"POST %s HTTP/1.1\\r\\nHost: x\\r\\nContent-Length: %d\\r\\n\\r\\n"
             % (sys.argv[3].encode(), len(body)) + body)
while sock.recv(100):
    sys.stdout.write("x")
    sys.stdout.flush()
"""


@case
def clients_killed_at_any_point_leave_nothing():
    quiet()
    rng = random.Random(4711)
    session = json.loads(call(execd, "POST", "/session").body)["session_id"]
    fds = execd.fds()
    for i in range(40):
        where = f"/session/{session}/run" if i % 2 else "/command"
        command = rng.choice(["seq 1 20000", "sleep 0.2; echo x", "true",
                              "for i in 1 2 3 4 5; do echo $i; sleep 0.01; done"])
        client = subprocess.Popen([sys.executable, "-c", CLIENT, execd.host, str(execd.port), where,
                                   command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        wanted = rng.choice([0, 1, 2, 10])
        if wanted:
            os.read(client.stdout.fileno(), wanted)
        client.kill()
        client.wait()
        client.stdout.close()
    quiet()
    settle(fds)
    assert call(execd, "DELETE", f"/session/{session}").status == 200


@case
def a_wild_mix_ends_in_silence():
    quiet()
    fds = execd.fds()
    failures = []

    def worker(seed):
        rng = random.Random(seed)
        try:
            for _ in range(25):
                kind = rng.randrange(5)
                if kind == 0:
                    run(execd, "sleep 1000", timeout=rng.randrange(1, 60))
                elif kind == 1:
                    sock, events = open_stream(execd, "/command", {"command": "yes"})
                    ident = first(events, "init")["text"]
                    if rng.randrange(2):
                        first(events, "stdout")
                    reply = call(execd, "DELETE", target("/command", id=ident))
                    assert reply.status == 200, reply.body
                    sock.close()
                elif kind == 2:
                    run(execd, "setsid sleep 1000 & sleep 0.01; seq 1 1000", timeout=20)
                elif kind == 3:
                    s = run(execd, "sleep 0.02; seq 1 100", background=True)
                    call(execd, "GET", f"/command/{s.id}/logs")
                    if rng.randrange(2):
                        call(execd, "DELETE", target("/command", id=s.id))
                else:
                    sock = execd.connect()
                    sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
                    sock.close()
        except Exception as e:  # pylint: disable=broad-except
            failures.append(repr(e)[:300])
    threads = [threading.Thread(target=worker, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures[:3]
    # those whose leader ended in time left a sleeper behind on purpose
    for warden in children(execd.pid):
        for pid in children(warden):
            os.kill(pid, signal.SIGKILL)
    quiet()
    settle(fds)


if __name__ == "__main__":
    with execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit(1 if failed or execd.proc.returncode != 0 else 0)
