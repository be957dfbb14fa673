#!/usr/bin/env python3
"""Somebody sets the clock, or the machine sleeps: lives end when they should, neither sooner nor later.
timeout: 600

The machine's own clock is everybody's, so the server gets clocks of its own (clockshim.c), and the test does to their
timers what the kernel would do. On a machine that is ours alone (OSB_OWN_MACHINE=1, set by scripts/check-vm) the same
cases run with the real clock and a real suspension."""

import ctypes
import mmap
import os
import re
import struct
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from stage import BUILD, Stage, enter, skip, until  # noqa: E402
from harness import case, run_cases  # noqa: E402
from serverlib import soon  # noqa: E402
from census import read  # noqa: E402

OWN_MACHINE = os.environ.get("OSB_OWN_MACHINE") == "1"
HOUR, DAY = 3600, 86400
SECOND_NS = 10 ** 9
CANCEL_ON_SET = 2
PIDFD_GETFD = 438
libc = ctypes.CDLL(None, use_errno=True)


def timers(pid):
    """{descriptor: (clock, flags, nanoseconds left, expirations unread)} of a process."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        match = re.search(r"clockid: (\d+)\nticks: (\d+)\nsettime flags: (\d+)\nit_value: \((\d+), (\d+)\)",
                          read(f"/proc/{pid}/fdinfo/{fd}") or "")
        if match:
            clock, ticks, flags, seconds, ns = match.groups()
            found[int(fd)] = int(clock), int(flags, 8), int(seconds) * SECOND_NS + int(ns), int(ticks)
    return found


class ShimmedClocks:
    """Clocks of the server alone."""

    asleep_s = HOUR  # how long a suspension lasts

    def __init__(self):
        with tempfile.NamedTemporaryFile(dir="/var/tmp") as f:
            f.truncate(16)
            self.map, self.path = mmap.mmap(f.fileno(), 16), f"/proc/{os.getpid()}/fd/{os.dup(f.fileno())}"
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "tests", "runtime", "libclockshim.so"), "OSB_CLOCKS": self.path}

    def _add(self, wall_s, boot_s):
        wall, boot = struct.unpack("qq", self.map[:])
        self.map[:] = struct.pack("qq", wall + wall_s * SECOND_NS, boot + boot_s * SECOND_NS)

    @staticmethod
    def _fire(pid, fd, after_ns):
        pidfd = os.pidfd_open(pid)
        copy = libc.syscall(PIDFD_GETFD, pidfd, fd, 0)
        assert copy >= 0, os.strerror(ctypes.get_errno())
        when = struct.pack("qqqq", 0, 0, after_ns // SECOND_NS, after_ns % SECOND_NS)
        assert libc.timerfd_settime(copy, 0, when, None) == 0
        os.close(copy)
        os.close(pidfd)

    def _wall_was_set(self, pid):
        """The kernel wakes who asked for it; who did not waits for what was the time before."""
        for fd, (clock, flags, _, _) in timers(pid).items():
            if clock == time.CLOCK_REALTIME and flags & CANCEL_ON_SET:
                self._fire(pid, fd, 1)

    def jump(self, server, seconds):
        self._add(seconds, 0)
        if server:
            self._wall_was_set(server.pid)

    def sleep(self, server):
        before = timers(server.pid)
        self._add(self.asleep_s, self.asleep_s)
        for fd, (clock, _, left_ns, _) in before.items():
            if clock == time.CLOCK_BOOTTIME and left_ns > 0:
                self._fire(server.pid, fd, max(left_ns - self.asleep_s * SECOND_NS, 1))
        self._wall_was_set(server.pid)

    def soon(self, seconds):
        return soon(seconds + struct.unpack("qq", self.map[:])[0] // SECOND_NS)


class RealClocks:
    """Those of the machine."""

    asleep_s = 60
    env = {}

    def jump(self, _, seconds):
        time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)

    def sleep(self, _):
        """As deep as it takes for the monotonic clock to stop; the machine's own alarm wakes us."""
        since_boot, running = time.clock_gettime(time.CLOCK_BOOTTIME), time.monotonic()
        with open("/sys/class/rtc/rtc0/wakealarm", "w", encoding="ascii") as f:
            f.write(f"+{self.asleep_s}")
        with open("/sys/power/state", "w", encoding="ascii") as f:
            f.write("mem")
        slept = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot - (time.monotonic() - running)
        assert slept > self.asleep_s / 2, f"it slept {slept} seconds"

    soon = staticmethod(soon)


def settled(server):
    """The server has looked at its clocks: nothing unread, and each timer set that has something to wait for."""
    until(lambda: not any(ticks for _, _, _, ticks in timers(server.pid).values()), "the server to look at its clocks")
    server.call("GET", "/readyz")  # and is through with what it saw


def ended(server, box, why):
    until(lambda: server.state_of(box) == "Terminated", f"the end by {why}")
    assert server.info(box, "?includeTerminated=true").json["status"]["reason"] == why


def on(server, *ids):
    settled(server)
    for box in ids:
        assert server.state_of(box) == "Running", server.info(box, "?includeTerminated=true").json


def start(*options):
    return STAGE.start(*options, env=CLOCKS.env)


def restart():
    STAGE.kill("server")
    start()
    STAGE.ready()
    return STAGE.server


def renew(box, seconds):
    answer = STAGE.server.call("POST", f"/v1/sandboxes/{box}/renew-expiration", {"expiresAt": CLOCKS.soon(seconds)})
    assert answer.status == 200, answer.body


def make_for(seconds, **more):
    """A sandbox that lives for less than can be asked for at first."""
    box = STAGE.server.make(timeout=DAY, **more)
    renew(box, seconds)
    return box


@case
def a_clock_set_forward_ends_what_has_expired_and_nothing_else():
    s = STAGE.server
    short, long = s.make(timeout=HOUR), s.make(timeout=DAY)
    manual, idle = s.make(timeout=None), s.make(timeout=DAY, extensions={"idle.timeout.seconds": "1800"})
    CLOCKS.jump(s, HOUR // 2)
    on(s, short, long, manual, idle)
    CLOCKS.jump(s, HOUR)
    ended(s, short, "ttl_expiry")
    on(s, long, manual, idle)  # nobody was idle for any longer
    CLOCKS.jump(s, -HOUR - HOUR // 2)
    on(s, long, manual, idle)


@case
def a_clock_set_back_lengthens_no_life():
    s = STAGE.server
    box, other = make_for(CLOCKS.asleep_s // 2), s.make(timeout=DAY)
    idle = s.make(timeout=DAY, extensions={"idle.timeout.seconds": str(CLOCKS.asleep_s // 2)})
    told = s.info(box).json["expiresAt"]
    CLOCKS.jump(s, -DAY)
    on(s, box, other, idle)
    assert s.info(box).json["expiresAt"] == told  # as promised, and a day ahead now
    s = restart()
    on(s, box, other, idle)
    CLOCKS.sleep(s)  # for longer than it had left
    ended(s, box, "ttl_expiry")
    ended(s, idle, "idle_timeout")
    on(s, other)
    CLOCKS.jump(s, DAY)
    on(s, other)


@case
def a_clock_set_back_while_nobody_looked_lengthens_no_life():
    s = STAGE.server
    box = make_for(CLOCKS.asleep_s // 2)
    STAGE.kill("server")
    CLOCKS.jump(None, -DAY)
    start()
    STAGE.ready()
    s = STAGE.server
    on(s, box)
    CLOCKS.sleep(s)
    ended(s, box, "ttl_expiry")
    CLOCKS.jump(s, DAY)


@case
def what_was_due_while_the_machine_slept_ends_when_it_wakes():
    s = STAGE.server
    half = str(CLOCKS.asleep_s // 2)
    short, long = make_for(CLOCKS.asleep_s // 2), s.make(timeout=DAY)
    idle = s.make(timeout=None, extensions={"idle.timeout.seconds": half})
    on(s, short, long, idle)
    CLOCKS.sleep(s)
    ended(s, short, "ttl_expiry")
    ended(s, idle, "idle_timeout")
    on(s, long)


@case
def use_renews_whatever_the_clock_says():
    STAGE.stop()
    s = start("--set", "renew_intent.min_interval_seconds=1")
    box = make_for(CLOCKS.asleep_s // 2, extensions={"access.renew.extend.seconds": "86400"})
    CLOCKS.jump(s, -7 * DAY)
    assert s.run(box, "echo on") == "on"
    CLOCKS.sleep(s)
    on(s, box)
    CLOCKS.jump(s, 7 * DAY)


@case
def a_renewal_counts_from_when_it_is_made():
    s = STAGE.server
    box = s.make(timeout=DAY)
    CLOCKS.jump(s, -HOUR)
    renew(box, CLOCKS.asleep_s // 2)
    CLOCKS.jump(s, -HOUR)
    on(s, box)
    CLOCKS.sleep(s)
    ended(s, box, "ttl_expiry")
    CLOCKS.jump(s, 2 * HOUR)


if os.geteuid() != 0:
    skip("needs root")
enter()
CLOCKS = RealClocks() if OWN_MACHINE else ShimmedClocks()
failed = 1
with Stage(log=None if os.environ.get("OSB_LOG") else -3) as STAGE:
    start()
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    if not failed:
        STAGE.stop()
print("ok nothing is left")
sys.exit(1 if failed else 0)
