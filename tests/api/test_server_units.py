#!/usr/bin/env python3
"""The two programs apart from each other, as the units in deploy/systemd start them: the runner as root with the
server's group, the server as a user of its own. What the units say is read from them; only places are others."""
# timeout: 300

import configparser
import errno
import shlex
import socket
import subprocess

from harness import DEADLINE, case, run_cases
from serverlib import BUILD, Server, clean_env, os, shutil, signal, sys, tempfile, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNITS = os.path.join(ROOT, "deploy", "systemd")
USER, STRANGER = 61001, 61002  # numbers that nobody needs to have


def unit(name):
    """The section [Service]; of a key that is there twice, the last."""
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    with open(os.path.join(UNITS, name), encoding="utf-8") as f:
        parser.read_file(f)
    return parser["Service"]


class Host:
    """The places that the units name, below a directory of our own."""

    def __init__(self):
        self.top = tempfile.mkdtemp(prefix="osb-units-", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.places = {"/usr/local/bin/": self.top + "/bin/", "/var/lib/opensandbox": self.top + "/state",
                       "/run/opensandbox": self.top + "/run", "/etc/opensandbox": self.top + "/etc"}
        for place in self.places.values():
            os.mkdir(place.rstrip("/"), 0o755)
        for program in ("opensandbox-server", "opensandbox-runner", "execd"):
            shutil.copy2(os.path.join(BUILD, program), self.top + "/bin")
        self.state, self.config = self.top + "/state", self.top + "/etc/server.toml"
        runner, server = unit("opensandbox-runner.service"), unit("opensandbox-server.service")
        assert (runner.get("User", "root"), runner["Group"]) == ("root", server["Group"])
        assert runner["StateDirectory"] == "opensandbox" and server["User"] not in ("root", "0")
        os.chown(self.state, 0, USER)
        for name in server["StateDirectory"].split():
            place = os.path.join(self.state, name.removeprefix("opensandbox/"))
            os.mkdir(place, int(server["StateDirectoryMode"], 8))
            os.chown(place, USER, USER)
        with open(self.config, "w", encoding="ascii") as f:
            f.write("[server]\nport = 0\n")
        self.socket, self.log = self.top + "/run/runner.sock", self.top + "/log"
        self.runner = None

    def command(self, service):
        words = shlex.split(service["ExecStart"])
        for there, here in self.places.items():
            words = [w.replace(there, here, 1) if w.startswith(there) else w for w in words]
        return words

    def start_runner(self):
        with open(self.log, "wb") as log:
            self.runner = subprocess.Popen(self.command(unit("opensandbox-runner.service")), env=clean_env(),
                                           group=USER, extra_groups=[], stderr=log)
        until(self.is_ready, "the runner to be ready")

    def is_ready(self):
        with open(self.log, encoding="utf-8") as log:
            text = log.read()
        assert self.runner.poll() is None, text
        return "runner ready" in text

    def server(self):
        program, *words = self.command(unit("opensandbox-server.service"))
        return Server(*words, state=self.state, keep=True, path=program, user=USER, group=USER, extra_groups=[])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.runner is not None:
            self.runner.terminate()
            self.runner.wait(30)
        shutil.rmtree(self.top)


@case
def the_units_work_together():
    with Host() as host:
        host.start_runner()
        with host.server() as server:
            until(lambda: server.call("GET", "/readyz").status == 200, "the server to be ready")
            sandbox = server.make(volumes=[{"name": "v", "pvc": {"claimName": "v"}, "mountPath": "/data"}])
            assert server.run(sandbox, "echo kept > /data/file; cat /data/file") == "kept"
            # the runner is killed and started again, as Restart= does
            host.runner.send_signal(signal.SIGKILL)
            host.runner.wait()
            until(lambda: server.call("GET", "/readyz").status == 503, "the server to notice")
            assert server.run(sandbox, "cat /data/file") == "kept"
            host.start_runner()
            until(lambda: server.call("GET", "/readyz").status == 200, "the server to find the next one")
        with host.server() as server:
            until(lambda: server.call("GET", "/readyz").status == 200, "the server to be ready")
            assert server.run(sandbox, "cat /data/file") == "kept"
            assert server.delete(sandbox).status == 204
        assert os.listdir(host.state + "/sandboxes") == []


def kept(path, uid, gid, groups):
    """Does the runner keep such a one's connection? The errno if the file is closed to him."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            os.setgroups(groups)
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as s:
                s.connect(path)
                s.settimeout(DEADLINE)
                code = 0 if s.recv(10) else 1
        except TimeoutError:  # it waits for a request of his
            code = 2
        except OSError as e:
            code = e.errno
        finally:
            os._exit(code)
    return {1: False, 2: True}.get(code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), code)


@case
def strangers_do_not_reach_the_runner():
    with Host() as host:
        host.start_runner()
        assert kept(host.socket, STRANGER, STRANGER, []) == errno.EACCES
        # a supplementary group opens the file, and the runner asks for more
        assert kept(host.socket, STRANGER, STRANGER, [USER]) is False


@case
def options_of_the_units_exist():
    for name in ("opensandbox-runner.service", "opensandbox-server.service", "user/opensandbox-server.service"):
        program, *words = shlex.split(unit(name)["ExecStart"])
        text = subprocess.run([os.path.join(BUILD, os.path.basename(program)), "--help"], stdout=subprocess.PIPE,
                              text=True, check=True).stdout
        for word in words:
            assert not word.startswith("--") or word + " " in text, (name, word)


if __name__ == "__main__":
    sys.exit(1 if run_cases(sys.argv[1] if len(sys.argv) > 1 else None) else 0)
