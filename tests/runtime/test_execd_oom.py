#!/usr/bin/env python3
"""A command that the kernel kills for want of memory is said to have been."""

import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "api"))

from execdlib import call, run, start  # noqa: E402
from harness import case, run_cases, skip, until  # noqa: E402

LIMIT = 256 << 20
HOG = "python3 -c \"b = [bytearray(16 << 20) for i in range(64)]\""


def put(path, value):
    """Into a file that is there: in a plain directory none must be made."""
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def make_group():
    """A control group with little memory: its directory, version 2 or 1."""
    name = f"osb-oom-{os.getpid()}"
    for top, files in (("/sys/fs/cgroup", ("memory.max", "memory.swap.max")),
                       ("/sys/fs/cgroup/memory", ("memory.limit_in_bytes", None))):
        group = os.path.join(top, name)
        try:
            os.mkdir(group)
            put(os.path.join(group, files[0]), LIMIT)
        except OSError:
            if os.path.isdir(group):
                os.rmdir(group)
            continue
        if files[1] and os.path.exists(os.path.join(group, files[1])):
            put(os.path.join(group, files[1]), 0)
        return group
    return None


group = make_group() if os.geteuid() == 0 else None
if group is None:
    skip("no control group with a memory limit can be made here")


def enter():
    put(os.path.join(group, "cgroup.procs"), os.getpid())


execd = start(preexec_fn=enter)


@case
def the_leader_killed_for_memory():
    s = run(execd, HOG)
    assert s.end["error"]["evalue"] == "-1" and s.traceback[0] == "out of memory", s.end
    status = json.loads(call(execd, "GET", f"/command/status/{s.id}").body)
    assert status["out_of_memory"] is True and status["signal"] == 9, status


@case
def a_child_killed_for_memory():
    s = run(execd, HOG + "; exit $?")
    assert s.code == 137 and s.traceback[0] == "out of memory", s.end


@case
def killed_for_another_reason():
    s = run(execd, "kill -9 $$")
    assert "out of memory" not in s.traceback
    assert run(execd, "exit 137").traceback == ["exit status 137"]


if __name__ == "__main__":
    try:
        with execd:
            failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    finally:
        def removed():
            try:
                os.rmdir(group)
            except OSError:
                return False
            return True
        until(removed, "the control group is empty")
    sys.exit(1 if failed else 0)
