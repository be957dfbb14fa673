#!/usr/bin/env python3
"""Failures that others had and that no other test makes happen: through the API, as a client would see them.
timeout: 600"""

import hashlib
import json
import threading

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from census import rss_kib

setup()


@case
def R02_uploads_read_back_by_hash():
    p = product()
    box = p.box()
    for size in (0, 1, 18431, 18432, 18433, 65535, 65537, 1 << 20, (1 << 20) + 1, 5 << 20):
        data = os.urandom(size)
        p.upload(box, "/tmp/sent", data)
        answer = p.server.execd(box, "GET", "/files/download?path=/tmp/sent")
        assert answer.status == 200 and answer.body == data, (size, answer.status, len(answer.body))
        assert p.run(box, "sha256sum < /tmp/sent")[1].split()[0] == hashlib.sha256(data).hexdigest(), size


GIB = 1 << 30
LARGE = 5 * GIB


def pieces(size):
    """So many bytes, no two pieces alike."""
    noise = bytearray(os.urandom(1 << 20))
    for n in range(size >> 20):
        noise[:8] = n.to_bytes(8, "big")
        yield noise


@case
def R02_more_than_any_buffer_or_counter_holds():
    """5 GiB in and out: past 32 bits, past the sandbox's memory, and nobody has it in one piece."""
    state = tempfile.mkdtemp(prefix="osb-server-", dir="/var/tmp")
    os.chmod(state, 0o755)
    if shutil.disk_usage(state).free < LARGE + GIB:
        os.rmdir(state)
        raise TooSmall(f"{(LARGE + GIB) >> 30} GiB to spare in {os.path.dirname(state)}")
    p = Product(state=state)
    try:
        box = p.server.make(resourceLimits={"memory": "128Mi", "disk": "6Gi"})
        sent, got, size = hashlib.sha256(), hashlib.sha256(), 0

        def hashed():
            for piece in pieces(LARGE):
                sent.update(piece)
                yield piece

        p.upload_pieces(box, "/root/sent", LARGE, hashed())
        with p.asked(box, "GET", "/files/download?path=/root/sent") as s:
            reader = Reader(s)
            head = reader.head()
            assert head.status == 200 and head.get("Content-Length") == str(LARGE), head.fields
            got.update(reader.rest)
            size, buffer = len(reader.rest), memoryview(bytearray(1 << 20))
            while size < LARGE:
                n = s.recv_into(buffer)
                assert n > 0, f"cut after {size} bytes"
                got.update(buffer[:n])
                size += n
        assert (size, got.hexdigest()) == (LARGE, sent.hexdigest())
        assert p.run(box, "stat -c %s /root/sent")[1] == str(LARGE)
        assert rss_kib(p.server.pid) < 64 << 10 and rss_kib(p.first_process(box)) < 16 << 10
    finally:
        p.close()


@case
def R04_timeout_with_a_background_child():
    p = product()
    box = p.box()
    for command in ("sleep 1234 & sleep 1234", "setsid sleep 1234 & wait", "(sleep 1234 &) ; exec sleep 1234",
                    "trap '' TERM; nohup sleep 1234 > /dev/null 2>&1 & exec 1>&-; sleep 1234"):
        answer = p.server.execd(box, "POST", "/command", {"command": command, "timeout": 300})
        last = json.loads(answer.body.decode().strip().split("\n\n")[-1])
        assert last["type"] == "error" and "timeout" in last["error"]["traceback"][0], (command, last)
        assert p.run(box, "pgrep -f '[s]leep 1234' | wc -l")[1] == "0", command


def burst(p, n):
    """So many creates at once: all succeed, and all of it goes again."""
    answers, gate = [None] * n, threading.Barrier(n)

    def one(i):
        gate.wait(60)
        answers[i] = p.server.create()

    threads = [threading.Thread(target=one, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert all(a is not None and a.status == 202 for a in answers), [a and a.status for a in answers]
    ids = [a.json["id"] for a in answers]
    assert len(set(ids)) == n
    assert {p.server.state_of(i) for i in ids} == {"Running"}
    assert all(p.server.delete(i).status == 204 for i in ids)


def available_bytes():
    """Memory to be had without driving anybody out of it; caches give way."""
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable:"))


@case
def R08_burst_of_creates():
    burst(product(), 100)
    # a sandbox with its workload takes less than two megabytes; the machine has other work, too
    if available_bytes() < 4 * GIB:
        raise TooSmall("4 GiB of memory to spare, for 1,000 sandboxes at once")
    p = Product("--set", "runtime.create_timeout_seconds=600")  # of a machine with other work
    burst(p, 1000)
    p.close()


main()
