#!/usr/bin/env python3
"""Failures that others had and that no other test makes happen: through the API, as a client would see them.
timeout: 300"""

import hashlib
import json
import threading

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import

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


@case
def R08_burst_of_creates():
    burst(product(), 100)
    # a sandbox with its workload takes less than two megabytes; the machine has other work, too
    if os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 4 << 30:
        p = Product("--set", "runtime.create_timeout_seconds=600")  # of a machine with other work
        burst(p, 1000)
        p.close()
    else:
        print("  1,000 at once are for machines with 4 GiB to spare")


main()
