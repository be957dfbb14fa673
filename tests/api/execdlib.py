"""What the tests of execd's commands share: calls, event streams taken apart, processes looked at."""

import json
import os
import re
import urllib.parse

from harness import Program, Reader, request


def start(*args, env=None, **popen):
    return Program("execd", "--listen", "127.0.0.1:0", *args,
                   env=dict(os.environ, **(env or {})), **popen)


def call(execd, method, target, body=None, fields=(), sock=None):
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    return request(execd, method, target, body or b"", fields, sock)


def target(path, **query):
    return path + "?" + urllib.parse.urlencode(query) if query else path


def error(reply, status, code, *words):
    assert reply.status == status, (reply.status, reply.body)
    assert reply.get("content-type") == "application/json; charset=utf-8", reply.fields
    body = json.loads(reply.body)
    assert body["code"] == code and body["message"], body
    for word in words:
        assert word in body["message"], body
    return body


def empty_ok(reply):
    assert (reply.status, reply.body, reply.get("content-length")) == (200, b"", "0"), \
        (reply.status, reply.body)


class Stream:
    """An event stream read to its end, with the rules every stream keeps checked."""

    def __init__(self, reply):
        assert reply.status == 200, (reply.status, reply.body)
        assert reply.get("content-type") == "text/event-stream", reply.fields
        assert reply.get("cache-control") == "no-cache"
        assert reply.get("x-accel-buffering") == "no"
        assert reply.get("transfer-encoding") == "chunked"
        self.events = parse(reply.body)
        kinds = [event["type"] for event in self.events]
        assert kinds[:2] == ["init", "ping"], kinds[:5]
        assert kinds.count("init") == 1
        ends = [i for i, kind in enumerate(kinds) if kind in ("error", "execution_complete")]
        assert ends == [len(kinds) - 1], kinds[-5:]
        self.id = self.events[0]["text"]
        self.end = self.events[-1]

    def texts(self, kind="stdout"):
        return [event["text"] for event in self.events if event["type"] == kind]

    @property
    def out(self):
        return self.texts("stdout")

    @property
    def err(self):
        return self.texts("stderr")

    @property
    def code(self):
        """As clients infer it."""
        if self.end["type"] == "execution_complete":
            return 0
        value = self.end["error"]["evalue"]
        return int(value) if re.fullmatch(r"-?\d+", value) else None

    @property
    def traceback(self):
        return self.end["error"]["traceback"]

    def ok(self):
        assert self.end["type"] == "execution_complete", self.events[-6:]
        return self


def parse(body):
    """Each event is one line and an empty one; all have a type and a time."""
    text = body.decode("utf-8")
    assert text.endswith("\n\n"), text[-100:]
    lines = text[:-2].split("\n\n")
    events = []
    for line in lines:
        assert line.startswith("{") and line.splitlines() == [line], line[:200]
        event = json.loads(line)
        assert isinstance(event["timestamp"], int) and event["timestamp"] > 1600000000000
        if event["type"] in ("stdout", "stderr"):
            assert event["text"] != ""
        if event["type"] == "error":
            assert isinstance(event["error"]["evalue"], str)
            assert all(isinstance(line, str) for line in event["error"]["traceback"])
        events.append(event)
    return events


def run(execd, command, sock=None, **options):
    return Stream(call(execd, "POST", "/command", dict(command=command, **options), sock=sock))


def open_stream(execd, path, body):
    """Start a stream and return (socket, iterator over its events) with the head read."""
    sock = execd.connect()
    data = json.dumps(body).encode()
    sock.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                 % (path.encode(), len(data)) + data)
    reader = Reader(sock)
    head = reader.head()
    assert head.status == 200, head.status

    def events():
        rest = b""
        for chunk in reader.chunks():
            rest += chunk
            while b"\n\n" in rest:
                line, rest = rest.split(b"\n\n", 1)
                yield json.loads(line)
    return sock, events()


def first(events, kind):
    for event in events:
        if event["type"] == kind:
            return event
    raise AssertionError(f"no {kind} event")


def alive(pid):
    """A zombie is not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]
