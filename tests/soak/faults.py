"""What goes wrong on machines, on purpose."""

import os
import random
import resource
import select
import signal
import time

from census import fd_count, read, settle

WEIGHTS = {"server": 4, "runner": 4, "both": 2, "execd": 4, "disk": 2, "files": 2, "memory": 2}


class Faults:
    def __init__(self, stage, ledger, hardships, seed, kinds=None):
        self.stage, self.ledger, self.hardships = stage, ledger, hardships
        self.chance = random.Random(f"{seed} faults")
        self.kinds = kinds or list(WEIGHTS)
        self.longest = {}  # how long each kind took at most, in seconds

    def strike(self):
        """One of them, over when this returns."""
        kind = self.chance.choices(self.kinds, [WEIGHTS[k] for k in self.kinds])[0]
        span = self.hardships.begin({"both": "server"}.get(kind, kind))
        try:
            getattr(self, kind)()
        finally:
            self.hardships.end(span)
        self.ledger.count(f"fault: {kind}")
        self.longest[kind] = max(self.longest.get(kind, 0), span[2] - span[1])
        code = self.stage.server.proc.poll()
        if code is not None:
            self.ledger.wrong(f"the server ended by itself with {code} ({kind})")
            self.stage.start()

    # --- kill -9 ---

    def server(self):
        self.stage.kill("server")
        self.stage.start()
        self.stage.ready()

    def runner(self):
        """Over when another one works."""
        before = self.stage.runner()
        self.stage.kill("runner")
        settle(lambda: self.stage.runner() in (before, None), 60, "no other runner")
        self.stage.ready()

    def both(self):
        self.stage.kill(*self.chance.sample(["server", "runner"], 2))
        self.stage.start()
        self.stage.ready()

    def execd(self):
        """PID 1 of some sandboxes, whether anybody knows of them already or not."""
        here = sorted(self.stage.instance.leaves())
        for sandbox in self.chance.sample(here, min(len(here), self.chance.randrange(1, 4))):
            box = self.ledger.boxes.get(sandbox)
            if box is not None:
                box.doom("killed")
            self.stage.kill(sandbox)

    # --- nothing left of something ---

    def _hold(self):
        """As long as it takes until it is over. Not a wait for anything: this is the fault's length."""
        select.select([], [], [], self.chance.uniform(0.5, 3))

    def disk(self):
        self.ledger.disk_was_full = True
        path = self.stage.fill_disk()
        try:
            self._hold()
        finally:
            os.unlink(path)

    def files(self):
        """No descriptors but a few, for the runner or for a server."""
        if self.chance.random() < 0.5:
            self._poor_server(resource.RLIMIT_NOFILE, self.chance.randrange(100, 500))
        else:
            pid = self.stage.runner()
            self._poor_runner(pid, resource.RLIMIT_NOFILE, fd_count(pid) + self.chance.randrange(0, 12))

    def memory(self):
        """No address space but a little: malloc and mmap fail. How much it has when it is ready is known from the
        one before."""
        pid = self.stage.server.pid if self.chance.random() < 0.5 else self.stage.runner()
        pages = (read(f"/proc/{pid}/statm") or "0").split()[0]
        size = int(pages) * resource.getpagesize() + self.chance.randrange(0, 1 << 20)
        if pid == self.stage.server.pid:
            self._poor_server(resource.RLIMIT_AS, size)
        else:
            self._poor_runner(pid, resource.RLIMIT_AS, size)

    def _poor_runner(self, pid, what, value):
        if pid is not None and self.stage.limit(pid, what, value):
            self._hold()
            self.stage.limit(pid, what, None)
            self.stage.ready()

    def _poor_server(self, what, value):
        """One that is born so: it has another user than we, and its limits are out of our reach."""
        self.stage.kill("server")
        try:
            self.stage.start(preexec_fn=lambda: resource.setrlimit(what, (value, value)))
        except RuntimeError:  # it could not, or its runner could not look after all that live
            self.ledger.count("a server that did not start")
        else:
            self._hold()
            code = self.stage.server.proc.poll()
            if code is None:
                self.stage.kill("server")
            elif code < 0 and (what, code) != (resource.RLIMIT_AS, -signal.SIGABRT):
                # (without memory for a record it ends at once, on purpose; the log shows assertions)
                self.ledger.wrong(f"a server short of something ended with {code}")
        self.stage.start()
        self.stage.ready()


class Pace:
    """Faults at random distances for so long."""

    def __init__(self, faults, seconds):
        self.faults, self.end = faults, time.monotonic() + seconds

    def run(self, stop):
        while time.monotonic() < self.end and not stop():
            select.select([], [], [], self.faults.chance.uniform(0.2, 3))
            self.faults.strike()
