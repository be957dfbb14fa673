"""A walk through everything that the server documents, each answer held against api/lifecycle.yaml."""

import json

from harness import request
from serverlib import KEEP, Server, soon

KEY = "a-key-for-tests"
NOBODY = "00000000-0000-4000-8000-000000000000"
BOX = "/sandboxes/{id}"
SOURCE = {"image": {"uri": "host"}, "entrypoint": KEEP, "resourceLimits": {"memory": "128Mi"}}


# A web server inside that says yes to everything; the command ends when it listens.
SERVICE = """exec 3< <(exec python3 -c '
import http.server, os
class Yes(http.server.BaseHTTPRequestHandler):
    def yes(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = yes
    log_message = print
server = http.server.HTTPServer(("127.0.0.1", 8000), Yes)
print("listening", flush=True)
os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
server.serve_forever()' 2>/dev/null)
read -r word <&3 && [ "$word" = listening ]"""


class Walker:
    """Asks, alternately with and without /v1, and checks each answer."""

    def __init__(self, api, server):
        self.api, self.server, self.count = api, server, 0

    def ask(self, status, method, path, body=None, query="", fields=(), key=KEY, **names):
        fields, data, target = list(fields), b"", path
        for name, value in names.items():
            target = target.replace("{%s}" % name, str(value))
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            if not any(name == "Content-Type" for name, _ in fields):
                fields.append(("Content-Type", "application/json"))
        if key is not None:
            fields.append(("OPEN-SANDBOX-API-KEY", key))
        self.count += 1
        prefix = "/v1" if self.count % 2 else ""
        reply = request(self.server, method, prefix + target + query, data, fields)
        self.api.check(method, path, reply, to_head=method == "HEAD")
        assert reply.status == status, (method, target, query, reply.status, reply.body)
        return json.loads(reply.body) if reply.body.startswith((b"{", b"[")) else reply


def refused(walker):
    """Who is not let in, and what is not there."""
    api, server = walker.api, walker.server
    for method, path in api.operations():
        secured = api.operation(method, path).node.get("security") != [{}]
        if not secured or api.spec["paths"][path].get("x-gateway"):
            continue
        for key, code in ((None, "MISSING_API_KEY"), ("wrong", "INVALID_API_KEY")):
            body = walker.ask(401, method, path, key=key, id=NOBODY, port=1, snapshot="s", pool="p")
            assert body["code"] == code, (method, path, body)
        if "{id}" in path and "501" not in api.operation(method, path)["responses"].node:
            body = b"{}" if method in ("POST", "PATCH") else None
            assert walker.ask(404, method, path, body, id=NOBODY, port=1)["code"] == "SANDBOX::NOT_FOUND"
        if "501" in api.operation(method, path)["responses"].node:
            walker.ask(501, method, path, id=NOBODY, snapshot="s", pool="p")
    for path, item in api.spec["paths"].items():
        if item.get("x-gateway"):
            continue
        target = path.replace("{id}", NOBODY).replace("{port}", "1")
        reply = server.call("PUT" if "put" not in item else "PATCH", target)
        allowed = {method.upper() for method in item if method in ("get", "post", "put", "patch", "delete")}
        assert reply.status == 405, (path, reply.status)
        assert set(reply.get("Allow").split(", ")) == allowed, (path, reply.get("Allow"))
        assert reply.json["code"] == "METHOD_NOT_ALLOWED"
        if "get" in item:
            head, get = server.call("HEAD", target), server.call("GET", target)
            assert (head.status, head.body) == (get.status, b""), (path, head.status)
    assert server.call("GET", "/no/such/path").json["code"] == "NOT_FOUND"
    assert server.call("GET", "/metrics", key=False,
                       fields=[("Authorization", f"Bearer {KEY}")]).status == 200


def itself(walker):
    walker.ask(200, "GET", "/health", key=None)
    walker.ask(200, "GET", "/readyz", key=None)
    walker.ask(200, "GET", "/metrics")
    walker.ask(204, "POST", "/metrics/events", {"eventType": "sandbox.create", "success": True})
    walker.ask(204, "POST", "/metrics/events", b"not json")


def creating(walker):
    """The id of a sandbox, and what cannot be one."""
    wrong = {
        422: [[], {}, {**SOURCE, "timeout": 1}, {**SOURCE, "entrypoint": []}, {**SOURCE, "env": {"A": 1}}],
        400: [{**SOURCE, "resourceLimits": {"memory": "lots"}}, {**SOURCE, "metadata": {"a": "b c"}},
              {**SOURCE, "networkPolicy": {"defaultAction": "deny"}},
              {**SOURCE, "extensions": {"poolRef": "p"}},
              {**SOURCE, "volumes": [{"name": "v", "mountPath": "/v", "host": {"path": "/etc"}}]}],
        404: [{**SOURCE, "image": {"uri": "no-such-image"}},
              {"snapshotId": "s", "resourceLimits": {}, "entrypoint": KEEP}],
    }
    for status, bodies in wrong.items():
        for body in bodies:
            walker.ask(status, "POST", "/sandboxes", body)
    walker.ask(422, "POST", "/sandboxes", b"{}", fields=[("Content-Type", "text/plain")])
    walker.ask(202, "POST", "/sandboxes", {**SOURCE, "extensions": {"idle.timeout.seconds": "600"}})
    return walker.ask(202, "POST", "/sandboxes", {
        **SOURCE, "timeout": 600, "env": {"A": "b", "C": None}, "metadata": {"project": "demo"},
        "volumes": [{"name": "v", "mountPath": "/v",
                     "pvc": {"claimName": "v", "deleteOnSandboxTermination": True}}]})["id"]


def looking(walker, box):
    walker.ask(200, "GET", BOX, id=box)
    listed = walker.ask(200, "GET", "/sandboxes", query="?state=running&metadata=project%3Ddemo")
    assert [item["id"] for item in listed["items"]] == [box], listed
    walker.ask(200, "GET", "/sandboxes", query="?page=7&pageSize=200")
    walker.ask(400, "GET", "/sandboxes", query="?metadata=nonsense")
    walker.ask(422, "GET", "/sandboxes", query="?pageSize=201")
    for kind in ("logs", "events"):
        path = f"{BOX}/diagnostics/{kind}"
        for query in ("", "?scope=all", "?scope=lifecycle", "?scope=process&tail=5&limit=5"):
            walker.ask(200, "GET", path, query=query, id=box)
        walker.ask(400, "GET", path, query="?scope=weather", id=box)
        walker.ask(422, "GET", path, query="?tail=0&limit=0", id=box)
    walker.ask(200, "GET", f"{BOX}/diagnostics/inspect", id=box)
    walker.ask(200, "GET", f"{BOX}/diagnostics/summary", query="?tail=1&event_limit=1", id=box)
    walker.ask(422, "GET", f"{BOX}/diagnostics/summary", query="?event_limit=x", id=box)


def changing(walker, box):
    path = f"{BOX}/metadata"
    patched = walker.ask(200, "PATCH", path, {"team": "a"}, id=box)
    assert patched["metadata"] == {"project": "demo", "team": "a"}, patched
    walker.ask(200, "PATCH", path, {"team": None}, id=box,
               fields=[("Content-Type", "application/merge-patch+json")])
    walker.ask(400, "PATCH", path, {"opensandbox.io/x": "y"}, id=box)
    walker.ask(422, "PATCH", path, {"team": 1}, id=box)
    path = f"{BOX}/renew-expiration"
    walker.ask(200, "POST", path, {"expiresAt": soon(900)}, id=box)
    walker.ask(400, "POST", path, {"expiresAt": "2001-01-01T00:00:00Z"}, id=box)
    walker.ask(422, "POST", path, {"expiresAt": "soon"}, id=box)
    forever = walker.ask(202, "POST", "/sandboxes", SOURCE)
    assert "expiresAt" not in forever, forever
    walker.ask(409, "POST", path, {"expiresAt": soon(900)}, id=forever["id"])


def reaching(walker, box):
    """The gateway: every documented method, and what stops at it."""
    server, path = walker.server, f"{BOX}/endpoints/{{port}}"
    walker.ask(200, "GET", path, id=box, port=8000)
    walker.ask(200, "GET", path, id=box, port=8000, query="?use_server_proxy=true")
    assert "X-EXECD-ACCESS-TOKEN" in walker.ask(200, "GET", path, id=box, port=44772)["headers"]
    for port, query in ((0, ""), (65536, ""), (8000, "?expires=9999999999")):
        walker.ask(400, "GET", path, id=box, port=port, query=query)
    walker.ask(422, "GET", path, id=box, port="http")
    server.run(box, SERVICE)
    path = f"{BOX}/proxy/{{port}}/{{path}}"
    for method, documented in walker.api.operations():
        if documented == path:
            walker.ask(200, method, path, id=box, port=8000, key=None)
            walker.ask(502, method, path, id=box, port=8001, key=None)
            walker.ask(401, method, path, id=box, port=44772, key=None)
            walker.ask(404, method, path, id=NOBODY, port=8000, key=None)
            walker.ask(400, method, path, id=box, port=65536, key=None)
    policy = f"{BOX}/proxy/18080/policy"
    assert walker.ask(200, "GET", policy, id=box, key=None)["policy"]["defaultAction"] == "allow"
    locked = walker.ask(202, "POST", "/sandboxes", {**SOURCE, "secureAccess": True})["id"]
    for method, documented in walker.api.operations():
        if documented == policy:
            walker.ask(404, method, policy, id=NOBODY, key=None)
            walker.ask(401, method, policy, id=locked, key=None)
            if method != "GET":
                walker.ask(501, method, policy, [], id=box, key=None)


def ending(walker, box):
    walker.ask(409, "POST", f"{BOX}/resume", id=box)
    walker.ask(202, "POST", f"{BOX}/pause", id=box)
    assert walker.ask(200, "GET", BOX, id=box)["status"]["state"] == "Paused"
    walker.ask(409, "POST", f"{BOX}/pause", id=box)
    walker.ask(409, "GET", f"{BOX}/proxy/{{port}}/{{path}}", id=box, port=8000)
    walker.ask(202, "POST", f"{BOX}/resume", id=box)
    walker.ask(204, "DELETE", BOX, id=box)
    walker.ask(404, "DELETE", BOX, id=box)
    walker.ask(404, "GET", BOX, id=box)
    state = walker.ask(200, "GET", BOX, id=box, query="?includeTerminated=true")["status"]
    assert (state["state"], state["reason"]) == ("Terminated", "user_delete"), state


def walk(api):
    with Server(key=KEY) as server:
        walker = Walker(api, server)
        refused(walker)
        itself(walker)
        box = creating(walker)
        looking(walker, box)
        changing(walker, box)
        reaching(walker, box)
        ending(walker, box)
