"""What the server has acknowledged, to be held against what is so.

A request without an answer leaves its outcome open: a field then has several possible values until somebody
looks. Nothing else may ever be open.
"""

import datetime
import threading
import time

SLACK_S = 3     # around an expiry either is right
LATE_S = 30     # by then what had to end has ended, whatever was restarted meanwhile

ALIVE, UNSURE, DELETED, KILLED = "alive", "unsure", "deleted", "killed"


def seconds(text):
    """An RFC 3339 time, as the API writes it."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


class Box:
    """One sandbox whose create was acknowledged. One client works on it; a fault may strike it any time."""

    def __init__(self, answer, metadata):
        self.id = answer["id"]
        self.fate, self.fate_at = ALIVE, time.time()
        self.expiries = [answer["expiresAt"]]   # possible ones
        self.metadata = [metadata]              # possible ones
        self.paused = [False]                   # possible ones
        self.files = {}                         # path: possible digests, None for "not there"
        self.headers = None                     # for its execd
        self.sparse = False                     # its disk is a sparse file: a full host takes writes back

    def doom(self, fate):
        """Its end was acknowledged, asked for without an answer, or brought about from outside."""
        if self.fate != DELETED:
            self.fate, self.fate_at = fate, time.time()

    def must_live(self):
        return self.fate == ALIVE and min(map(seconds, self.expiries)) > time.time() + SLACK_S

    def must_be_gone(self):
        late = time.time() - LATE_S
        if self.fate == DELETED:
            return True
        if self.fate == KILLED and self.fate_at < late:
            return True
        return max(map(seconds, self.expiries)) < late

    def may_be_gone(self):
        return not self.must_live()


class Ledger:
    """All boxes, the creates whose answer was lost, and what was found wrong."""

    def __init__(self):
        self.lock = threading.Lock()
        self.boxes, self.killed = {}, set()
        self.lost_creates = set()   # serial numbers, which are in the sandboxes' metadata
        self.counts = {}
        self.wrongs = []
        self.serial = 0
        self.disk_was_full = False
        self.store_was_short = False    # of room or memory

    def next_serial(self):
        with self.lock:
            self.serial += 1
            return str(self.serial)

    def add(self, box):
        with self.lock:
            self.boxes[box.id] = box
            if box.id in self.killed:
                box.doom(KILLED)

    def kill(self, sandbox):
        """It is about to be killed, whether its create has been answered or not."""
        with self.lock:
            self.killed.add(sandbox)
            if sandbox in self.boxes:
                self.boxes[sandbox].doom(KILLED)

    def count(self, what):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def wrong(self, what):
        with self.lock:
            self.wrongs.append(f"{time.strftime('%H:%M:%S')} {what}")
        print(f"WRONG {what}", flush=True)

    def all(self):
        with self.lock:
            return list(self.boxes.values())


class Hardships:
    """When which fault was at work: an error that it explains is no wrong."""

    EXPLAINS_S = 5  # what it broke may take that long to be told

    def __init__(self):
        self.lock, self.spans = threading.Lock(), []

    def begin(self, kind):
        with self.lock:
            span = [kind, time.monotonic(), None]
            self.spans.append(span)
            return span

    def end(self, span):
        span[2] = time.monotonic()

    def explain(self, kinds, since):
        """Was one of these at work between then and now?"""
        with self.lock:
            return any(kind in kinds and (end is None or end + self.EXPLAINS_S >= since)
                       for kind, _, end in self.spans)
