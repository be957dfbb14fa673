"""A server at work on a stage of its own: network and mounts that end with the test, a disk that can be filled,
programs that can be killed and started again.

The stage's network namespace makes port, addresses and packet filter ours alone. Its mount namespace makes a mount
vanish with the last of our processes, whatever happens to us; the register of instances is another there, since
others could not see that our state directory is in use.
"""

import ctypes
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "api"))

from harness import BUILD, skip, until  # noqa: E402  pylint: disable=wrong-import-position
from serverlib import Server  # noqa: E402  pylint: disable=wrong-import-position

from census import CLAIMS, Instance, is_zombie  # noqa: E402  pylint: disable=wrong-import-position

CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
PLACE = "/var/tmp"
PORT = 8080  # nobody else is in our network namespace


def enter():
    """Leave the machine's network and mounts. Before the first thread is made."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWNET) != 0:
        skip("cannot make namespaces: " + os.strerror(ctypes.get_errno()))
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    os.makedirs(CLAIMS, mode=0o700, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700,size=1m", "tmpfs", CLAIMS], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def sweep():
    """What stages of tests that were killed have left."""
    for path in glob.glob(f"{PLACE}/osb-stage-*-*"):
        owner = os.path.basename(path).split("-")[2]
        if owner.isdigit() and not os.path.exists(f"/proc/{owner}"):
            take_down(Instance(path))
            shutil.rmtree(path, ignore_errors=True)


def take_down(instance):
    """By force: processes, cgroups. Links, filters and mounts go with their namespaces."""
    for pid in instance.processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    until(lambda: all(is_zombie(pid) for pid in instance.processes()), "all to end")
    for place in instance.groups():
        for name in [n for n in os.listdir(place) if os.path.isdir(os.path.join(place, n))] + ["."]:
            try:
                os.rmdir(os.path.normpath(os.path.join(place, name)))
            except OSError:
                pass


class Stage:
    """One state directory, at most one server at a time."""

    def __init__(self, *options, disk_mib=0, key=None, log=None, **popen):
        self.options, self.key, self.log, self.popen = list(options), key, log, popen
        sweep()
        self.state = tempfile.mkdtemp(prefix=f"osb-stage-{os.getpid()}-", dir=PLACE)
        os.chmod(self.state, 0o755)
        self.mounts = 2 if disk_mib else 0
        if disk_mib:
            self._mount_disk(disk_mib)
        self.instance = Instance(self.state)
        self.server = None

    def _mount_disk(self, mib):
        """A file system of its own for the state, small enough to be filled; in memory, so that the machine's disk
        has no part in what is tested."""
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib + 16}m", "tmpfs", self.state], check=True)
        disk = os.path.join(self.state, "disk")
        with open(disk, "wb") as f:
            f.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1", disk], check=True, timeout=60)
        subprocess.run(["mount", "-o", "loop", disk, self.state], check=True, timeout=60)
        os.rmdir(os.path.join(self.state, "lost+found"))

    # --- the server ---

    def start(self, *more, keep=True, **popen):
        assert self.server is None or self.server.proc.poll() is not None
        self.server = Server("--port", str(PORT), "--config", "/dev/null", *self.options, *more, state=self.state,
                             keep=keep, key=self.key, stderr=self.log, **self.popen, **popen)
        return self.server

    def kill(self, *victims):
        """As the kernel would: of "server", "runner" and ids of sandboxes, in this order."""
        runner = self.runner() if "runner" in victims else None
        for victim in victims:
            pid = self.server.pid if victim == "server" else runner if victim == "runner" \
                else self.instance.first_process(victim)
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        if "server" in victims:
            self.server.kill()

    def runner(self):
        return self.instance.program("opensandbox-runner")

    def stop(self):
        """SIGTERM; the exit code."""
        return self.server.stop() if self.server else 0

    def ready(self):
        until(lambda: self.server.call("GET", "/readyz").status == 200, "the server to be ready", 60)

    # --- the end ---

    def close(self):
        """Take everything down and look whether anything stays; raises if so."""
        if self.server is None or self.server.proc.poll() is not None:
            self.start(keep=False)
        else:
            self.stop()
            self.start(keep=False)
        self.ready()
        code = self.stop()
        assert code == 0, f"the server ended with {code}"
        self.instance.gone()
        self.remove()

    def remove(self):
        """Whatever is left, by force: after a failure nothing may stay either."""
        if self.server and self.server.proc.poll() is None:
            self.server.kill()
        take_down(self.instance)
        for _ in range(self.mounts):
            subprocess.run(["umount", "-l", self.state], check=False, timeout=60)
        shutil.rmtree(self.state, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            try:
                self.close()
            except BaseException:
                self.remove()
                raise
        else:
            self.remove()

    # --- hardship ---

    def fill_disk(self):
        """Leave no room; the path of the ballast, which its removal gives back."""
        path = os.path.join(self.state, "ballast")
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            for piece in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
                try:
                    while True:
                        at = os.lseek(fd, 0, os.SEEK_END)
                        os.posix_fallocate(fd, at, piece)
                except OSError:
                    continue
        finally:
            os.close(fd)
        return path


__all__ = ["BUILD", "Stage", "enter", "json", "os", "signal", "skip", "until"]
