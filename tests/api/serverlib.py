"""What the tests of opensandbox-server share: a live server on a state directory of its own."""

import atexit
import datetime
import json
import os
import shutil
import signal
import sys
import tempfile
import urllib.parse

from harness import BUILD, Program, Reader, request, skip, until

if os.geteuid() != 0:
    skip("sandboxes are made by root here; run as root")
for _needed in ("opensandbox-server", "opensandbox-runner", "execd"):
    if not os.access(os.path.join(BUILD, _needed), os.X_OK):
        skip(f"{_needed} is not built")

KEEP = ["tail", "-f", "/dev/null"]
_states = []


def new_state():
    """A state directory; whatever a failed test leaves in it goes when the program ends."""
    _states.append(tempfile.mkdtemp(prefix="osb-server-"))
    return _states[-1]


def remove_state(state):
    """After the last server: what it had set aside is still being swept for a moment."""
    until(lambda: os.listdir(os.path.join(state, "trash")) == [], "the trash to be emptied")
    shutil.rmtree(state)


@atexit.register
def _sweep():
    for state in filter(os.path.isdir, _states):
        try:
            Server(state=state).stop()
        except (RuntimeError, OSError) as e:
            print(f"# {state} could not be swept: {e}")
        shutil.rmtree(state, ignore_errors=True)


def clean_env(**more):
    env = {k: v for k, v in os.environ.items()
           if not k.startswith(("OPENSANDBOX_", "OPEN_SANDBOX_", "SANDBOX_"))}
    return {**env, "HOME": "/nonexistent", **more}


def children(pid):
    """Child processes; none if it is gone."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(child) for child in f.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


class Answer:
    def __init__(self, reply):
        self.status, self.reply, self.body = reply.status, reply, reply.body

    @property
    def json(self):
        return json.loads(self.body)

    def get(self, name):
        return self.reply.get(name)


class Server(Program):
    """A server; `state` may be that of a former one. Sandboxes end with it unless keep=True."""

    def __init__(self, *args, state=None, keep=False, env=None, key=None, **popen):
        self.state = state or new_state()
        self.own_state, self.key, self.killed = state is None, key, False
        more = {"OPENSANDBOX_SERVER_API_KEY": key} if key else {}
        options = ["--port", "0", "--state-dir", self.state, "--log-level", "warn",
                   *os.environ.get("OSB_SERVER_OPTIONS", "").split()]
        super().__init__("opensandbox-server", *options, *([] if keep else ["--kill-on-exit"]),
                         *args, env=clean_env(**more, **(env or {})), **popen)

    def __exit__(self, *_):
        code = self.stop()
        if self.own_state:
            shutil.rmtree(self.state, ignore_errors=True)
        if _[0] is None and not self.killed:
            assert code == 0, f"the server ended with {code}"

    def call(self, method, path, body=None, fields=(), key=True, raw=None, sock=None):
        fields = list(fields)
        data = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        if body is not None:
            fields.append(("Content-Type", "application/json"))
        if key and self.key:
            fields.append(("OPEN-SANDBOX-API-KEY", self.key))
        return Answer(request(self, method, path, data, fields, sock=sock))

    def create(self, **more):
        body = {"image": {"uri": "host"}, "entrypoint": KEEP,
                "resourceLimits": {"memory": "256Mi"}, "timeout": 600}
        body.update(more)
        return self.call("POST", "/v1/sandboxes",
                         {k: v for k, v in body.items() if v is not ...})

    def make(self, **more):
        """A sandbox that is there; its id."""
        a = self.create(**more)
        assert a.status == 202, (a.status, a.body)
        assert a.json["status"]["state"] == "Running", a.json
        return a.json["id"]

    def info(self, sandbox, query=""):
        return self.call("GET", f"/v1/sandboxes/{sandbox}{query}")

    def state_of(self, sandbox):
        a = self.info(sandbox, "?includeTerminated=true")
        return a.json["status"]["state"] if a.status == 200 else a.status

    def delete(self, sandbox):
        return self.call("DELETE", f"/v1/sandboxes/{sandbox}")

    def endpoint(self, sandbox, port=44772):
        """(path below this server, headers)"""
        a = self.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/{port}")
        assert a.status == 200, (a.status, a.body)
        return "/" + a.json["endpoint"].split("/", 1)[1], list(a.json.get("headers", {}).items())

    def execd(self, sandbox, method, path, body=None, **more):
        prefix, headers = self.endpoint(sandbox)
        return self.call(method, prefix + path, body, fields=headers, **more)

    def run(self, sandbox, command):
        """Standard output of a command; fails if the command does."""
        a = self.execd(sandbox, "POST", "/command", {"command": command})
        assert a.status == 200, (a.status, a.body)
        events = [json.loads(line) for line in a.body.decode().split("\n\n") if line.strip()]
        assert any(e["type"] == "execution_complete" for e in events), events
        return "\n".join(e["text"] for e in events if e["type"] == "stdout")

    def list(self, **query):
        a = self.call("GET", "/v1/sandboxes?" + urllib.parse.urlencode(query, doseq=True))
        assert a.status == 200, (a.status, a.body)
        return a.json

    def runner_pid(self):
        """The runner of this server, a child of its keeper."""
        for keeper in children(self.pid):
            for runner in children(keeper):
                return runner
        return None

    def kill(self):
        """As the kernel would."""
        self.killed = True
        self.signal(signal.SIGKILL)
        return self.wait()


def soon(seconds):
    """A time from now on, as the API takes it."""
    at = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.isoformat().replace("+00:00", "Z")


def is_error(answer, status, code):
    assert answer.status == status, (answer.status, answer.body)
    assert answer.json["code"] == code, answer.json
    assert isinstance(answer.json["message"], str) and answer.json["message"], answer.json
    assert answer.get("Content-Type") == "application/json", answer.reply.fields
    assert answer.get("X-Request-ID"), answer.reply.fields


__all__ = ["Answer", "BUILD", "KEEP", "Reader", "Server", "children", "clean_env", "is_error",
           "json", "new_state", "os",
           "request", "shutil", "signal", "skip", "soon", "sys", "tempfile", "until"]
