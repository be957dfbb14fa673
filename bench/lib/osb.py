"""Our server under load: started for the benchmark alone, spoken to in raw HTTP so that what is measured is it."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

import drive
from memory import children
from report import BUILD

KEY = "bench"
HEADERS = {"OPEN-SANDBOX-API-KEY": KEY, "Content-Type": "application/json"}
CREATE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
          "resourceLimits": {"cpu": "1", "memory": "256Mi"}, "timeout": 3600}


class Server:
    """A server of its own on the native runtime. With a tarball its sandboxes are made from that, else from the
    machine's own /usr."""

    def __init__(self, tarball=None, config=""):
        self.state = tempfile.mkdtemp(prefix="osb-bench-")
        self.create = dict(CREATE)
        self.program = os.path.join(BUILD, "opensandbox-server")
        if tarball:
            subprocess.run([self.program, "--state-dir", self.state, "image", "import", "bench", tarball], check=True,
                           stdout=subprocess.DEVNULL, timeout=120)
            self.create["image"] = {"uri": "bench"}
        path = os.path.join(self.state, "bench.toml")
        with open(path, "w", encoding="ascii") as out:
            out.write(config)
        self.proc = subprocess.Popen(
            [self.program, "--config", path, "--state-dir", self.state, "--port", "0", "--kill-on-exit",
             "--log-level", "error"], stdout=subprocess.PIPE, env=dict(os.environ, OPENSANDBOX_SERVER_API_KEY=KEY))
        line = self.proc.stdout.readline().decode()
        found = re.search(r":(\d+)\s*$", line)
        if not found:
            raise RuntimeError(f"the server did not start: {line!r}")
        self.address = ("127.0.0.1", int(found.group(1)))

    @property
    def pids(self):
        """The server, and the runner below its keeper."""
        return {"server": self.proc.pid, "runner": children(children(self.proc.pid)[0])[0]}

    def client(self):
        return Client(self.address, self.create)

    def create_flow(self, made):
        """For drive(): a create; `made` gets its id."""
        made.append(json.loads((yield drive.request("POST", "/v1/sandboxes", HEADERS,
                                                     json.dumps(self.create).encode())))["id"])

    def first_result_flow(self, made):
        """For drive(): create, and the result of a first command."""
        yield from self.create_flow(made)
        sandbox = made[-1]  # no other conversation ran since
        answer = yield drive.request("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", HEADERS)
        answer = yield drive.request("POST", f"/sandboxes/{sandbox}/proxy/44772/command",
                                     {**HEADERS, **json.loads(answer)["headers"]}, b'{"command":"true"}')
        if b"execution_complete" not in answer:
            raise drive.Failed(repr(answer[-200:]))

    def delete(self, sandboxes, at_once=16):
        """The milliseconds for all of them."""
        start, queue = time.perf_counter(), list(sandboxes)

        def flow():
            while queue:
                yield drive.request("DELETE", f"/v1/sandboxes/{queue.pop()}", HEADERS)

        _, _, failures = drive.drive(self.address, [flow() for _ in range(min(at_once, len(queue)))], limit=300)
        if failures:
            raise RuntimeError(failures[0])
        return (time.perf_counter() - start) * 1000

    def stop(self):
        self.proc.terminate()
        code = self.proc.wait(300)
        deadline = time.monotonic() + 30
        while os.path.exists(self.state) and time.monotonic() < deadline:
            shutil.rmtree(self.state, ignore_errors=True)  # stops where whoever empties the trash was faster
        return code


class Client:
    """One connection, kept."""

    def __init__(self, address, create=None, headers=None):
        self.sock = socket.create_connection(address, timeout=120)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.body = json.dumps(create or CREATE).encode()
        self.headers = HEADERS if headers is None else headers

    def call(self, method, path, body=b"", headers=None, want=None):
        self.sock.sendall(drive.request(method, path, self.headers if headers is None else headers, body))
        data, whole = bytearray(), None
        while whole is None:
            piece = self.sock.recv(1 << 16)
            if not piece:
                raise RuntimeError(f"{method} {path}: the connection was closed")
            data += piece
            whole = drive.answer(data)
        if want is not None and whole[0] != want:
            raise RuntimeError(f"{method} {path}: {whole[0]} {whole[1][:300]!r}")
        return whole[1]

    def create(self):
        return json.loads(self.call("POST", "/v1/sandboxes", self.body, want=202))["id"]

    def delete(self, sandbox):
        self.call("DELETE", f"/v1/sandboxes/{sandbox}", want=204)

    def token(self, sandbox):
        """What the endpoint's headers add."""
        data = self.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", want=200)
        return {**HEADERS, **json.loads(data)["headers"]}

    def run(self, sandbox, headers, command="true"):
        data = self.call("POST", f"/sandboxes/{sandbox}/proxy/44772/command",
                         json.dumps({"command": command}).encode(), headers, want=200)
        if b"execution_complete" not in data:
            raise RuntimeError(data[-500:])
        return data

    def close(self):
        self.sock.close()


def clock():
    return time.perf_counter() * 1000


def timed(action):
    """The milliseconds of an action."""
    start = clock()
    action()
    return clock() - start
