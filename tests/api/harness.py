"""What black-box tests share: programs started and stopped, cases counted, raw sockets.

    from harness import Program, case, main

    @case
    def says_hello():
        assert get("/").status == 200

    with Program("http-demo", "--port", "0") as demo:
        main()

Each case prints `ok NAME` or `not ok NAME`; main() exits accordingly. Nothing here sleeps to wait:
everything waits for an event with a deadline.
"""

import atexit
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
import traceback

BUILD = os.environ.get("OSB_BUILD") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build")
# for anything that should happen at once; generous, because machines are shared
DEADLINE = float(os.environ.get("OSB_DEADLINE_S", "30"))

_cases = []
_running = set()


def case(function):
    """Mark a function as a test case; its name is the case's."""
    _cases.append(function)
    return function


def run_cases(only=None):
    """Run the cases; the number that failed."""
    failed = 0
    for function in _cases:
        if only and not re.search(only, function.__name__):
            continue
        try:
            function()
        except Exception:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {function.__name__}", flush=True)
            print("  " + traceback.format_exc().replace("\n", "\n  "), flush=True)
        else:
            print(f"ok {function.__name__}", flush=True)
    return failed


def main():
    """Run all cases (or those matching the first argument) and leave with the verdict."""
    sys.exit(1 if run_cases(sys.argv[1] if len(sys.argv) > 1 else None) else 0)


def skip(why):
    print(why)
    sys.exit(77)


class Program:
    """A program under test that prints `listening on ADDRESS` when it is ready."""

    def __init__(self, name, *args, env=None, path=None, **popen):
        self.argv = [path or os.path.join(BUILD, name), *map(str, args)]
        self.proc = subprocess.Popen(self.argv, stdout=subprocess.PIPE, env=env, **popen)
        _running.add(self.proc)
        self.url = self.address = self.host = self.port = None
        line = self._read_line()
        found = re.search(r"listening on (\S+)", line)
        if not found:
            self.stop()
            raise RuntimeError(f"{name} did not start: {line!r}")
        self.url = found.group(1)
        hostport = re.match(r"https?://(.*):(\d+)$", self.url)
        if hostport:
            self.host, self.port = hostport.group(1).strip("[]"), int(hostport.group(2))
            self.address = (self.host, self.port)

    def _read_line(self):
        end, line = time.monotonic() + DEADLINE, b""
        while not line.endswith(b"\n") and time.monotonic() < end:
            if select.select([self.proc.stdout], [], [], end - time.monotonic())[0]:
                byte = os.read(self.proc.stdout.fileno(), 1)
                if not byte:
                    break
                line += byte
        return line.decode("utf-8", "replace")

    @property
    def pid(self):
        return self.proc.pid

    def rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def own_kib(self):
        """What no other process of the same program shares; how much of its file is mapped is the cache's mood."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read()).group(1))

    def peak_rss_kib(self):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+)", status.read()).group(1))

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def connect(self, timeout=DEADLINE):
        s = socket.create_connection(self.address, timeout=timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def signal(self, signum):
        self.proc.send_signal(signum)

    def wait(self, timeout=DEADLINE):
        code = self.proc.wait(timeout)
        _running.discard(self.proc)
        return code

    def stop(self):
        """SIGTERM, then SIGKILL; the exit code (sanitizer reports make it non-zero)."""
        if self.proc.poll() is None:
            self.proc.terminate()
            try:
                self.proc.wait(DEADLINE)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        _running.discard(self.proc)
        self.proc.stdout.close()
        return self.proc.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


@atexit.register
def _kill_all():
    for proc in list(_running):
        proc.send_signal(signal.SIGKILL)
        proc.wait()


def sanitized(program):
    """Is it a build with AddressSanitizer? Then its memory is not the program's own."""
    with open(os.path.join(BUILD, program), "rb") as f:
        return b"__asan_init" in f.read()


def until(condition, what, timeout=DEADLINE):
    """Wait for a condition that no descriptor can tell (the state of another process)."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout} s: {what}")
        select.select([], [], [], 0.005)


def read_all(sock):
    data = b""
    while True:
        try:
            piece = sock.recv(1 << 16)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


class Reply:
    """One HTTP answer, taken apart by hand: the tests must not depend on a client's leniency."""

    def __init__(self, status, reason, fields, body):
        self.status, self.reason, self.fields, self.body = status, reason, fields, body

    def get(self, name, default=None):
        for key, value in self.fields:
            if key.lower() == name.lower():
                return value
        return default

    def get_all(self, name):
        return [value for key, value in self.fields if key.lower() == name.lower()]


class Reader:
    """Reads answers off a socket one after the other."""

    def __init__(self, sock):
        self.sock, self.rest = sock, b""

    def _more(self):
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise EOFError("connection closed")
        self.rest += piece

    def until(self, mark):
        while mark not in self.rest:
            self._more()
        found, self.rest = self.rest.split(mark, 1)
        return found

    def exactly(self, n):
        while len(self.rest) < n:
            self._more()
        found, self.rest = self.rest[:n], self.rest[n:]
        return found

    def to_eof(self):
        found, self.rest = self.rest + read_all(self.sock), b""
        return found

    def head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, status, *reason = lines[0].split(" ", 2)
        assert version == "HTTP/1.1", lines[0]
        fields = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:]]
        return Reply(int(status), reason[0] if reason else "", fields, b"")

    def chunks(self):
        """The chunks of a body as they were sent."""
        while True:
            size = int(self.until(b"\r\n"), 16)
            data = self.exactly(size)
            assert self.exactly(2) == b"\r\n"
            if size == 0:
                return
            yield data

    def reply(self, to_head=False):
        r = self.head()
        if to_head or r.status in (204, 304) or r.status < 200:
            pass
        elif r.get("transfer-encoding") == "chunked":
            r.body = b"".join(self.chunks())
        elif r.get("content-length") is not None:
            r.body = self.exactly(int(r.get("content-length")))
        else:
            r.body = self.to_eof()
        return r


def request(program, method, target, body=b"", fields=(), sock=None):
    """One request on a connection of its own (or the given one), read strictly."""
    own = sock is None
    sock = sock or program.connect()
    head = f"{method} {target} HTTP/1.1\r\nHost: {program.host}\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in fields)
    if body or method in ("POST", "PUT", "PATCH"):
        head += f"Content-Length: {len(body)}\r\n"
    sock.sendall(head.encode("latin-1") + b"\r\n" + body)
    try:
        return Reader(sock).reply(to_head=method == "HEAD")
    finally:
        if own:
            sock.close()
