"""What the attempts to get out share: a canary outside, the product as it is served (server, gateway, runner, execd),
the runner alone with a stand-in as PID 1, and a table of results by case name.

A case is a function called `E01_words` or `R01_words`; the names are those of catalog.py. It holds if it returns. Where
the kernel lacks what a case needs it raises Lacks with the feature's name; nothing else excuses a case from running.

An attempt is made as the sandbox's root and as an ordinary user: `for uid in users()`, or the helpers called tries;
attempts.py sees to it."""

import atexit
import os
import re
import shutil
import socket
import sys
import tempfile
import traceback
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
for _room in ("runtime", "api"):
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), _room))

# pylint: disable=wrong-import-position
import boxes  # noqa: E402
import attempts  # noqa: E402
from attempts import users  # noqa: E402
from harness import BUILD, Reader, skip, until  # noqa: E402
from stage import enter  # noqa: E402

PROBE = os.path.join(BUILD, "tests", "escape", "probe")
PROBE_INSIDE = "/opt/probe"

_cases = []


class Lacks(Exception):
    """This kernel has no such feature, so there is nothing to attack."""


class TooSmall(Exception):
    """This machine has not got what the case takes. That is a failure, since the case did not run."""


def case(function):
    assert re.fullmatch(r"[ERX]\d\d_\w+", function.__name__), function.__name__
    _cases.append(function)
    return function


def main():
    """Run all cases, or those that the arguments name by their beginnings."""
    failed, only = 0, tuple(sys.argv[1:])
    for function in _cases:
        if only and not function.__name__.startswith(only):
            continue
        attempts.begin()
        try:
            function()
            print(f"ok {function.__name__} # {attempts.who_tried(function.__name__)}", flush=True)
        except Lacks as e:
            print(f"skip {function.__name__} the kernel lacks {e}", flush=True)
        except TooSmall as e:
            print(f"not ok {function.__name__} # not run: this machine has not got {e}", flush=True)
            failed = 1
        except Exception as e:  # pylint: disable=broad-except
            traceback.print_exc()
            print(f"not ok {function.__name__} # {type(e).__name__}", flush=True)
            failed = 1
    sys.exit(failed)


def setup():
    """Leave the machine's network and mounts. Before the first thread is made."""
    if os.geteuid() != 0:
        skip("needs root")
    enter()


class Canary:
    """Something outside that is there for the taking, were it not for the sandbox."""

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="osb-canary-", dir="/var/tmp")
        os.chmod(self.dir, 0o777)
        self.path = os.path.join(self.dir, "canary")
        self.secret = "canary-" + os.urandom(8).hex()
        with open(self.path, "w", encoding="ascii") as f:
            f.write(self.secret)
        os.chmod(self.path, 0o666)
        self.before = self.look()
        return self

    def look(self):
        st = os.stat(self.path)
        with open(self.path, encoding="ascii") as f, open("/proc/sys/kernel/core_pattern", encoding="ascii") as core:
            return (f.read(), st.st_mtime_ns, st.st_mode, st.st_uid, st.st_ino, sorted(os.listdir(self.dir)),
                    core.read(), socket.gethostname())

    def check(self, output=""):
        assert self.look() == self.before, "the canary was touched"
        assert self.secret not in output, "the canary's secret was told"

    def __exit__(self, *_):
        shutil.rmtree(self.dir)


def held(uid, code, output):
    """The probe tried something, and all of it was refused."""
    assert code == 0 and "refused" in output and "WORKED" not in output, f"as {uid}: exit code {code}\n{output}"


# --- the product ---

class Product:
    """A live server with sandboxes made through its API; commands run below a real execd."""

    def __init__(self, *options, key="key-" + os.urandom(12).hex(), state=None, stderr=None):
        from serverlib import Server
        self.server = Server(*options, key=key, state=state, stderr=stderr)
        self.key = key

    def box(self, **more):
        """A sandbox with the probe in it."""
        box = self.server.make(**more)
        with open(PROBE, "rb") as f:
            self.upload(box, PROBE_INSIDE, f.read(), 755)
        return box

    def upload(self, box, path, data, mode=644):
        self.upload_pieces(box, path, len(data), [data], mode)

    def upload_pieces(self, box, path, size, pieces, mode=644):
        """What the pieces are together, without having it together."""
        mark = uuid.uuid4().hex
        begin = (f'--{mark}\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n'
                 f'Content-Type: application/json\r\n\r\n{{"path":"{path}","mode":{mode}}}\r\n--{mark}\r\n'
                 f'Content-Disposition: form-data; name="file"; filename="f"\r\n\r\n').encode()
        end = f"\r\n--{mark}--\r\n".encode()
        with self.asked(box, "POST", "/files/upload", [("Content-Type", f"multipart/form-data; boundary={mark}"),
                                                       ("Content-Length", len(begin) + size + len(end))]) as s:
            s.sendall(begin)
            for piece in pieces:
                s.sendall(piece)
            s.sendall(end)
            answer = Reader(s).reply()
        assert answer.status == 200, (answer.status, answer.body)

    def asked(self, box, method, path, fields=()):
        """A connection on which the head of a request to execd was sent."""
        prefix, headers = self.server.endpoint(box)
        s = self.server.connect()
        lines = [f"{method} {prefix}{path} HTTP/1.1", f"Host: {self.server.host}",
                 *(f"{name}: {value}" for name, value in [*headers, *fields]), "", ""]
        s.sendall("\r\n".join(lines).encode())
        return s

    def run(self, box, command, uid=0):
        """(exit code, output and errors)"""
        import json
        answer = self.server.execd(box, "POST", "/command", {"command": command, "uid": uid})
        assert answer.status == 200, (answer.status, answer.body)
        events = [json.loads(line) for line in answer.body.decode().split("\n\n") if line.strip()]
        text = "\n".join(e["text"] for e in events if e["type"] in ("stdout", "stderr"))
        last = events[-1]
        return (0 if last["type"] == "execution_complete" else int(last["error"]["evalue"])), text

    def probe(self, box, name, *args, uid=0):
        return self.run(box, " ".join([PROBE_INSIDE, name, *args]), uid)

    def tries(self, name, *args, box=None):
        """One attempt of the probe, as root and as uid 1000; the sandbox lives on."""
        own = box is None
        box = box or self.box()
        outputs = []
        with Canary() as c:
            for uid in users():
                code, out = self.probe(box, name, *(a.replace("CANARY", c.path) for a in args), uid=uid)
                held(uid, code, out)
                c.check(out)
                outputs.append(out)
        assert self.run(box, "echo alive") == (0, "alive")
        if own:
            self.server.delete(box)
        return outputs

    def first_process(self, box):
        """PID 1 of a sandbox, seen from here."""
        from census import Instance
        return Instance(self.server.state).first_process(box)

    def close(self):
        self.server.stop()
        shutil.rmtree(self.server.state, ignore_errors=True)


_product = []


def product():
    """The one of this program, started when first needed."""
    if not _product:
        _product.append(Product())
        atexit.register(_product[0].close)
    return _product[0]


# --- the runner alone ---

def probe_in(runner, box, name, *args, uid=0):
    return runner.run(box, "probe", name, *args, uid=uid, program=PROBE)


def tries_in(runner, box, name, *args):
    for uid in users():
        code, out = probe_in(runner, box, name, *args, uid=uid)
        held(uid, code, out)
    return out


def layer(runner, name):
    """An empty image layer; its path."""
    path = os.path.join(runner.state, "layers", name)
    os.makedirs(path)
    return path


def volume(runner, name):
    path = os.path.join(runner.state, "volumes", name)
    os.makedirs(path)
    return path


def nobody_came(*listeners):
    """No connection and no datagram has arrived."""
    for s in listeners:
        s.settimeout(0)
        try:
            if s.type == socket.SOCK_DGRAM:
                s.recv(100)
            else:
                s.accept()
            raise AssertionError(f"somebody came through to {s.getsockname()}")
        except BlockingIOError:
            pass


__all__ = ["BUILD", "Canary", "Lacks", "PROBE", "PROBE_INSIDE", "Product", "Reader", "TooSmall", "boxes", "case",
           "held", "layer", "main", "nobody_came", "os", "probe_in", "product", "setup", "shutil", "socket", "tempfile",
           "tries_in", "until", "users", "volume"]
