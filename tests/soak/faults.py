"""What goes wrong on machines, on purpose."""

import os
import random
import select
import signal
import time

from census import settle
from hooks import CLASSES, PROGRAMS

# How many of each are in the bag that they are drawn from: whoever draws it empty has seen all of them.
KINDS = {"server": 3, "runner": 3, "both": 1, "execd": 3, "disk": 2,
         **{f"{program}-{what}": 2 for program in PROGRAMS for what in CLASSES}}

# Of how many calls one fails; where there are few of them, and where there are many.
RARE, FREQUENT = (2, 5, 10, 30), (3, 10, 30, 100, 300)


class Faults:
    def __init__(self, stage, hooks, ledger, hardships, seed, kinds=None):
        self.stage, self.hooks, self.ledger, self.hardships = stage, hooks, ledger, hardships
        self.chance = random.Random(f"{seed} faults")
        self.kinds = kinds or list(KINDS)
        self.bag, self.struck = [], {}
        self.aborts = 0     # of servers that had no memory
        self.longest = {}   # how long each kind took at most, in seconds

    def strike(self):
        """One of them, over when this returns."""
        if not self.bag:  # one of each at first
            self.bag = [kind for kind in self.kinds for _ in range(KINDS[kind] if self.struck else 1)]
            self.chance.shuffle(self.bag)
        kind = self.bag.pop()
        self.struck[kind] = self.struck.get(kind, 0) + 1
        program, _, scarce = kind.partition("-")
        span = self.hardships.begin(scarce or {"both": "server"}.get(kind, kind))
        try:
            if scarce:
                self.starve(program, scarce)
            else:
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
            self.ledger.kill(sandbox)
            self.stage.kill(sandbox)

    # --- nothing left of something ---

    def _hold(self):
        """As long as it takes until it is over. Not a wait for anything: this is the fault's length."""
        select.select([], [], [], self.chance.uniform(0.5, 3))

    def disk(self):
        self.ledger.disk_was_full = self.ledger.store_was_short = True
        path = self.stage.fill_disk()
        try:
            self._hold()
        finally:
            os.unlink(path)

    def starve(self, program, what):
        """Some calls for memory or for a descriptor fail, in all processes of a program."""
        self.ledger.store_was_short |= program == "server"
        self.hooks.fail(program, what, self.chance.choice(RARE if what == "files" or program == "runner" else FREQUENT))
        try:
            self._hold()
        finally:
            self.hooks.fail(program, what, 0)
        if program == "server" and what == "memory" and self.stage.server.proc.poll() == -signal.SIGABRT:
            # without memory for a record it ends at once, on purpose; the log shows assertions
            self.aborts += 1
            span = self.hardships.begin("server")
            self.stage.server.kill()
            self.stage.start()
            self.hardships.end(span)
        if self.stage.server.proc.poll() is None:
            self.stage.ready()

    def unproved(self):
        """Programs that were never denied anything, though they should have been time and again."""
        return [kind for kind, times in self.struck.items()
                if "-" in kind and times > 2 and not self.hooks.failed(*kind.split("-"))]


class Pace:
    """Faults at random distances for so long."""

    def __init__(self, faults, seconds):
        self.faults, self.end = faults, time.monotonic() + seconds

    def run(self, stop):
        while time.monotonic() < self.end and not stop():
            select.select([], [], [], self.faults.chance.uniform(0.2, 3))
            self.faults.strike()
