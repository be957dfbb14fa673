#!/usr/bin/env python3
"""The control plane: who may call it, what it tells to whom, and what a sandbox or a client can make of the gateway.
timeout: 300"""

import re

from escapelib import *  # noqa: F401,F403  pylint: disable=wildcard-import,unused-wildcard-import
from harness import Reader
from hostile_cases import CASES, CLOSE
from serverlib import is_error

setup()
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NO_KEY = ("/health", "/readyz")
SERVICE = (
    "import http.server\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        text = (self.path + '\\n' + str(self.headers)).encode()\n"
    "        self.send_response(200)\n"
    "        self.send_header('Content-Length', str(len(text)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(text)\n"
    "    def log_message(self, *_): pass\n"
    "http.server.ThreadingHTTPServer(('127.0.0.1', 8000), H).serve_forever()\n")


def routes():
    """(method, path) of all routes, from the documentation, which the server's tests keep true."""
    with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as f:
        text = f.read().split("## Routes")[1].split("\n## ")[0]
    found = re.findall(r"^\| (GET|POST|PUT|PATCH|DELETE) \| `([^`]+)` \|", text, re.MULTILINE)
    assert len(found) > 20, found
    return found


def service(box):
    """Something that tells what it was sent, at port 8000 of a sandbox."""
    p = product()
    p.upload(box, "/tmp/service.py", SERVICE.encode())
    p.server.execd(box, "POST", "/command", {"command": "exec python3 /tmp/service.py", "background": True})
    until(lambda: p.server.call("GET", f"/sandboxes/{box}/proxy/8000/").status == 200, "the service to listen")


@case
def E49_gateway_to_elsewhere():
    """By way of the gateway nothing is reached but the one port of the one sandbox that the path names."""
    p = product()
    box, other = p.box(), p.box()
    service(other)
    outside = socket.create_server(("127.0.0.1", 0))
    port = outside.getsockname()[1]
    gate = f"/sandboxes/{box}/proxy"
    is_error(p.server.call("GET", f"{gate}/{port}/"), 502, "GATEWAY::UPSTREAM_UNREACHABLE")
    is_error(p.server.call("GET", f"{gate}/8000/"), 502, "GATEWAY::UPSTREAM_UNREACHABLE")
    for name in ("X-Pod-IP", "X-Forwarded-Host", "X-Forwarded-For", "X-Sandbox-Id", "X-Original-URL", "Forwarded",
                 "X-Opensandbox-Upstream", "X-Rewrite-URL"):
        for value in (f"127.0.0.1:{port}", other, f"http://127.0.0.1:{port}/"):
            answer = p.server.call("GET", f"{gate}/{port}/", fields=[(name, value)])
            assert answer.status in (400, 403, 502), (name, value, answer.status)
    _, theirs = p.server.endpoint(other)
    is_error(p.server.call("GET", f"{gate}/44772/ping", fields=theirs), 401, "MISSING_ACCESS_TOKEN")
    for path in (f"/sandboxes/{box}/../{other}/proxy/44772/ping", f"/sandboxes/{box}%2f..%2f{other}/proxy/44772/ping",
                 f"/sandboxes/{box}/proxy/44772/../../../{other}/proxy/44772/ping",
                 f"/sandboxes/{box[:-1]}/proxy/8000/",
                 f"/sandboxes/{box}/proxy/8000:{port}/", f"/sandboxes/{box}/proxy/127.0.0.1:{port}/",
                 f"/sandboxes/{box}/proxy/8000@127.0.0.1:{port}/", "/sandboxes/*/proxy/8000/", "/sandboxes//proxy/80/"):
        answer = p.server.call("GET", path, fields=theirs)
        assert answer.status in (400, 401, 404, 502), (path, answer.status, answer.body)
    # a target in absolute form names no other host either
    with p.server.connect() as s:
        s.sendall(f"GET http://127.0.0.1:{port}{gate}/8000/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert Reader(s).reply().status in (403, 502)
    nobody_came(outside)
    outside.close()


@case
def E50_api_without_the_key():
    p = product()
    box = p.box()
    for method, path in routes():
        target = path.format(id=box, port=80, snapshot="x", pool="x")
        for prefix in ("", "/v1"):
            for fields in ([], [("OPEN-SANDBOX-API-KEY", "")], [("OPEN-SANDBOX-API-KEY", p.key[:-1])],
                           [("OPEN-SANDBOX-API-KEY", p.key + "x")], [("OPEN-SANDBOX-API-KEY", p.key.upper())],
                           [("Authorization", "Bearer " + p.key[:-1])]):
                answer = p.server.call(method, prefix + target, {} if method in ("POST", "PUT", "PATCH") else None,
                                       fields=fields, key=False)
                if path in NO_KEY:
                    assert answer.status == 200, (path, answer.status)
                else:
                    assert answer.status == 401, (method, prefix + target, fields, answer.status, answer.body)
                assert p.key.encode() not in answer.body
    assert p.server.state_of(box) == "Running"


@case
def E51_the_servers_key_is_not_inside():
    """Neither in the environment, arguments or files of a sandbox, nor in what the gateway passes on, nor in execd's
    memory, which is looked through from outside."""
    p = product()
    box = p.box(env={"HARMLESS": "1"})
    service(box)
    seen = p.server.call("GET", f"/sandboxes/{box}/proxy/8000/?x=1").body
    seen += p.server.call("GET", f"/sandboxes/{box}/proxy/8000/", key=False,
                          fields=[("Authorization", "Bearer " + p.key), ("OPEN-SANDBOX-API-KEY", p.key)]).body
    assert b"/?x=1" in seen and p.key.encode() not in seen, seen
    code, out = p.run(box, "cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; cat /etc/* 2>/dev/null; "
                           "grep -rsl key- /tmp /root /run /etc /opt --include='*' | head")
    assert p.key not in out, "told inside"
    found = memory_has(p.first_process(box), p.key.encode())
    assert not found, f"in execd's memory, {found}"
    _, headers = p.server.endpoint(box)
    token = dict(headers)["X-EXECD-ACCESS-TOKEN"]
    for uid in USERS:
        _, out = p.run(box, "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; env", uid)
        assert token not in out, "execd's token is told inside"
    # the search itself finds what is there
    assert memory_has(p.first_process(box), token.encode())


def memory_has(pid, text):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb") as mem:
        for line in maps:
            place, rights = line.split()[:2]
            if not rights.startswith("rw"):
                continue
            begin, end = (int(x, 16) for x in place.split("-"))
            try:
                mem.seek(begin)
                if text in mem.read(end - begin):
                    return line.strip()
            except (OSError, ValueError):
                continue
    return None


@case
def E53_tokens_of_the_dead():
    p = product()
    first = p.server.make()
    prefix, headers = p.server.endpoint(first)
    assert p.server.call("GET", prefix + "/ping", fields=headers).status == 200
    p.server.delete(first)
    second = p.server.make(secureAccess=True)
    is_error(p.server.call("GET", prefix + "/ping", fields=headers), 404, "SANDBOX::NOT_FOUND")
    fresh, theirs = p.server.endpoint(second)
    assert dict(theirs)["X-EXECD-ACCESS-TOKEN"] != dict(headers)["X-EXECD-ACCESS-TOKEN"]
    is_error(p.server.call("GET", fresh + "/ping", fields=headers), 401, "MISSING_ACCESS_TOKEN")
    for i in range(len(theirs)):  # each of them is needed
        is_error(p.server.call("GET", fresh + "/ping", fields=theirs[:i] + theirs[i + 1:]), 401, "MISSING_ACCESS_TOKEN")
    assert p.server.call("GET", fresh + "/ping", fields=theirs).status == 200


@case
def E54_reserved_metadata():
    p = product()
    box = p.server.make(metadata={"mine": "1"})
    for key in ("opensandbox.io/id", "opensandbox.io/tenant", "opensandbox.io/expires-at"):
        is_error(p.server.create(metadata={key: "x"}), 400, "SANDBOX::INVALID_METADATA_LABEL")
        answer = p.server.call("PATCH", f"/v1/sandboxes/{box}/metadata", {key: "x"})
        is_error(answer, 400, "SANDBOX::INVALID_METADATA_LABEL")
    for key in ("OpenSandbox.io/id", "opensandbox.io", "a\nb", "../x", "x" * 200, ""):
        answer = p.server.call("PATCH", f"/v1/sandboxes/{box}/metadata", {key: "x"})
        assert answer.status in (200, 400, 422), (key, answer.status)
        assert (answer.status == 200) == (key == "opensandbox.io"), (key, answer.status)
    assert p.server.info(box).json["metadata"].get("mine") == "1"


@case
def E56_requests_that_are_none():
    """The table of hostile requests of tests/api, at the live server and through it at execd: none of those that must
    be refused is answered as if it were one."""
    p = product()
    box = p.box()
    prefix, headers = p.server.endpoint(box)
    for base, fields in (("", [("OPEN-SANDBOX-API-KEY", p.key)]), (prefix, headers)):
        tried = 0
        for entry in CASES:
            expected = entry["expect"] if isinstance(entry["expect"], list) else [entry["expect"]]
            data = entry["send"]
            if not isinstance(data, bytes) or entry["drip"] or entry["then"] != "read" or expected[0] == CLOSE or \
                    expected[0] < 400 or expected[0] in (404, 405, 408, 413, 414, 426, 431) or entry["code"]:
                continue
            head, _, rest = data.partition(b"\r\n")
            extra = "".join(f"{name}: {value}\r\n" for name, value in fields).encode()
            words = head.split(b" ")
            if base and len(words) == 3 and words[1].startswith(b"/"):
                head = b" ".join((words[0], base.encode() + words[1], words[2]))
            tried += 1
            with p.server.connect() as s:
                try:
                    s.sendall(head + b"\r\n" + (extra + rest if rest else rest))
                    status = Reader(s).reply().status
                except (EOFError, ConnectionError):
                    status = 0  # hung up: as good
            assert status == 0 or status >= 400, (entry["name"], status)
        assert tried > 20, tried
    assert p.run(box, "echo alive") == (0, "alive")


main()
