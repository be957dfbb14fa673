#!/usr/bin/env python3
"""Commands in one sandbox, over and over, as clients run them: what execd, the sandbox and the server keep must not
grow.
timeout: 3000

OSB_FLAT_EXECS sets the number of commands (6000), OSB_FLAT_CURVE a file for the samples (tab-separated). What is
compared is the later half of the samples with the earlier one, after a warm-up in which execd has come to keep as many
finished commands as it ever does."""

import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from census import fd_count, names, rss_kib  # noqa: E402
from flat import judge, note, share  # noqa: E402
from stage import Stage, enter, json, until  # noqa: E402
from serverlib import children  # noqa: E402

EXECS = int(os.environ.get("OSB_FLAT_EXECS", "6000"))
CURVE = os.environ.get("OSB_FLAT_CURVE")
WORKERS = 4
SAMPLES = 30
KEPT = 1000  # finished commands that execd can still tell of
AT_REST = 2  # processes: execd and the entrypoint

# What may be more in the later half: (share, at least this much).
TOLERANCE = {"execd_kib": (0, 64), "execd_fds": (0, 0), "execd_threads": (0, 0), "processes": (0, 0),
             "files": (0, 0), "server_kib": (0.05, 1024), "server_fds": (0, 3), "server_threads": (0, 0)}

# (what is asked for, the last event's type, its exit code)
COMMANDS = [
    ({"command": "true"}, "execution_complete", None),
    ({"command": "exit 3"}, "error", "3"),
    ({"command": "echo x; echo y >&2"}, "execution_complete", None),
    ({"command": "nonexistent-xyz"}, "error", "127"),
    ({"command": "seq 200"}, "execution_complete", None),
    ({"command": "true", "uid": 1000, "cwd": "/tmp", "envs": {"A": "b"}}, "execution_complete", None),
    ({"command": "cat", "background": True}, "execution_complete", None),
    ({"command": "sleep 1000 & exec sleep 1000", "timeout": 5}, "error", None),
]


def below(pid):
    """All processes that have come of this one, itself included."""
    return [pid] + [p for child in children(pid) for p in below(child)]


class Sandbox:
    """One in which commands are run, by several clients who stay connected."""

    def __init__(self, stage):
        self.stage, self.server = stage, stage.server
        self.id = self.server.make(timeout=86400)
        self.prefix, self.fields = self.server.endpoint(self.id)
        self.execd = stage.instance.first_process(self.id)

    def one(self, ask, kind, code, sock=None):
        answer = self.server.call("POST", self.prefix + "/command", ask, fields=self.fields, sock=sock)
        assert answer.status == 200, (answer.status, answer.body)
        last = json.loads(answer.body.decode().strip().split("\n\n")[-1])
        assert last["type"] == kind and (code is None or last["error"]["evalue"] == code), (ask, last)

    def run(self, numbers):
        """These commands, by all clients together."""
        share(numbers, WORKERS, lambda n, sock: self.one(*COMMANDS[n % len(COMMANDS)], sock=sock), self.server.connect)

    def sample(self):
        """With nothing under way."""
        until(lambda: len(below(self.execd)) == AT_REST, "the last process to end", 60)
        server = self.server.pid
        return {"execd_kib": rss_kib(self.execd), "execd_fds": fd_count(self.execd),
                "execd_threads": len(names(f"/proc/{self.execd}/task")), "processes": len(below(self.execd)),
                "files": sum(len(files) for _, _, files in os.walk(f"/proc/{self.execd}/root/tmp")),
                "server_kib": rss_kib(server), "server_fds": fd_count(server),
                "server_threads": len(names(f"/proc/{server}/task"))}


def main():
    enter()
    samples = []
    with Stage(log=-3) as stage:
        stage.start()
        sandbox = Sandbox(stage)
        began = time.monotonic()
        sandbox.run(range(KEPT))
        step = max(1, EXECS // SAMPLES)
        for at in range(0, EXECS, step):
            sandbox.run(range(at, min(at + step, EXECS)))
            samples.append(sandbox.sample())
            note(CURVE, min(at + step, EXECS), samples[-1])
        print(f"   {EXECS + KEPT} commands, {(EXECS + KEPT) / (time.monotonic() - began):.0f} a second")
        grown = judge(samples, TOLERANCE)
        assert stage.server.delete(sandbox.id).status == 204
    print("ok nothing is left")
    if grown:
        print(json.dumps(samples))
    sys.exit(1 if grown else 0)


main()
