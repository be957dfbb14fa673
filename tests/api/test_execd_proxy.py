#!/usr/bin/env python3
"""/proxy/{port}/...: services on the loopback of execd's sandbox, and execd itself."""
# timeout: 300

import json
import os
import shutil
import socket
import sys
import tempfile
import threading

from harness import DEADLINE, Program, Reader, case, read_all, request, run_cases, until

TOKEN = "sesame-open"
TOP = tempfile.mkdtemp(prefix="osb-proxy-")
execd = Program("execd", "--port", "0")
guarded = Program("execd", "--port", "0", "--access-token", TOKEN)


class Service:
    """A raw server: hands each accepted connection to a function in a thread."""

    def __init__(self, serve):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        self.serve = serve
        threading.Thread(target=self.loop, daemon=True).start()

    def loop(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            conn.settimeout(DEADLINE)
            threading.Thread(target=self.one, args=(conn,), daemon=True).start()

    def one(self, conn):
        try:
            self.serve(conn)
        except (OSError, EOFError):
            pass
        finally:
            conn.close()

    def close(self):
        self.listener.close()


def read_request(reader):
    head = reader.until(b"\r\n\r\n").decode("latin-1")
    lines = head.split("\r\n")
    fields = [tuple(p.strip() for p in line.split(":", 1)) for line in lines[1:]]
    lookup = {name.lower(): value for name, value in fields}
    if lookup.get("transfer-encoding") == "chunked":
        body = b"".join(reader.chunks())
    else:
        body = reader.exactly(int(lookup.get("content-length", "0")))
    return lines[0], fields, body


def echo(conn):
    """Answers with what it got, as JSON, for as long as the connection lasts."""
    reader = Reader(conn)
    while True:
        line, fields, body = read_request(reader)
        out = json.dumps({"line": line, "fields": fields, "body": len(body),
                          "sum": sum(body)}).encode()
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nSet-Cookie: a=1\r\n"
                     b"Set-Cookie: b=2\r\nX-Thing: yes\r\n\r\n" % len(out) + out)


service = Service(echo)


def ask(path, method="GET", body=b"", fields=(), port=None, program=execd):
    reply = request(program, method, f"/proxy/{port or service.port}{path}", body, fields)
    assert reply.status == 200, (reply.status, reply.body)
    got = json.loads(reply.body)
    got["reply"] = reply
    got["lookup"] = {name.lower(): value for name, value in got["fields"]}
    return got


@case
def methods_bodies_and_headers_go_through():
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        body = b"x" * 1000 if method in ("POST", "PUT", "PATCH") else b""
        got = ask("/some/path?q=1&q=2", method, body, [("X-Custom", "val"), ("Accept", "a/b")])
        assert got["line"] == f"{method} /some/path?q=1&q=2 HTTP/1.1", got["line"]
        assert got["body"] == len(body)
        assert got["lookup"]["x-custom"] == "val" and got["lookup"]["accept"] == "a/b"
        assert got["lookup"]["host"] == execd.host  # the client's own
        assert "127.0.0.1" in got["lookup"]["x-forwarded-for"]
        assert got["lookup"]["x-forwarded-proto"] == "http"
        assert got["reply"].get_all("set-cookie") == ["a=1", "b=2"]
        assert got["reply"].get("x-thing") == "yes"


@case
def the_path_is_not_touched():
    for path in ("/a%2Fb/c%20d", "/a//b", "/%e2%82%ac", "/x?y=%26&z=a+b", "/.hidden/..%2f", "/a;b=c",
                 "/?only=query"):
        assert ask(path)["line"] == f"GET {path} HTTP/1.1", path
    assert ask("")["line"] == "GET / HTTP/1.1"
    assert ask("/")["line"] == "GET / HTTP/1.1"
    assert ask("?a=b")["line"] == "GET /?a=b HTTP/1.1"


@case
def hop_by_hop_fields_stay():
    got = ask("/", fields=[("Connection", "X-Secret-Hop"), ("X-Secret-Hop", "1"),
                           ("Keep-Alive", "timeout=5"), ("TE", "trailers")])
    for name in ("x-secret-hop", "keep-alive", "te"):
        assert name not in got["lookup"], name


@case
def large_bodies_both_ways():
    body = os.urandom(5 << 20)
    got = ask("/", "POST", body)
    assert got["body"] == len(body) and got["sum"] == sum(body)


@case
def connections_to_the_service_are_used_again():
    counted = Service(echo)
    for _ in range(20):
        ask("/", port=counted.port)
    assert counted.accepted <= 2, counted.accepted
    counted.close()


@case
def errors_of_the_way():
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    reply = request(execd, "GET", f"/proxy/{port}/x")
    assert (reply.status, reply.body) == (502, b"Bad Gateway")
    assert reply.get("content-type").startswith("text/plain")
    reply = request(execd, "GET", "/proxy/")
    assert (reply.status, reply.body) == (400, b"port is required"), (reply.status, reply.body)
    for bad in ("x", "0", "65536", "-1", "80a", "%38%30", "999999", "127.0.0.1:80"):
        assert request(execd, "GET", f"/proxy/{bad}/").status == 400, bad


@case
def a_service_that_breaks_off_is_not_taken_for_whole():
    def broken(conn):
        read_request(Reader(conn))
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nonly this")

    def garbage(conn):
        read_request(Reader(conn))
        conn.sendall(b"SSH-2.0-OpenSSH\r\n")

    s = Service(broken)
    try:
        request(execd, "GET", f"/proxy/{s.port}/")
        raise AssertionError("a part was taken for the whole")
    except EOFError:
        pass
    s.close()
    s = Service(garbage)
    assert request(execd, "GET", f"/proxy/{s.port}/").status == 502
    s.close()


@case
def streams_are_passed_on_at_once():
    go = threading.Event()

    def stream(conn):
        read_request(Reader(conn))
        conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        assert go.wait(DEADLINE)
        conn.sendall(b"6\r\nsecond\r\n0\r\n\r\n")

    s = Service(stream)
    with execd.connect() as c:
        c.sendall(f"GET /proxy/{s.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        reader = Reader(c)
        assert reader.head().status == 200
        chunks = reader.chunks()
        assert next(chunks) == b"first"  # while the service holds the rest back
        go.set()
        assert next(chunks) == b"second"
    s.close()


@case
def upgrades_become_tunnels():
    def shout(conn):
        line, fields, _ = read_request(Reader(conn))
        assert dict(fields)["Upgrade"] == "shout"
        conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                     b"Upgrade: shout\r\n\r\nready ")
        while True:
            data = conn.recv(1000)
            if not data:
                break
            conn.sendall(data.upper())
        conn.sendall(b"!")

    s = Service(shout)
    with execd.connect() as c:
        c.sendall(f"GET /proxy/{s.port}/ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                  "Upgrade: shout\r\n\r\n".encode())
        reader = Reader(c)
        assert reader.head().status == 101
        assert reader.exactly(6) == b"ready "
        c.sendall(b"hello")
        assert reader.exactly(5) == b"HELLO"
        c.shutdown(socket.SHUT_WR)
        assert reader.to_eof() == b"!"
    s.close()


@case
def our_own_port_is_answered_here():
    before = execd.fds()
    put = os.path.join(TOP, "file")
    with open(put, "wb") as f:
        f.write(b"inside")
    for prefix in ("/proxy/%d" % execd.port, ("/proxy/%d" % execd.port) * 20):
        reply = request(execd, "GET", f"{prefix}/files/download?path={put}")
        assert (reply.status, reply.body) == (200, b"inside"), prefix
        assert request(execd, "GET", f"{prefix}/ping").status == 200
        assert request(execd, "GET", f"{prefix}/no/such").status == 404
        got = request(execd, "GET", f"{prefix}/proxy/{service.port}/nested?x=1")
        assert json.loads(got.body)["line"] == "GET /nested?x=1 HTTP/1.1"
        reply = request(execd, "POST", f"{prefix}/command",
                        json.dumps({"command": "echo through"}).encode())
        assert b'"text":"through"' in reply.body
    until(lambda: execd.fds() <= before + 1, "no connection to ourselves")


@case
def uploads_through_our_own_port():
    body = (b'--B\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n'
            + json.dumps({"path": TOP + "/up"}).encode() +
            b'\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
            + b"z" * 300000 + b"\r\n--B--\r\n")
    reply = request(execd, "POST", f"/proxy/{execd.port}/files/upload", body,
                    [("Content-Type", "multipart/form-data; boundary=B")])
    assert reply.status == 200 and os.path.getsize(TOP + "/up") == 300000


@case
def the_token_is_asked_for_and_kept():
    for path in (f"/proxy/{service.port}/", f"/proxy/{guarded.port}/ping"):
        assert request(guarded, "GET", path).status == 401
        assert request(guarded, "GET", path, b"", [("X-EXECD-ACCESS-TOKEN", "wrong")]).status == 401
    token = [("x-execd-access-token", TOKEN)]
    assert request(guarded, "GET", f"/proxy/{guarded.port}/ping", b"", token).status == 200
    got = ask("/", fields=token + [("Authorization", "Bearer mine")], program=guarded)
    assert TOKEN not in json.dumps(got["fields"])
    assert got["lookup"]["authorization"] == "Bearer mine"


@case
def smuggling_through_the_proxy_is_refused():
    for extra in ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                  "Content-Length: 5\r\nContent-Length: 6\r\n",
                  "Transfer-Encoding: gzip, chunked\r\n", "X: a\r\n b\r\n", "Bad Name: x\r\n"):
        before = service.accepted
        with execd.connect() as c:
            c.sendall(f"POST /proxy/{service.port}/ HTTP/1.1\r\nHost: x\r\n{extra}\r\n".encode())
            reply = Reader(c).reply()
            assert reply.status in (400, 501), (extra, reply.status)
        assert service.accepted == before


@case
def clients_that_leave_take_the_call_along():
    entered, left = threading.Event(), threading.Event()

    def wait(conn):
        read_request(Reader(conn))
        entered.set()
        if read_all(conn) == b"":
            left.set()

    s = Service(wait)
    c = execd.connect()
    c.sendall(f"GET /proxy/{s.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert entered.wait(DEADLINE)
    c.close()
    assert left.wait(DEADLINE)
    s.close()


@case
def many_ports_do_not_pile_up():
    request(execd, "GET", "/ping")
    before = execd.fds()
    services = [Service(echo) for _ in range(100)]
    for s in services:
        ask("/", port=s.port)
    # each has at most one idle connection, and no more than so many ports are kept
    assert execd.fds() <= before + 70, (before, execd.fds())
    for s in services:
        s.close()


def end():
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    codes = execd.stop(), guarded.stop()
    shutil.rmtree(TOP, ignore_errors=True)
    print("ok execd_ended_well" if codes == (0, 0) else f"not ok execd ended with {codes}")
    sys.exit(1 if failed or codes != (0, 0) else 0)


end()
