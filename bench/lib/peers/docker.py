"""Docker with a daemon of our own, on runc and on gVisor."""

import os
import subprocess

import memory
import rootfs

from .cli import Cli
from .common import CGROUP, end, need, quiet, tidy, wait_for

BRIDGE, SUBNET = f"osbb{os.getpid()}", f"172.31.{os.getpid() % 250}.1/24"
IMAGE = "bench:1"


class Dockerd:
    """A daemon beside whatever runs on the machine: own data, own bridge, no firewall rules."""

    def __init__(self, directory):
        need("dockerd", "docker")
        base = os.path.join(directory, "docker")
        os.makedirs(base)
        self.env = dict(os.environ, DOCKER_HOST="unix://" + os.path.join(base, "sock"))
        runtimes = []
        for name, network in ((Runsc.runtime, "none"), (Runsc.networked, "sandbox")):
            wrapper = os.path.join(base, name)
            with open(wrapper, "w", encoding="ascii") as out:  # dockerd's option takes no arguments for a runtime
                out.write(f'#!/bin/sh\nexec runsc --platform=ptrace --network={network} --ignore-cgroups "$@"\n')
            os.chmod(wrapper, 0o755)
            runtimes += ["--add-runtime", f"{name}={wrapper}"]
        quiet(["ip", "link", "add", BRIDGE, "type", "bridge"])
        self.log = open(os.path.join(base, "log"), "wb")
        self.proc = None
        try:
            quiet(["ip", "address", "add", SUBNET, "dev", BRIDGE])
            quiet(["ip", "link", "set", BRIDGE, "up"])
            self.proc = subprocess.Popen(
                ["dockerd", "--data-root", base + "/data", "--exec-root", base + "/exec", "--pidfile", base + "/pid",
                 "-H", self.env["DOCKER_HOST"], "--bridge", BRIDGE, "--iptables=false", "--ip6tables=false",
                 "--cgroup-parent", CGROUP, *runtimes], stdout=self.log, stderr=self.log)
            wait_for(self._answers, "dockerd answers")
            self.docker("import", rootfs.tarball(), IMAGE)
        except Exception:
            self.stop()
            raise

    def docker(self, *args):
        return quiet(["docker", *args], env=self.env)

    def _answers(self):
        if self.proc.poll() is not None:
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                raise RuntimeError("dockerd ended: " + log.read().strip().rsplit("\n", 1)[-1][-300:])
        return subprocess.run(["docker", "info"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def _children(self):
        """name -> pids"""
        found = {}
        for pid in memory.children(self.proc.pid):
            found.setdefault(memory.program(pid), []).append(pid)
        return found

    def daemons(self):
        return {"dockerd": self.proc.pid, "containerd": self._children()["containerd"][0]}

    def processes(self):
        """Of all that live: the shims, what is below them, and the proxies of their ports."""
        names = self.docker("ps", "-q").split()
        first = self.docker("inspect", "--format", "{{.State.Pid}}", *names).split() if names else []
        shims = [memory.parent(int(pid)) for pid in first]
        return [pid for shim in shims for pid in memory.tree(shim)] + self._children().get("docker-proxy", [])

    def stop(self):
        if self.proc:
            names = subprocess.run(["docker", "ps", "-aq"], env=self.env, stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, check=False).stdout.split()
            if names:
                tidy(["docker", "rm", "-f", *names], env=self.env)
            end(self.proc)
        self.log.close()
        tidy(["ip", "link", "delete", BRIDGE])


class Docker(Cli):
    """Ports are published through docker-proxy, since the daemon writes no firewall rules."""

    name = "docker"
    runtime = "runc"
    program = ["docker"]
    image = [IMAGE]

    def __init__(self, daemon):
        self.env, self.options = daemon.env, ["--runtime", self.runtime]
        self.processes, self.daemons = daemon.processes, daemon.daemons
        self.once(["true"])


class Runsc(Docker):
    name = "docker with gVisor"
    runtime, networked = "runsc", "runsc-networked"

    def __init__(self, daemon):
        need("runsc")
        super().__init__(daemon)

    def open(self, ports):
        self.options = ["--runtime", self.networked]
        try:
            return super().open(ports)
        finally:
            self.options = ["--runtime", self.runtime]
