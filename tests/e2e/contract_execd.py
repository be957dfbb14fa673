"""A walk through everything that execd documents, each answer held against api/execd.yaml."""

import json
import os
import signal
import tempfile
import urllib.parse

from harness import Reader, Reply, request, until
import execdlib

TOKEN = "a-token-for-tests"
AUTH = ("X-EXECD-ACCESS-TOKEN", TOKEN)
NOBODY = "00000000-0000-4000-8000-000000000000"


class Walker:
    """Asks, and checks each answer."""

    def __init__(self, api, execd):
        self.api, self.execd = api, execd

    def ask(self, status, method, route, body=None, query=None, fields=(), token=True, **names):
        target = route
        for name, value in names.items():
            target = target.replace("{%s}" % name, str(value))
        if query:
            target += "?" + urllib.parse.urlencode(query, doseq=True)
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        reply = request(self.execd, method, target, data, list(fields) + ([AUTH] if token else []))
        self.api.check(method, route, reply, to_head=method == "HEAD")
        assert reply.status == status, (method, target, reply.status, reply.body)
        return json.loads(reply.body) if reply.body.startswith((b"{", b"[")) and \
            "json" in reply.get("content-type") else reply

    def events(self, route, body, **names):
        """The events of a stream, by what every stream must be."""
        reply = self.ask(200, "POST", route, body, **names)
        events = execdlib.parse(reply.body)
        assert events[0]["type"] == "init", events
        assert events[-1]["type"] in ("error", "execution_complete"), events
        return events


def refused(walker):
    """Who is not let in, and what is not there."""
    for method, path in walker.api.operations():
        walker.ask(401, method, path, token=False, id="x", sessionId="x", contextId="x", port=1, path="files")
    lost = {
        "GET /command/status/{id}": 404, "GET /command/{id}/logs": 400, "DELETE /session/{sessionId}": 404,
        "GET /pty/{sessionId}": 404, "DELETE /pty/{sessionId}": 404, "GET /pty/{sessionId}/ws": 404,
        "GET /code/contexts/{contextId}": 404, "DELETE /code/contexts/{contextId}": 404,
        "GET /v1/isolated/session/{sessionId}": 404, "DELETE /v1/isolated/session/{sessionId}": 404,
        "POST /v1/isolated/session/{sessionId}/run": 404, "GET /v1/isolated/session/{sessionId}/diff": 404,
        "POST /v1/isolated/session/{sessionId}/commit": 404,
    }
    for operation, status in lost.items():
        walker.ask(status, *operation.split(), id=NOBODY, sessionId=NOBODY, contextId=NOBODY)
    for method, path in (("GET", "/no/such/path"), ("PUT", "/ping")):
        reply = request(walker.execd, method, path, fields=[AUTH])
        assert (reply.status, reply.body) == (404, b"404 page not found"), reply.body
    for method, status in (("GET", 301), ("POST", 307)):
        path = "/ping/" if method == "GET" else "/command/"
        reply = request(walker.execd, method, path, fields=[AUTH])
        assert (reply.status, reply.get("location")) == (status, path[:-1]), reply.fields


def health(walker):
    walker.ask(200, "GET", "/ping")
    walker.ask(200, "GET", "/metrics")
    reply = walker.ask(200, "GET", "/logs")
    assert reply.body == b"started\n", reply.body
    assert walker.ask(200, "GET", "/logs", query={"cursor": 3}).body == b"rted\n"
    walker.ask(400, "GET", "/logs", query={"cursor": "x"})
    with execdlib.start() as bare:
        walker.api.check("GET", "/logs", request(bare, "GET", "/logs"))


def watching(walker):
    """A stream without an end: its head and two of its events."""
    with walker.execd.connect() as sock:
        sock.sendall(f"GET /metrics/watch HTTP/1.1\r\nHost: x\r\n{': '.join(AUTH)}\r\n\r\n".encode())
        reader = Reader(sock)
        head, chunks = reader.head(), reader.chunks()
        body = next(chunks) + next(chunks)
        walker.api.check("GET", "/metrics/watch", Reply(head.status, head.reason, head.fields, body))


def commands(walker):
    assert walker.events("/command", {"command": "echo a; echo b >&2"})[-1]["type"] == "execution_complete"
    failed = walker.events("/command", {"command": "exit 3", "envs": {"A": "b"}, "cwd": "/"})
    assert failed[-1]["error"]["evalue"] == "3", failed
    late = walker.events("/command", {"command": "exec tail -f /dev/null", "timeout": 50})
    walker.ask(200, "GET", "/command/status/{id}", id=late[0]["text"])
    for body in (b"", b"[", [], {}, {"command": ""}, {"command": "id", "gid": 1}, {"command": 1},
                 {"command": "id", "cwd": "/no/such"}, {"command": "id", "timeout": -1}):
        walker.ask(400, "POST", "/command", body)
    run = walker.events("/command", {"command": "echo out; exec tail -f /dev/null", "background": True})
    run_id = run[0]["text"]
    assert walker.ask(200, "GET", "/command/status/{id}", id=run_id)["running"] is True
    walker.ask(200, "GET", "/command/{id}/logs", id=run_id, query={"cursor": 0})
    walker.ask(400, "GET", "/command/{id}/logs", id=late[0]["text"])
    walker.ask(200, "DELETE", "/command", query={"id": run_id})
    walker.ask(500, "DELETE", "/command", query={"id": run_id})
    walker.ask(400, "DELETE", "/command")
    assert walker.ask(200, "GET", "/command/status/{id}", id=run_id)["running"] is False


def sessions(walker):
    walker.ask(200, "POST", "/session", {"cwd": "/tmp"})
    walker.ask(400, "POST", "/session", {"cwd": 1})
    name = walker.ask(200, "POST", "/session")["session_id"]
    walker.events("/session/{sessionId}/run", {"command": "X=1; cd /"}, sessionId=name)
    said = walker.events("/session/{sessionId}/run", {"command": "echo $X $PWD"}, sessionId=name)
    assert any(event.get("text") == "1 /" for event in said), said
    walker.ask(400, "POST", "/session/{sessionId}/run", {}, sessionId=name)
    walker.ask(500, "POST", "/session/{sessionId}/run", {"command": "id"}, sessionId=NOBODY)
    walker.ask(200, "DELETE", "/session/{sessionId}", sessionId=name)


def terminals(walker):
    walker.ask(400, "POST", "/pty", {"cwd": 1})
    name = walker.ask(201, "POST", "/pty", {"cwd": "/tmp"})["session_id"]
    walker.ask(200, "GET", "/pty/{sessionId}", sessionId=name)
    path = "/pty/{sessionId}/ws"
    walker.ask(400, "GET", path, sessionId=name)
    shake = [("Connection", "Upgrade"), ("Upgrade", "websocket"),
             ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")]
    walker.ask(426, "GET", path, sessionId=name, fields=shake + [("Sec-WebSocket-Version", "12")])
    with walker.execd.connect() as sock:
        fields = shake + [("Sec-WebSocket-Version", "13"), AUTH]
        lines = "".join(f"{key}: {value}\r\n" for key, value in fields)
        sock.sendall(f"GET /pty/{name}/ws HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        walker.api.check("GET", path, Reader(sock).head())
        walker.ask(409, "GET", path, sessionId=name)
        walker.ask(200, "GET", "/pty/{sessionId}", sessionId=name)
    walker.ask(200, "DELETE", "/pty/{sessionId}", sessionId=name)


def code(walker):
    for body in ({}, {"code": ""}, {"code": "1", "context": []}):
        walker.ask(400, "POST", "/code", body)
    walker.ask(500, "POST", "/code", {"code": "1", "context": {"language": "cobol"}})
    walker.events("/code", {"code": "echo hello"})
    events = walker.events("/code", {"code": "print('hello')\n6 * 7", "context": {"language": "python"}})
    assert [e["results"]["text/plain"] for e in events if e["type"] == "result"] == ["42"], events
    events = walker.events("/code", {"code": "1 / 0", "context": {"language": "python"}})
    assert [e["error"]["ename"] for e in events if e["type"] == "error"] == ["ZeroDivisionError"], events
    walker.ask(400, "POST", "/code/context", {})
    walker.ask(500, "POST", "/code/context", {"language": "cobol"})
    context = walker.ask(200, "POST", "/code/context", {"language": "bash"})["id"]
    walker.ask(200, "GET", "/code/contexts/{contextId}", contextId=context)
    assert len(walker.ask(200, "GET", "/code/contexts")) == 2
    walker.ask(200, "GET", "/code/contexts", query={"language": "bash"})
    walker.ask(200, "DELETE", "/code", query={"id": context})
    walker.ask(400, "DELETE", "/code")
    walker.ask(200, "DELETE", "/code/contexts/{contextId}", contextId=context)
    walker.ask(400, "DELETE", "/code/contexts")
    walker.ask(200, "DELETE", "/code/contexts", query={"language": "python"})


def upload(path, text, **more):
    """(body, fields) of an upload of one file."""
    meta = json.dumps(dict(path=path, **more))
    body = (f'--m\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n{meta}\r\n'
            f'--m\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n{text}\r\n--m--\r\n')
    return body.encode(), [("Content-Type", "multipart/form-data; boundary=m")]


def writing(walker, top):
    body, fields = upload(f"{top}/dir/a.txt", "one\ntwo\nthree\n", mode=640)
    walker.ask(200, "POST", "/files/upload", body, fields=fields)
    walker.ask(400, "POST", "/files/upload", b"", fields=fields)
    walker.ask(500, "POST", "/files/upload", upload("/proc/no/such", "x")[0], fields=fields)
    walker.ask(200, "POST", "/directories", {f"{top}/more": {"mode": 700}, f"{top}/null": None})
    walker.ask(400, "POST", "/directories", [])
    walker.ask(200, "POST", "/files/permissions", {f"{top}/dir/a.txt": {"mode": 600, "owner": None}})
    walker.ask(400, "POST", "/files/permissions", {f"{top}/dir/a.txt": {"mode": "x"}})
    walker.ask(404, "POST", "/files/permissions", {f"{top}/none": {"mode": 600}})
    path = f"{top}/dir/a.txt"
    walker.ask(200, "POST", "/files/replace", {path: {"old": "two", "new": "2"}})
    assert walker.ask(200, "POST", "/files/replace", {path: {"old": "2", "new": "two"}},
                      query={"verbose": "true"}) == {path: {"replacedCount": 1}}
    walker.ask(400, "POST", "/files/replace", {path: {"old": ""}})
    walker.ask(404, "POST", "/files/replace", {f"{top}/none": {"old": "x"}})
    walker.ask(200, "POST", "/files/mv", [{"src": path, "dest": f"{top}/b/a.txt"}])
    walker.ask(404, "POST", "/files/mv", [{"src": path, "dest": f"{top}/c"}])
    walker.ask(400, "POST", "/files/mv", [{"src": path}])


def reading(walker, top):
    path = f"{top}/b/a.txt"
    assert walker.ask(200, "GET", "/files/info", query={"path": [path, top]})[path]["mode"] == 600
    walker.ask(404, "GET", "/files/info", query={"path": f"{top}/none"})
    walker.ask(400, "GET", "/files/info", query={"path": "$NO_SUCH_NAME/x"})
    assert len(walker.ask(200, "GET", "/files/search", query={"path": top, "pattern": "*.txt"})) == 1
    assert len(walker.ask(200, "GET", "/directories/list", query={"path": top, "depth": 2})) == 5
    for listing in ("/files/search", "/directories/list"):
        walker.ask(400, "GET", listing)
        walker.ask(404, "GET", listing, query={"path": f"{top}/none"})
    get = "/files/download"
    reply = walker.ask(200, "GET", get, query={"path": path})
    assert reply.body == b"one\ntwo\nthree\n", reply.body
    assert walker.ask(206, "GET", get, query={"path": path}, fields=[("Range", "bytes=4-6")]).body == b"two"
    assert walker.ask(200, "GET", get, query={"path": path, "offset": 2, "limit": 1}).body == b"two"
    walker.ask(304, "GET", get, query={"path": path},
               fields=[("If-Modified-Since", reply.get("Last-Modified"))])
    walker.ask(200, "GET", get, query={"path": path}, fields=[("Range", "lines=1-2")])
    for wrong in ("bytes=99-", "bytes=x"):
        walker.ask(416, "GET", get, query={"path": path}, fields=[("Range", wrong)])
    walker.ask(400, "GET", get, query={"path": path, "offset": 0})
    walker.ask(400, "GET", get, query={"path": top})
    walker.ask(404, "GET", get, query={"path": f"{top}/none"})


def deleting(walker, top):
    walker.ask(200, "DELETE", "/files", query={"path": [f"{top}/b/a.txt", f"{top}/none"]})
    walker.ask(500, "DELETE", "/files", query={"path": f"{top}/b"})
    walker.ask(400, "DELETE", "/files", query={"path": "$NO_SUCH_NAME"})
    walker.ask(400, "DELETE", "/directories", query={"path": "/"})
    walker.ask(200, "DELETE", "/directories", query={"path": [f"{top}/b", f"{top}/dir"]})
    assert not os.path.exists(f"{top}/b")


def inside_of(pid):
    """The execd of an isolated session: a child, or a child of one."""
    for child in execdlib.children(pid):
        with open(f"/proc/{child}/cmdline", encoding="latin-1") as f:
            if f.read().startswith("execd-inside"):
                return child
        found = inside_of(child)
        if found:
            return found
    return None


def isolated(walker, top):
    assert walker.ask(200, "GET", "/v1/isolated/capabilities")["available"] is True
    base = "/v1/isolated/session"
    walker.ask(400, "POST", base, {})
    request_body = {"workspace": {"path": top, "mode": "overlay"}, "profile": "balanced"}
    name = walker.ask(201, "POST", base, request_body)["session_id"]
    base += "/{sessionId}"
    walker.ask(200, "GET", "/v1/isolated/sessions")
    walker.ask(200, "GET", base, sessionId=name)
    walker.events(base + "/run", {"code": f"echo inside > {top}/new"}, sessionId=name)
    walker.ask(400, "POST", base + "/run", {}, sessionId=name)
    reply = walker.ask(200, "GET", base + "/{path}", sessionId=name, path="files/download",
                       query={"path": f"{top}/new"})
    assert reply.body == b"inside\n" and not os.path.exists(f"{top}/new"), reply.body
    walker.ask(404, "GET", base + "/{path}", sessionId=name, path="command")
    walker.ask(503, "GET", base + "/diff", sessionId=name)
    walker.ask(503, "POST", base + "/commit", sessionId=name)
    os.kill(inside_of(walker.execd.pid), signal.SIGKILL)
    until(lambda: walker.ask(200, "GET", base, sessionId=name)["status"] == "dead", "the session is dead")
    walker.ask(410, "POST", base + "/run", {"code": "id"}, sessionId=name)
    walker.ask(200, "DELETE", base, sessionId=name)


def ports(walker):
    path = "/proxy/{port}/{path}"
    walker.ask(200, "GET", path, port=walker.execd.port, path="ping")
    for method, documented in walker.api.operations():
        if documented == path and method != "HEAD":
            walker.ask(502, method, path, port=1, path="x")
            walker.ask(400, method, path, port=0, path="x")


def walk(api):
    with tempfile.TemporaryDirectory(prefix="osb-contract-") as top, \
            execdlib.start("--access-token", TOKEN, "--", "sh", "-c",
                           "echo started; exec tail -f /dev/null") as execd:
        walker = Walker(api, execd)
        refused(walker)
        health(walker)
        watching(walker)
        commands(walker)
        sessions(walker)
        terminals(walker)
        code(walker)
        writing(walker, top)
        reading(walker, top)
        deleting(walker, top)
        isolated(walker, top)
        ports(walker)


def names(server, prefix, token):
    """Things that exist in a sandbox, for made-up requests to name."""
    def call(method, path, body=None):
        reply = server.call(method, prefix + path, body, fields=token)
        assert reply.status in (200, 201), (path, reply.status, reply.body)
        return reply
    command = call("POST", "/command", {"command": "echo x", "background": True})
    return {
        "id": execdlib.parse(command.body)[0]["text"],
        "sessionId": call("POST", "/session").json["session_id"],
        "contextId": call("POST", "/code/context", {"language": "bash"}).json["id"],
        "port": 44772,
        "path": "/tmp",
    }
