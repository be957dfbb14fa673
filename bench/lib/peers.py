"""Other ways to get a sandbox, from Debian's packages, started and stopped by the benchmark itself. Their image is
made here from busybox; nothing is pulled. A peer that is not installed or does not work here is reported as absent.
"""

import os
import shutil
import subprocess
import time


def make_rootfs(directory):
    """A root file system with nothing but busybox."""
    root = os.path.join(directory, "rootfs")
    os.makedirs(os.path.join(root, "bin"), exist_ok=True)
    for name in ("proc", "dev", "sys", "tmp", "etc"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    shutil.copy("/usr/bin/busybox", os.path.join(root, "bin", "busybox"))
    for name in ("sh", "true", "sleep", "echo"):
        link = os.path.join(root, "bin", name)
        if not os.path.lexists(link):
            os.symlink("busybox", link)
    return root


def timed(argv, **kwargs):
    """Milliseconds that a command takes."""
    start = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120,
                   **kwargs)
    return (time.perf_counter() - start) * 1000


class Docker:
    """A daemon of our own, with its own data, beside whatever runs on the machine."""

    name = "docker"

    def __init__(self, directory, rootfs):
        base = os.path.join(directory, "docker")
        os.makedirs(base)
        self.socket = "unix://" + os.path.join(base, "sock")
        self.env = dict(os.environ, DOCKER_HOST=self.socket)
        self.network = ["--network", "none"]  # its fastest way; ours has a network
        self.proc = subprocess.Popen(
            ["dockerd", "--data-root", base + "/data", "--exec-root", base + "/exec", "--pidfile",
             base + "/pid", "-H", self.socket, "--bridge", "none", "--iptables=false", "--ip6tables=false"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while subprocess.run(["docker", "info"], env=self.env, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, check=False).returncode != 0:
            if self.proc.poll() is not None or time.monotonic() > end:
                self.stop()
                raise RuntimeError("dockerd does not run here")
        tar = subprocess.Popen(["tar", "-C", rootfs, "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(["docker", "import", "-", "bench:1"], stdin=tar.stdout, env=self.env, check=True,
                       stdout=subprocess.DEVNULL)
        tar.wait()

    def run(self):
        return timed(["docker", "run", "--rm", *self.network, "bench:1", "true"], env=self.env)

    def start_idle(self):
        subprocess.run(["docker", "run", "-d", "--name", "idle", *self.network, "bench:1", "sleep", "100000"],
                       env=self.env, check=True, stdout=subprocess.DEVNULL)

    def execute(self):
        return timed(["docker", "exec", "idle", "true"], env=self.env)

    def stop(self):
        subprocess.run(["docker", "rm", "-f", "idle"], env=self.env, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False)
        self.proc.terminate()
        try:
            self.proc.wait(30)
        except subprocess.TimeoutExpired:
            self.proc.kill()


class Podman:
    name = "podman"

    def __init__(self, directory, rootfs):
        self.rootfs = rootfs
        self.args = ["podman", "--root", directory + "/podman", "--runroot", directory + "/podman-run",
                     "--cgroup-manager", "cgroupfs"]
        try:
            self.run()
        except Exception:
            self.stop()
            raise

    def run(self):
        return timed([*self.args, "run", "--rm", "--network", "none", "--rootfs", self.rootfs, "true"])

    def stop(self):
        # it leaves its storage directory mounted on itself
        subprocess.run(["umount", "-l", self.args[2] + "/overlay"], stderr=subprocess.DEVNULL, check=False)


class Bubblewrap:
    """Not a sandbox platform, but the least that namespaces can cost."""

    name = "bubblewrap"

    def __init__(self, _, rootfs):
        self.rootfs = rootfs
        self.run()

    def run(self):
        return timed(["bwrap", "--unshare-all", "--bind", self.rootfs, "/", "--proc", "/proc", "--dev", "/dev",
                      "/bin/true"])

    def stop(self):
        pass


def available(directory):
    """The peers that work here, and words about those that do not."""
    rootfs = make_rootfs(directory)
    found, absent = [], []
    for kind, program in ((Docker, "dockerd"), (Podman, "podman"), (Bubblewrap, "bwrap")):
        if not shutil.which(program):
            absent.append(f"{kind.name}: not installed")
            continue
        try:
            found.append(kind(directory, rootfs))
        except Exception as error:  # pylint: disable=broad-except
            absent.append(f"{kind.name}: {error}")
    return found, absent
