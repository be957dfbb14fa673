#!/usr/bin/env python3
"""Into sandboxes: endpoints, tokens, the built-in gateway for HTTP, streams and WebSockets."""
# timeout: 600

import base64
import hashlib
import struct

from harness import case, run_cases
from serverlib import Reader, Server, is_error, json, sys, until

server = Server("--set", "server.cors_origins=https://console.example")
UNKNOWN = "11111111-1111-4111-8111-111111111111"

# A service inside: tells what it was sent, streams, takes bodies, speaks WebSocket.
SERVICE = r'''
import base64, hashlib, http.server, json, socketserver, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def do_GET(self):
        if self.path == "/stream":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"one", b"two"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                if piece == b"one":
                    self.server.gate.wait(20)
            self.wfile.write(b"0\r\n\r\n")
            return
        if self.path == "/open-gate":
            self.server.gate.set()
        if self.headers.get("Upgrade") == "websocket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("Sec-WebSocket-Accept", accept)
            self.end_headers()
            head = self.rfile.read(2)
            mask = self.rfile.read(4)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(self.rfile.read(head[1] & 127)))
            self.wfile.write(bytes((0x81, len(data))) + data[::-1])
            self.close_connection = True
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = json.dumps({"method": self.command, "path": self.path,
                           "headers": self.headers.items(), "body": body.decode()}).encode()
        self.send_response(200)
        self.send_header("Set-Cookie", "a=1")
        self.send_header("Set-Cookie", "b=2")
        self.send_header("Access-Control-Allow-Origin", "https://app.example")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_GET

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    if ":" in sys.argv[1]:
        import socket
        address_family = socket.AF_INET6

server = Server((sys.argv[1], int(sys.argv[2])), Handler)
server.gate = threading.Event()
server.serve_forever()
'''


def start_service(sandbox, address="127.0.0.1", port=8000, of=server):
    code = base64.b64encode(SERVICE.encode()).decode()
    of.run(sandbox, f"echo {code} | base64 -d > /tmp/service.py")
    of.execd(sandbox, "POST", "/command", {
        "command": f"exec python3 /tmp/service.py {address} {port}", "background": True})
    until(lambda: of.call("GET", f"/sandboxes/{sandbox}/proxy/{port}/").status == 200,
          "the service to listen")


box = server.make()
GATE = f"/sandboxes/{box}/proxy"


@case
def endpoints_name_the_gateway_and_the_token():
    a = server.call("GET", f"/v1/sandboxes/{box}/endpoints/44772").json
    assert a["endpoint"] == f"{server.host}/sandboxes/{box}/proxy/44772", a
    assert list(a["headers"]) == ["X-EXECD-ACCESS-TOKEN"] and \
        len(a["headers"]["X-EXECD-ACCESS-TOKEN"]) == 32
    assert server.call("GET", f"/v1/sandboxes/{box}/endpoints/44772").json == a
    for port in (18080, 8000):
        a = server.call("GET", f"/v1/sandboxes/{box}/endpoints/{port}?use_server_proxy=true").json
        assert a == {"endpoint": f"{server.host}/sandboxes/{box}/proxy/{port}"}, a
    with server.connect() as s:
        s.sendall(f"GET /v1/sandboxes/{box}/endpoints/1 HTTP/1.1\r\nHost: localhost:99\r\n\r\n"
                  .encode())
        assert json.loads(Reader(s).reply().body)["endpoint"].startswith("localhost:99/sandboxes/")


@case
def endpoint_mistakes_are_named():
    base = f"/v1/sandboxes/{box}/endpoints/"
    for port in ("0", "65536", "-1"):
        is_error(server.call("GET", base + port), 400, "SANDBOX::INVALID_PORT")
    is_error(server.call("GET", base + "http"), 422, "INVALID_REQUEST")
    is_error(server.call("GET", base + "80?use_server_proxy=maybe"), 422, "INVALID_REQUEST")
    is_error(server.call("GET", base + "80?expires=x"), 422, "INVALID_REQUEST")
    is_error(server.call("GET", base + "80?expires=1&use_server_proxy=1"), 400,
             "SANDBOX::INVALID_PARAMETER")
    is_error(server.call("GET", base + "80?expires=4000000000"), 400, "SANDBOX::API_NOT_SUPPORTED")
    is_error(server.call("GET", f"/v1/sandboxes/{UNKNOWN}/endpoints/80"), 404,
             "SANDBOX::NOT_FOUND")


@case
def execd_takes_the_token_alone():
    _, headers = server.endpoint(box)
    for fields in ([], [("X-EXECD-ACCESS-TOKEN", "")], [("X-EXECD-ACCESS-TOKEN", "x" * 32)]):
        is_error(server.call("GET", GATE + "/44772/ping", fields=fields), 401,
                 "MISSING_ACCESS_TOKEN")
    assert server.call("GET", GATE + "/44772/ping", fields=headers).status == 200
    assert server.call("GET", "/v1" + GATE + "/44772/ping", fields=headers).status == 200
    other = server.make()
    _, theirs = server.endpoint(other)
    assert theirs != headers
    is_error(server.call("GET", GATE + "/44772/ping", fields=theirs), 401, "MISSING_ACCESS_TOKEN")
    server.delete(other)


@case
def gateway_paths_that_lead_nowhere():
    is_error(server.call("GET", f"/sandboxes/{UNKNOWN}/proxy/8000/"), 404, "SANDBOX::NOT_FOUND")
    is_error(server.call("GET", GATE + "/0/"), 400, "SANDBOX::INVALID_PORT")
    is_error(server.call("GET", GATE + "/99999/"), 400, "SANDBOX::INVALID_PORT")
    is_error(server.call("GET", GATE + "/http/"), 404, "NOT_FOUND")
    is_error(server.call("GET", GATE + "/9/"), 502, "GATEWAY::UPSTREAM_UNREACHABLE")
    with server.connect() as s:
        s.sendall(f"POST {GATE}/9/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "no chunk\r\n".encode())
        a = Reader(s).reply()
        assert a.status == 400 and len(a.get_all("X-Request-ID")) == 1, a.fields


@case
def requests_pass_as_they_are():
    start_service(box)
    a = server.call("POST", GATE + "/8000/a%2Fb//c%25?x=%20&y", raw=b"the body", fields=[
        ("Authorization", "Bearer mine"), ("Cookie", "c=d"), ("X-EXECD-ACCESS-TOKEN", "secret"),
        ("OPEN-SANDBOX-API-KEY", "secret"), ("OpenSandbox-Secure-Access", "secret")])
    got = a.json
    assert got["method"] == "POST" and got["body"] == "the body"
    assert got["path"] == "/a%2Fb//c%25?x=%20&y", got["path"]
    headers = {k.lower(): v for k, v in got["headers"]}
    assert headers["authorization"] == "Bearer mine" and headers["cookie"] == "c=d"
    assert headers["x-forwarded-for"] == "127.0.0.1"
    assert "secret" not in json.dumps(got), got
    assert a.reply.get_all("Set-Cookie") == ["a=1", "b=2"]
    assert a.reply.get_all("Access-Control-Allow-Origin") == ["https://app.example"]
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert server.call(method, GATE + "/8000/").json["method"] == method
    assert server.call("GET", GATE + "/8000").json["path"] == "/"
    assert server.call("GET", GATE + "/8000?q").json["path"] == "/?q"
    assert server.call("GET", "/v1" + GATE + "/8000/z").json["path"] == "/z"


@case
def the_key_never_gets_inside_and_an_authorization_of_its_own_does():
    ours, mine = ("Authorization", "Bearer sesame"), ("Authorization", "Basic bWluZQ==")
    key, wrong = ("OPEN-SANDBOX-API-KEY", "sesame"), ("OPEN-SANDBOX-API-KEY", "wrong")
    with Server(key="sesame") as locked:
        inside = locked.make()
        start_service(inside, of=locked)

        def got(*fields):
            a = locked.call("GET", f"/sandboxes/{inside}/proxy/8000/", key=False, fields=fields)
            assert a.status == 200 and b"sesame" not in a.body, (fields, a.body)
            return [v for k, v in a.json["headers"] if k.lower() == "authorization"]

        for fields in ((ours,), (key, ours), (wrong, ours), (mine, ours)):
            assert got(*fields) == [], fields
        for fields in ((mine,), (key, mine), (wrong, mine)):
            assert got(*fields) == [mine[1]], fields


@case
def streams_arrive_piece_by_piece():
    with server.connect() as s:
        s.sendall(f"GET {GATE}/8000/stream HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        reader = Reader(s)
        assert reader.head().status == 200
        pieces = reader.chunks()
        assert next(pieces) == b"one"  # the second is sent only once this has been seen
        assert server.call("GET", GATE + "/8000/open-gate").status == 200
        assert next(pieces) == b"two"


@case
def websockets_pass():
    with server.connect() as s:
        key = base64.b64encode(b"0123456789abcdef").decode()
        s.sendall((f"GET {GATE}/8000/ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"
                   f"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                   f"Sec-WebSocket-Key: {key}\r\n\r\n").encode())
        reader = Reader(s)
        head = reader.head()
        assert head.status == 101, head.status
        want = hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        assert head.get("Sec-WebSocket-Accept") == base64.b64encode(want).decode()
        data, mask = b"drawer", b"abcd"
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        s.sendall(struct.pack("BB", 0x81, 0x80 | len(data)) + mask + masked)
        assert reader.exactly(2 + len(data)) == b"\x81\x06reward"


@case
def services_on_ipv6_loopback_are_found():
    start_service(box, "::1", 8006)
    assert server.call("GET", GATE + "/8006/v6").json["path"] == "/v6"


@case
def many_ports_are_let_go_again():
    start_service(box, port=8001)
    for port in range(20000, 20200):
        assert server.call("GET", f"{GATE}/{port}/").status == 502
    assert server.call("GET", GATE + "/8001/").status == 200


@case
def secure_access_needs_its_header_everywhere():
    sandbox = server.make(secureAccess=True)
    prefix, headers = server.endpoint(sandbox)
    names = [name for name, _ in headers]
    assert names == ["X-EXECD-ACCESS-TOKEN", "OpenSandbox-Secure-Access"], names
    assert server.call("GET", prefix + "/ping", fields=headers).status == 200
    is_error(server.call("GET", prefix + "/ping", fields=headers[:1]), 401, "MISSING_ACCESS_TOKEN")
    is_error(server.call("GET", f"/sandboxes/{sandbox}/proxy/8000/"), 401, "MISSING_ACCESS_TOKEN")
    is_error(server.call("GET", f"/sandboxes/{sandbox}/proxy/18080/policy"), 401,
             "MISSING_ACCESS_TOKEN")
    _, others = server.endpoint(sandbox, 8000)
    assert [name for name, _ in others] == ["OpenSandbox-Secure-Access"]
    is_error(server.call("GET", f"/sandboxes/{sandbox}/proxy/8000/", fields=others), 502,
             "GATEWAY::UPSTREAM_UNREACHABLE")
    server.delete(sandbox)


@case
def the_policy_tells_the_truth_and_cannot_be_changed():
    prefix, headers = server.endpoint(box, 18080)
    assert headers == []
    a = server.call("GET", prefix + "/policy").json
    assert a["status"] == "ok" and a["policy"]["egress"] == [], a
    assert a["mode"] == {"allow": "allow_all", "deny": "deny_all"}[a["policy"]["defaultAction"]]
    rules = [{"action": "deny", "target": "example.com"}]
    is_error(server.call("PATCH", prefix + "/policy", rules), 501, "POLICY::NOT_IMPLEMENTED")
    is_error(server.call("DELETE", prefix + "/policy", ["example.com"]), 501,
             "POLICY::NOT_IMPLEMENTED")
    for method, path in (("POST", ""), ("GET", ""), ("GET", "/credentials"), ("DELETE", "")):
        is_error(server.call(method, prefix + "/credential-vault" + path), 501,
                 "CREDENTIAL_VAULT::NOT_IMPLEMENTED")
    is_error(server.call("GET", prefix + "/other"), 404, "NOT_FOUND")


@case
def a_page_elsewhere_can_reach_execd_but_speaks_for_no_application():
    ask = [("Origin", "https://console.example"), ("Access-Control-Request-Method", "POST"),
           ("Access-Control-Request-Headers", "X-EXECD-ACCESS-TOKEN")]
    a = server.call("OPTIONS", GATE + "/44772/command", fields=ask)
    assert a.status == 200
    assert a.get("Access-Control-Allow-Origin") == "https://console.example"
    a = server.call("OPTIONS", GATE + "/8000/", fields=ask)
    assert a.json["method"] == "OPTIONS", "the application answers for itself"


@case
def an_exchange_ends_with_its_sandbox():
    sandbox = server.make()
    start_service(sandbox)
    with server.connect() as s:
        s.sendall(f"GET /sandboxes/{sandbox}/proxy/8000/stream HTTP/1.1\r\nHost: x\r\n\r\n"
                  .encode())
        reader = Reader(s)
        assert reader.head().status == 200
        pieces = reader.chunks()
        assert next(pieces) == b"one"
        assert server.delete(sandbox).status == 204
        try:
            rest = next(pieces, None)
        except (EOFError, ConnectionResetError, ValueError):
            rest = None
        assert rest is None, rest


with server:
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
sys.exit(1 if failed else 0)
