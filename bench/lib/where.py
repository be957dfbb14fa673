"""Where the time goes: processor time of each process, its waiting for a core, and its system calls by strace."""

import os
import re
import shutil
import signal
import subprocess
import tempfile

TICK = 1000 / os.sysconf("SC_CLK_TCK")


class Accounts:
    """The processor time of processes and of the children they reaped, between two moments."""

    def __init__(self, pids):
        self.pids, self.begun = pids, {name: self._read(pid) for name, pid in pids.items()}

    @staticmethod
    def _read(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        ran = waited = 0
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as schedstat:
                    run, wait, _ = map(int, schedstat.read().split())
            except OSError:
                continue
            ran, waited = ran + run / 1e6, waited + wait / 1e6
        user, system, child_user, child_system = (int(f) * TICK for f in fields[11:15])
        return {"user": user, "system": system, "children": child_user + child_system, "ran": ran, "waited": waited}

    def rows(self, per):
        """For each process: its name, and milliseconds per operation of user, system, reaped children, and
        waiting for a core while it wanted to run."""
        rows = []
        for name, pid in self.pids.items():
            now, then = self._read(pid), self.begun[name]
            rows.append([name] + [(now[key] - then[key]) / per for key in
                                  ("user", "system", "children", "ran", "waited")])
        return rows


ACCOUNT_COLUMNS = ["process, ms each", "user", "system", "reaped children", "on a core", "waiting for a core"]


def machine_busy():
    """Ticks of all cores that were not idle, and all ticks."""
    with open("/proc/stat", encoding="ascii") as stat:
        ticks = [int(field) for field in stat.readline().split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def system_calls(pid, action, threads=False, most=8):
    """Runs the action with strace on a process; rows of (call, count, wall ms in it, ms each), longest first.
    Waiting for work is left out. None without strace."""
    if not shutil.which("strace"):
        return None
    with tempfile.NamedTemporaryFile("r", prefix="osb-strace-") as log:
        tracer = subprocess.Popen(["strace", *(["-f"] if threads else []), "-c", "-w", "-U",
                                   "name,calls,total-time,avg-time", "-o", log.name, "-p", str(pid)],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            tracer.stderr.readline()  # it says when it is attached
            action()
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(30)
            tracer.stderr.close()
        rows = []
        for line in log.read().split("\n"):
            found = re.match(r"(\w+)\s+(\d+)\s+([\d.]+)\s+(\d+)", line)
            if found and found.group(1) not in ("total", "epoll_wait", "epoll_pwait", "poll", "ppoll", "futex"):
                rows.append([found.group(1), int(found.group(2)), float(found.group(3)) * 1000,
                             int(found.group(4)) / 1000])
    return sorted(rows, key=lambda row: -row[2])[:most]


CALL_COLUMNS = ["system call", "calls", "ms in all", "ms each"]
