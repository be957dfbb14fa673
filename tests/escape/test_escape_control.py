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
    "import http.server, sys\n"
    "class H(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        text = (self.path + '\\n' + str(self.headers)).encode()\n"
    "        self.send_response(302 if self.path.startswith('/away') else 200)\n"
    "        for name in ('Location', 'X-Accel-Redirect', 'X-Sendfile', 'Refresh'):\n"
    "            self.send_header(name, self.path[5:]) if self.path.startswith('/away') else None\n"
    "        self.send_header('Content-Length', str(len(text)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(text)\n"
    "    def log_message(self, *_): pass\n"
    "http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), H).serve_forever()\n")
# Answers that are none, or that one might read as two; whoever believes them hands out what is forged.
FORGED = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nFORGED"
ANSWERS = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + FORGED,
    b"HTTP/1.1 204 No Content\r\n\r\n" + FORGED,
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 61\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nContent-Length: +0\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\nContent-Length: 0\n\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nX: a\r\n b: c\r\nContent-Length: 0\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: FORGED\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n" + FORGED,
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + FORGED,
    b"HTTP/1.1 99999 OK\r\nContent-Length: 0\r\n\r\n" + FORGED,
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n" + FORGED,
    b"HTTP/1.1 103 Early Hints\r\n\r\n" * 10000 + FORGED,
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100000 + b"\r\n" + FORGED,
    b"FORGED", b"",
]
LIAR = (
    "import socket, sys\n"
    "answers = eval(open('/tmp/answers').read())\n"
    "s = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
    "while True:\n"
    "    c, _ = s.accept()\n"
    "    head = b''\n"
    "    while b'\\r\\n\\r\\n' not in head:\n"
    "        more = c.recv(65536)\n"
    "        if not more: break\n"
    "        head += more\n"
    "    try: c.sendall(answers[int(head.split(b' ')[1].rsplit(b'/')[-1])])\n"
    "    except (OSError, ValueError, IndexError): pass\n"
    "    c.close()\n")


def routes():
    """(method, path) of all routes, from the documentation, which the server's tests keep true."""
    with open(os.path.join(ROOT, "docs", "server.md"), encoding="utf-8") as f:
        text = f.read().split("## Routes")[1].split("\n## ")[0]
    found = re.findall(r"^\| (GET|POST|PUT|PATCH|DELETE) \| `([^`]+)` \|", text, re.MULTILINE)
    assert len(found) > 20, found
    return found


def service(box, uid=0, port=8000, source=SERVICE):
    """Something that tells what it was sent, at a port of a sandbox."""
    p = product()
    p.upload(box, f"/tmp/service-{port}.py", source.encode())
    p.server.execd(box, "POST", "/command", {"command": f"exec python3 /tmp/service-{port}.py {port}",
                                             "background": True, "uid": uid})
    until(lambda: p.run(box, f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'")[0] == 0,
          "the service to listen")


def unreachable(box, *ports):
    """What listens outside is not there from inside, by any address that leads outside."""
    p = product()
    for uid in users():
        for address in ("127.0.0.1", "10.200.0.1", "0.0.0.0"):
            for port in ports:
                code, out = p.probe(box, "E42", address, str(port), uid=uid)
                held(uid, code, out)


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
    # nor does it go where a service sends it
    for uid in users():
        service(box, uid, 8100 + uid)
        for away in (f"http://127.0.0.1:{port}/", f"//127.0.0.1:{port}/", f"/sandboxes/{other}/proxy/8000/",
                     "/etc/passwd"):
            answer = p.server.call("GET", f"{gate}/{8100 + uid}/away{away}")
            assert answer.status == 302 and answer.body.startswith(f"/away{away}\n".encode()), (away, answer.body)
    unreachable(box, p.server.port, port)
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
    unreachable(box, p.server.port)


@case
def E51_the_servers_key_is_not_inside():
    """Neither in the environment, arguments or files of a sandbox, nor in what the gateway passes on, nor in execd's
    memory, which is looked through from outside."""
    p = product()
    box = p.box(env={"HARMLESS": "1"})
    _, headers = p.server.endpoint(box)
    token = dict(headers)["X-EXECD-ACCESS-TOKEN"]
    for uid in users():
        service(box, uid, 8000 + uid)
        gate = f"/sandboxes/{box}/proxy/{8000 + uid}/"
        seen = p.server.call("GET", gate + "?x=1", fields=headers).body
        seen += p.server.call("GET", gate, key=False, fields=[("Authorization", "Bearer " + p.key),
                                                              ("OPEN-SANDBOX-API-KEY", p.key)]).body
        assert b"/?x=1" in seen and p.key.encode() not in seen, seen
        _, out = p.run(box, "exec 2>/dev/null; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; env; cat /etc/*; "
                            f"grep -rs {p.key[:12]} /tmp /root /home /run /etc /opt /var", uid)
        assert p.key not in out and token not in out, "told inside"
    found = memory_has(p.first_process(box), p.key.encode())
    assert not found, f"in execd's memory, {found}"
    # the search itself finds what is there
    assert memory_has(p.first_process(box), token.encode())


@case
def X17_secrets_in_the_log():
    """At the loudest: neither keys and tokens nor what a client sends in confidence, whether it is taken or refused.
    And of the key nothing in the environment of the runner, which has no use for it."""
    password, value = ("word-" + os.urandom(8).hex() for _ in range(2))
    with tempfile.TemporaryFile() as log:
        p = Product("--log-level", "debug", stderr=log)
        try:
            image = {"uri": "host", "auth": {"username": "me", "password": password}}
            secret = {"env": {"CONFIDED": value}, "image": image, "secureAccess": True}
            box = p.server.make(**secret)
            for wrong in ({"resourceLimits": {"memory": value}}, {"image": {**image, "uri": "no-such-image"}},
                          {"env": {"CONFIDED": [value]}}, {"entrypoint": [value], "timeout": 1}):
                assert p.server.create(**{**secret, **wrong}).status >= 400, wrong
            prefix, headers = p.server.endpoint(box)
            assert p.run(box, f"echo $CONFIDED; echo {value} > /tmp/f; exit 3") == (3, value)
            assert p.server.execd(box, "POST", "/command", {"command": "true", "envs": {"MORE": value}}).status == 200
            for fields in (headers, headers[:1], [(name, text + "x") for name, text in headers]):
                p.server.call("GET", prefix + "/ping", fields=fields)
                almost = ("OPEN-SANDBOX-API-KEY", p.key + "x")
                p.server.call("GET", "/v1/sandboxes", fields=[almost, *fields], key=False)
            p.server.call("POST", "/v1/sandboxes", raw=b'{"env": {"CONFIDED": "' + value.encode())
            with open(f"/proc/{p.server.runner_pid()}/environ", "rb") as f:
                environment = f.read()
            p.server.delete(box)
        finally:
            p.close()
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    assert b"PATH=" in environment and p.key.encode() not in environment, environment
    assert " debug " in text and box in text, "the search finds nothing"
    assert len(headers) == 2, headers
    for name, secret in [("the key", p.key), ("the password", password), ("a value", value), *headers]:
        assert secret not in text, f"{name} is in the log"


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
    # nor is there a way from inside to one's own or another's execd, with or without a token
    unreachable(p.box(), 44772)


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
    # and answers that are none, from inside: what comes next on the connection is not theirs
    p.upload(box, "/tmp/answers", repr(ANSWERS).encode())
    for uid in users():
        service(box, uid, 8200 + uid, LIAR)
        for i in range(len(ANSWERS)):
            with p.server.connect() as s:
                reader = Reader(s)
                ask = f"GET /sandboxes/{box}/proxy/{8200 + uid}/{i} HTTP/1.1\r\nHost: {p.server.host}\r\n\r\n"
                try:
                    s.sendall(ask.encode())
                    answer = reader.reply()
                    assert b"FORGED" not in answer.body and answer.get("Set-Cookie") is None, (i, answer.body)
                    s.sendall(f"GET /health HTTP/1.1\r\nHost: {p.server.host}\r\n\r\n".encode())
                    answer = reader.reply()
                    assert answer.status == 200 and b"FORGED" not in answer.body, (i, answer.body)
                except (EOFError, ConnectionError):
                    assert b"FORGED" not in reader.rest, i  # hung up: as good
    assert p.run(box, "echo alive") == (0, "alive")


main()
