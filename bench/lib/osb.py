"""The least of a client: raw HTTP over kept-alive connections, so that what is measured is the server."""

import http.client
import json
import os
import re
import shutil
import subprocess
import tempfile

from report import BUILD

KEY = "bench"
CREATE = {"image": {"uri": "host"}, "entrypoint": ["tail", "-f", "/dev/null"],
          "resourceLimits": {"cpu": "1", "memory": "256Mi"}, "timeout": 3600}


class Server:
    """A server of its own on the native runtime."""

    def __init__(self, *args):
        self.state = tempfile.mkdtemp(prefix="osb-bench-")
        self.proc = subprocess.Popen(
            [os.path.join(BUILD, "opensandbox-server"), "--state-dir", self.state, "--port", "0",
             "--kill-on-exit", "--log-level", "error", *args],
            stdout=subprocess.PIPE, env=dict(os.environ, OPENSANDBOX_SERVER_API_KEY=KEY))
        line = self.proc.stdout.readline().decode()
        self.port = int(re.search(r":(\d+)\s*$", line).group(1))

    @property
    def pid(self):
        return self.proc.pid

    def client(self):
        return Client(self.port)

    def stop(self):
        self.proc.terminate()
        code = self.proc.wait(120)
        shutil.rmtree(self.state, ignore_errors=True)
        return code


class Client:
    """One connection."""

    def __init__(self, port):
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.headers = {"OPEN-SANDBOX-API-KEY": KEY, "Content-Type": "application/json"}

    def call(self, method, path, body=None, headers=None, want=None):
        self.http.request(method, path, json.dumps(body) if body is not None else None,
                          headers or self.headers)
        answer = self.http.getresponse()
        data = answer.read()
        if want is not None and answer.status != want:
            raise RuntimeError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data

    def create(self, **changes):
        return json.loads(self.call("POST", "/v1/sandboxes", {**CREATE, **changes}, want=202))["id"]

    def delete(self, sandbox):
        self.call("DELETE", f"/v1/sandboxes/{sandbox}", want=204)

    def token(self, sandbox):
        data = self.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/44772", want=200)
        return json.loads(data)["headers"]

    def run(self, sandbox, headers, command="true"):
        data = self.call("POST", f"/sandboxes/{sandbox}/proxy/44772/command", {"command": command}, headers,
                         want=200)
        if b"execution_complete" not in data:
            raise RuntimeError(data[-500:])
        return data
