"""`podman run` on a directory, without a daemon."""

import os

import memory

from .cli import Cli
from .common import CGROUP, need, tidy


NAMES = "/run/netns"


class Podman(Cli):
    """Limits of open files and processes are given, because its defaults ask for more than a root without
    CAP_SYS_RESOURCE may have; runc, because crun refuses hybrid cgroups."""

    name = "podman"
    options = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", "--cgroup-parent", CGROUP]
    remove = ["rm", "-f", "-t", "0"]
    published = "slirp4netns:port_handler=rootlesskit"  # any other takes rules in the machine's firewall

    def __init__(self, directory, root):
        need("podman", "runc")
        self.image, self.had_names = ["--rootfs", root], os.path.ismount(NAMES)
        self.base = os.path.join(directory, "podman")
        self.env = dict(os.environ, TMPDIR=directory)  # it leaves there what it has copied
        self.program = ["podman", "--root", self.base, "--runroot", self.base + "-run", "--cgroup-manager", "cgroupfs",
                        "--events-backend", "none", "--runtime", "runc"]
        try:
            self.once(["true"])
        except Exception:
            self.stop()
            raise

    def open(self, ports):
        need("slirp4netns")
        return super().open(ports)

    def processes(self):
        """The monitors, and what is below them."""
        names = self._call("ps", "-q").split()
        monitors = self._call("inspect", "--format", "{{.State.ConmonPid}}", *names).split() if names else []
        return [pid for monitor in monitors for pid in memory.tree(int(monitor))]

    def stop(self):
        """It leaves its storage mounted on itself, and the place for names of networks."""
        tidy([*self.program, *self.remove, "--all"])
        tidy(["umount", "-l", os.path.join(self.base, "overlay")])
        if not self.had_names and os.path.ismount(NAMES) and not os.listdir(NAMES):
            tidy(["umount", NAMES])
