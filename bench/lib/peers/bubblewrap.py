"""Bubblewrap: not a sandbox platform, with no limits, no API and nothing kept. The least that namespaces can cost."""

import json
import os
import signal
import subprocess

import memory

from .common import Peer, need, quiet

ENTER = ["nsenter", "--all", "--target"]


class Bubblewrap(Peer):
    name = "bubblewrap (floor)"
    lacks = {**dict.fromkeys(("put", "get"), "it has no way to copy files; a directory of the host is bound instead"),
             "open": "it has no network to publish a port of: the host's, or none"}

    def __init__(self, root):
        need("bwrap", "nsenter")
        self.base = ["bwrap", "--unshare-all", "--bind", root, "/", "--proc", "/proc", "--dev", "/dev"]
        self.living = {}
        self.once(["true"])

    def once(self, argv):
        return quiet([*self.base, *argv])

    def create(self):
        """Its first process says when it is there."""
        tell, told = os.pipe()
        proc = subprocess.Popen([*self.base, "--info-fd", str(told), "sh", "-c", "echo; exec tail -f /dev/null"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, pass_fds=[told])
        os.close(told)
        with os.fdopen(tell) as info:
            first = json.load(info)["child-pid"]
        if proc.stdout.readline() != b"\n":
            raise RuntimeError(f"bwrap left with {proc.wait()}")
        self.living[first] = proc
        return first

    def run(self, sandbox, argv):
        """It has no exec of its own; this is what comes next to one."""
        return quiet([*ENTER, str(sandbox), "--", *argv])

    def delete(self, sandbox):
        """The first process of its namespace, and all the others with it."""
        proc = self.living.pop(sandbox)
        os.kill(sandbox, signal.SIGKILL)
        proc.wait()
        proc.stdout.close()

    def processes(self):
        return [pid for proc in self.living.values() for pid in memory.tree(proc.pid)]

    def stop(self):
        for sandbox in list(self.living):
            self.delete(sandbox)
