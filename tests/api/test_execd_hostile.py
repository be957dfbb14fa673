#!/usr/bin/env python3
"""Clients that mean harm or know no better, against execd itself: it answers, forgets, and goes on."""
# timeout: 300

import json
import os
import socket
import sys
import tempfile

from execdlib import call, children, empty_ok, error, run, start
from harness import Reader, case, run_cases, sanitized, until

execd = start()


def alive():
    empty_ok(call(execd, "GET", "/ping"))


def raw(data, shut=False):
    """What comes back for some bytes, until the other end closes."""
    got = b""
    with execd.connect() as sock:
        try:
            sock.sendall(data)
            if shut:
                sock.shutdown(socket.SHUT_WR)
            while piece := sock.recv(65536):
                got += piece
        except ConnectionError:
            pass
    return got


def statuses(data, shut=True):
    return [int(part.split(b" ", 2)[1]) for part in raw(data, shut).split(b"HTTP/1.1")[1:]]


def upload(parts, boundary=b"x"):
    return (b"POST /files/upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
            b"Content-Type: multipart/form-data; boundary=%s\r\nContent-Length: %d\r\n\r\n"
            % (boundary, len(parts)) + parts)


@case
def heads_are_limited():
    many = b"".join(b"x-%d: y\r\n" % i for i in range(1000))
    assert statuses(b"GET /ping HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n") == [431]
    assert statuses(b"GET /ping HTTP/1.1\r\nHost: x\r\nx: " + b"y" * (64 << 10) + b"\r\n\r\n") == [431]
    assert statuses(b"GET /" + b"y" * (16 << 10) + b" HTTP/1.1\r\nHost: x\r\n\r\n") == [414]
    alive()


@case
def garbage_behind_a_request_ends_the_connection():
    ping = b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n"
    assert statuses(ping * 50 + b"\x16\x03\x01 not HTTP\r\n\r\n" + ping) == [200] * 50 + [400]
    both = b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert statuses(ping + both + ping) == [200, 400]
    alive()


@case
def our_own_port_within_itself():
    path = f"/proxy/{execd.port}" * 500 + "/ping"
    empty_ok(call(execd, "GET", path))
    error(call(execd, "GET", f"/proxy/{execd.port}" * 3 + "/files/download"), 400, "MISSING_QUERY")


@case
def ports_that_are_none():
    for port in ("0", "-1", "65536", "99999999999999999999", "http", "80%2F", "%38%30x", "8o"):
        assert call(execd, "GET", f"/proxy/{port}/").status == 400, port


@case
def nul_characters_are_refused_not_cut_at():
    for body in (b'{"command": "echo a\\u0000; echo b"}', b'{"command": "true", "cwd": "/tmp\\u0000x"}',
                 b'{"command": "true", "envs": {"A": "b\\u0000c"}}', b'{"command": "true", "envs": {"A\\u0000": "b"}}',
                 b'{"command": "true", "envs": {"A=B": "c"}}', b'{"command": "true", "envs": {"": "c"}}'):
        error(call(execd, "POST", "/command", body), 400, "INVALID_REQUEST_BODY")


@case
def numbers_at_their_ends():
    for timeout in (2 ** 63 - 1, 2 ** 53, 86400000):
        run(execd, "true", timeout=timeout).ok()
    for field, value in (("timeout", -1), ("timeout", 2 ** 63), ("timeout", 1.5), ("uid", -1), ("uid", 2 ** 32 - 1),
                         ("uid", 2 ** 32), ("gid", 0)):
        error(call(execd, "POST", "/command", {"command": "true", field: value}), 400, "INVALID_REQUEST_BODY")


@case
def json_bombs():
    for body in (b"[" * 100000, b'{"a":' * 100000, b'{"command":"x","envs":' + b'{"a":' * 50 + b"1" + b"}" * 51,
                 b'{"command": "' + b"\\ud800" * 10 + b'"}', b'{"command": 1e999}', b"\xff\xfe{}",
                 b'"' + b"a" * 100000):
        error(call(execd, "POST", "/command", body), 400, "INVALID_REQUEST_BODY")
    assert call(execd, "POST", "/command", b'{"command": "' + b"x" * (5 << 20) + b'"}').status == 413
    alive()


@case
def forms_that_are_too_much():
    part = b'--x\r\nContent-Disposition: form-data; name="metadata"\r\n'
    cases = {
        "a head without end": part + b"x: " + b"y" * 100000,
        "a head of many lines": part + b"x: y\r\n" * 10000 + b"\r\n{}\r\n--x--\r\n",
        "metadata without end": part + b"\r\n" + b"{" * (1 << 20) + b"\r\n--x--\r\n",
        "metadata only, very often": (part + b'\r\n{"path": "/tmp/never"}\r\n') * 5000 + b"--x--\r\n",
        "no last delimiter": part + b'\r\n{"path": "/tmp/never"}\r\n',
        "no delimiter at all": b"x" * 100000,
        "nothing": b"",
    }
    for name, parts in cases.items():
        got = statuses(upload(parts))
        assert len(got) == 1 and got[0] in (400, 413), (name, got)
    assert not os.path.exists("/tmp/never")
    for boundary in (b"", b"y" * 71, b'"', b"a b"):
        got = statuses(upload(b"--x--\r\n", boundary))
        assert got == [400], (boundary, got)
    alive()


@case
def links_and_files_change_while_they_are_used():
    """What is read or written is what a name meant at one moment: never a mixture, never a hang."""
    with tempfile.TemporaryDirectory() as directory:
        name, fifo = os.path.join(directory, "name"), os.path.join(directory, "fifo")
        plain = os.path.join(directory, "plain")
        os.mkfifo(fifo)
        with open(plain, "w", encoding="ascii") as f:
            f.write("plain")
        swap = (f"cd {directory}; while :; do ln -sfn fifo name; ln -sfn plain name; ln -sfn /dev/zero name;"
                " ln -sfn name name; mkdir -p d && mv -T d name 2>/dev/null; rmdir name 2>/dev/null; done")
        running = run(execd, swap, background=True).id
        with execd.connect() as sock:
            for i in range(300):
                got = call(execd, "GET", f"/files/download?path={name}", sock=sock)
                assert got.status in (200, 400, 404, 500), got.status
                assert got.status != 200 or got.body == b"plain", got.body[:50]
                got = call(execd, "POST", "/files/replace", {name: {"old": "q", "new": "r"}}, sock=sock)
                assert got.status in (200, 400, 404, 500), got.status
                if i % 10 == 0:
                    call(execd, "GET", f"/files/info?path={name}", sock=sock)
                    call(execd, "GET", f"/directories/list?path={directory}&depth=3", sock=sock)
        call(execd, "DELETE", f"/command?id={running}")
        until(lambda: not children(execd.pid), "the swapper has ended")
    alive()


@case
def clients_that_leave_at_each_byte():
    body = json.dumps({"command": "echo out; echo err >&2"}).encode()
    whole = b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    form = upload(b'--x\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"path": "/tmp/osb-left-half"}\r\n'
                  b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"z" * 50)
    fds = execd.fds()
    for data in (whole, form):
        for cut in range(1, len(data), 3):
            with execd.connect() as sock:
                sock.sendall(data[:cut])
                if cut % 2:  # a reset instead of an end
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    until(lambda: execd.fds() <= fds and not children(execd.pid), "everything is closed")
    assert not os.path.exists("/tmp/osb-left-half")
    alive()


@case
def sessions_have_an_end():
    with start() as other:
        with other.connect() as sock:
            made = []
            for _ in range(1100):
                got = call(other, "POST", "/session", b"", sock=sock)
                if got.status != 200:
                    break
                made.append(json.loads(got.body)["session_id"])
            assert 100 <= len(made) <= 1024, len(made)
            error(got, got.status, "RUNTIME_ERROR")
            empty_ok(call(other, "DELETE", f"/session/{made[0]}", sock=sock))
            assert call(other, "POST", "/session", b"", sock=sock).status == 200
            if not sanitized("execd"):
                assert other.rss_kib() < 8 << 10, other.rss_kib()


@case
def many_that_say_nothing():
    """Silent connections cost little, and others are served."""
    silent = [execd.connect() for _ in range(500)]
    try:
        for sock in silent[:250]:
            sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        run(execd, "true").ok()
        if not sanitized("execd"):
            assert execd.rss_kib() < 8 << 10, execd.rss_kib()
    finally:
        for sock in silent:
            sock.close()
    alive()


@case
def a_stream_is_not_a_way_to_send_more():
    """What follows a request whose answer is a stream waits for its end, in bounds."""
    body = json.dumps({"command": "echo one; echo two >&2"}).encode()
    first = b"POST /command HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    with execd.connect() as sock:
        sock.sendall(first + b"GET /ping HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reader = Reader(sock)
        assert reader.head().status == 200
        assert b"".join(reader.chunks()).count(b"\n\n") >= 4
        assert reader.head().status == 200


if __name__ == "__main__":
    with execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    sys.exit(1 if failed else 0)
