"""Other ways to get a sandbox, started and stopped by the benchmark itself, with data of their own in a directory
that goes afterwards. All get the same root file system; nothing is pulled. What is not installed or does not work
here is reported as absent, with the reason.

A peer has a name, first_result() -> milliseconds until the result of a first command, and, where it can, execute()
in a sandbox that is there. Attempts raise when they fail.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.parse

import osb
import rootfs
from report import BUILD, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import clients  # noqa: E402

PUBLIC = "opensandbox-server==1.1.1"
BRIDGE, SUBNET = f"osbb{os.getpid()}", f"172.31.{os.getpid() % 250}.1/24"
LIMIT = 120


def quiet(argv, **kwargs):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT, check=False, **kwargs)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv[:3])}: {done.stdout.strip()[-300:]}")
    return done.stdout.strip()


def timed(argv, **kwargs):
    return osb.timed(lambda: quiet(argv, **kwargs))


def end(proc):
    proc.terminate()
    try:
        proc.wait(30)
    except subprocess.TimeoutExpired:
        proc.kill()
        proc.wait()


def wait_for(condition, what, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {seconds} s: {what}")
        time.sleep(0.01)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise RuntimeError(f"{program} is not installed (make bench PEERS=1 installs the peers)")


class Dockerd:
    """A daemon of our own beside whatever runs on the machine: own data, own bridge, no firewall rules."""

    def __init__(self, directory):
        need("dockerd", "docker")
        base = os.path.join(directory, "docker")
        os.makedirs(base)
        self.env = dict(os.environ, DOCKER_HOST="unix://" + os.path.join(base, "sock"))
        wrapper = os.path.join(base, "runsc")
        with open(wrapper, "w", encoding="ascii") as out:  # dockerd's option takes no arguments for a runtime
            out.write('#!/bin/sh\nexec runsc --platform=ptrace --network=none --ignore-cgroups "$@"\n')
        os.chmod(wrapper, 0o755)
        quiet(["ip", "link", "add", BRIDGE, "type", "bridge"])
        self.log = open(os.path.join(base, "log"), "wb")
        self.proc = None
        try:
            quiet(["ip", "address", "add", SUBNET, "dev", BRIDGE])
            quiet(["ip", "link", "set", BRIDGE, "up"])
            self.proc = subprocess.Popen(
                ["dockerd", "--data-root", base + "/data", "--exec-root", base + "/exec", "--pidfile", base + "/pid",
                 "-H", self.env["DOCKER_HOST"], "--bridge", BRIDGE, "--iptables=false", "--ip6tables=false",
                 "--add-runtime", "runsc=" + wrapper], stdout=self.log, stderr=self.log)
            wait_for(self._answers, "dockerd answers")
            quiet(["docker", "import", rootfs.tarball(), "bench:1"], env=self.env)
        except Exception:
            self.stop()
            raise

    def _answers(self):
        if self.proc.poll() is not None:
            with open(self.log.name, encoding="utf-8", errors="replace") as log:
                raise RuntimeError("dockerd ended: " + log.read().strip().rsplit("\n", 1)[-1][-300:])
        return subprocess.run(["docker", "info"], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def stop(self):
        if self.proc:
            names = subprocess.run(["docker", "ps", "-aq"], env=self.env, stdout=subprocess.PIPE, text=True,
                                   stderr=subprocess.DEVNULL, check=False).stdout.split()
            if names:
                subprocess.run(["docker", "rm", "-f", *names], env=self.env, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, check=False)
            end(self.proc)
        self.log.close()
        subprocess.run(["ip", "link", "delete", BRIDGE], stderr=subprocess.DEVNULL, check=False)


class Docker:
    """`docker run`, without a network, which is its fastest way; ours has one."""

    name = "docker"
    runtime = "runc"

    def __init__(self, daemon):
        self.env = daemon.env
        self.args = ["--runtime", self.runtime, "--network", "none"]
        self.idle = "idle-" + self.runtime
        self.first_result()

    def first_result(self):
        return timed(["docker", "run", "--rm", *self.args, "bench:1", "true"], env=self.env)

    def start_idle(self):
        quiet(["docker", "run", "-d", "--name", self.idle, *self.args, "bench:1", "tail", "-f", "/dev/null"],
              env=self.env)

    def execute(self):
        return timed(["docker", "exec", self.idle, "true"], env=self.env)

    def create_and_delete(self):
        start = osb.clock()
        name = quiet(["docker", "run", "-d", *self.args, "bench:1", "tail", "-f", "/dev/null"], env=self.env)
        quiet(["docker", "rm", "-f", name], env=self.env)
        return osb.clock() - start

    def stop(self):
        pass  # the daemon's end is theirs


class Runsc(Docker):
    name = "docker with gVisor"
    runtime = "runsc"

    def __init__(self, daemon):
        need("runsc")
        super().__init__(daemon)


class Podman:
    """`podman run` on a directory. Limits of open files and processes are given, because its defaults ask for more
    than a root without CAP_SYS_RESOURCE may have; runc, because crun refuses hybrid cgroups."""

    name = "podman"

    def __init__(self, directory, root):
        need("podman", "runc")
        self.root = root
        self.base = os.path.join(directory, "podman")
        self.args = ["podman", "--root", self.base, "--runroot", self.base + "-run", "--cgroup-manager", "cgroupfs",
                     "--events-backend", "none", "--runtime", "runc"]
        self.run = [*self.args, "run", "--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit",
                    "nproc=1024:1024"]
        try:
            self.first_result()
        except Exception:
            self.stop()
            raise

    def first_result(self):
        return timed([*self.run, "--rm", "--rootfs", self.root, "true"])

    def start_idle(self):
        quiet([*self.run, "-d", "--name", "idle", "--rootfs", self.root, "tail", "-f", "/dev/null"])

    def execute(self):
        return timed([*self.args, "exec", "idle", "true"])

    def stop(self):
        subprocess.run([*self.args, "rm", "-f", "-t", "0", "--all"], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=False, timeout=LIMIT)
        # it leaves its storage directory mounted on itself
        subprocess.run(["umount", "-l", os.path.join(self.base, "overlay")], stderr=subprocess.DEVNULL, check=False)


class Bubblewrap:
    """Not a sandbox platform: no limits, no API, nothing kept. The least that namespaces can cost."""

    name = "bubblewrap (floor)"

    def __init__(self, root):
        need("bwrap")
        self.root = root
        self.first_result()

    def first_result(self):
        return timed(["bwrap", "--unshare-all", "--bind", self.root, "/", "--proc", "/proc", "--dev", "/dev", "true"])

    def stop(self):
        pass


class Public:
    """The public server on Docker. Its daemon for the inside comes only in an image that would have to be pulled,
    so it is given ours: what is measured is its control plane and Docker. Its client asks until the daemon answers."""

    name = "public server on docker"

    def __init__(self, directory, daemon):
        python = clients.python(PUBLIC) if os.environ.get("OSB_BENCH_PEERS") == "1" else clients.installed(PUBLIC)
        if not python:
            raise RuntimeError(f"{PUBLIC} from PyPI is not in the cache (make bench PEERS=1 fetches it)")
        base = os.path.join(directory, "public")
        os.makedirs(base)
        self._execd_image(base, daemon)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = s.getsockname()
        config = os.path.join(base, "config.toml")
        with open(config, "w", encoding="ascii") as out:
            out.write(f'[server]\nhost = "127.0.0.1"\nport = {self.address[1]}\napi_key = "{osb.KEY}"\n'
                      '[log]\nlevel = "ERROR"\n[runtime]\ntype = "docker"\nexecd_image = "bench-execd:1"\n'
                      f'[store]\ntype = "sqlite"\npath = "{base}/db"\n'
                      '[docker]\nnetwork_mode = "bridge"\n[ingress]\nmode = "direct"\n')
        self.create = {**osb.CREATE, "image": {"uri": "bench:1"}}
        self.proc = subprocess.Popen([os.path.join(os.path.dirname(python), "opensandbox-server"), "--config", config],
                                     env=dict(daemon.env, HOME=base), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
        self.idle = None
        try:
            wait_for(lambda: socket.socket().connect_ex(self.address) == 0, "the public server listens")
            self.first_result()
        except Exception:
            self.stop()
            raise

    @staticmethod
    def _execd_image(base, daemon):
        script = os.path.join(base, "bootstrap.sh")
        with open(script, "w", encoding="ascii") as out:
            out.write('#!/bin/sh\nexec "${EXECD:-/opt/opensandbox/execd}" --port 44772 -- "$@"\n')
        os.chmod(script, 0o755)
        quiet(["docker", "create", "--name", "made", "bench:1", "true"], env=daemon.env)
        for source, target in ((os.path.realpath(os.path.join(BUILD, "execd")), "execd"), (script, "bootstrap.sh")):
            quiet(["docker", "cp", source, f"made:/{target}"], env=daemon.env)
        quiet(["docker", "commit", "made", "bench-execd:1"], env=daemon.env)
        quiet(["docker", "rm", "made"], env=daemon.env)

    def _command(self, target):
        """Until the daemon inside answers."""
        end = time.monotonic() + LIMIT
        while True:
            try:
                client = osb.Client((target.hostname, target.port))
                client.call("POST", target.path + "/command", b'{"command":"true"}', want=200)
                return client
            except (OSError, RuntimeError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.002)

    def _make(self, client):
        sandbox = client.create()
        data = client.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", want=200)
        target = urllib.parse.urlsplit("http://" + json.loads(data)["endpoint"])
        return sandbox, target, self._command(target)

    def first_result(self):
        client = osb.Client(self.address, self.create)
        start = osb.clock()
        sandbox, _, inside = self._make(client)
        took = osb.clock() - start
        client.delete(sandbox)
        inside.close()
        client.close()
        return took

    def start_idle(self):
        self.idle = self._make(osb.Client(self.address, self.create))[1:]

    def execute(self):
        target, client = self.idle
        return osb.timed(lambda: client.call("POST", target.path + "/command", b'{"command":"true"}', want=200))

    def create_and_delete(self):
        client = osb.Client(self.address, self.create)
        return osb.timed(lambda: client.delete(client.create()))

    def stop(self):
        end(self.proc)


class Peers:
    """start() finds all that work here and tells the report why the others do not; stop() ends what was started."""

    def __init__(self, directory, report):
        self.directory, self.report, self.found, self.daemon, self.root = directory, report, [], None, None
        self.no_daemon = None

    def start(self):
        makers = (("docker", lambda: Docker(self._daemon())), ("docker with gVisor", lambda: Runsc(self._daemon())),
                  ("podman", lambda: Podman(self.directory, self._root())),
                  ("public server on docker", lambda: Public(self.directory, self._daemon())),
                  ("bubblewrap (floor)", lambda: Bubblewrap(self._root())))
        for name, make in makers:
            print(f"starting {name}", flush=True)
            try:
                self.found.append(make())
            except Exception as error:  # pylint: disable=broad-except
                self.report.miss(name, str(error).replace(self.directory, "").replace("\n", " "))

    def _daemon(self):
        if self.no_daemon:
            raise self.no_daemon
        try:
            self.daemon = self.daemon or Dockerd(self.directory)
        except Exception as error:
            self.no_daemon = error
            raise
        return self.daemon

    def _root(self):
        self.root = self.root or rootfs.unpack(self.directory)
        return self.root

    def __iter__(self):
        return iter(self.found)

    def stop(self):
        for peer in reversed(self.found):
            peer.stop()
        if self.daemon:
            self.daemon.stop()
