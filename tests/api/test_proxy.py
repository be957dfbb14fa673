#!/usr/bin/env python3
"""The reverse proxy between raw clients and raw, odd or hostile upstreams.

Both ends are sockets of this script, so that every byte and its moment are known: a case sends a
request to the demo server, takes the connection that the proxy makes, answers by hand, and looks at
what the client gets."""
# timeout: 300

import hashlib
import os
import select
import socket
import struct
import sys
import tempfile

from harness import DEADLINE, Program, Reader, case, read_all, run_cases, until


MIB = 1 << 20


class Peer(Reader):
    """An accepted connection of the proxy, seen from the upstream."""

    def __init__(self, sock):
        sock.settimeout(DEADLINE)
        super().__init__(sock)

    def request(self):
        """(request line, fields) of the next request."""
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        return lines[0], [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:]]

    def send(self, data):
        self.sock.sendall(data)

    def is_cut(self):
        """Wait for the proxy to close or reset this connection."""
        try:
            while self.sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
        return True

    def is_silent(self):
        """Nothing has arrived, and it was not closed."""
        return not select.select([self.sock], [], [], 0)[0]

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Upstream:
    def __init__(self, family=socket.AF_INET, address=("127.0.0.1", 0)):
        self.sock = socket.socket(family)
        self.sock.bind(address)
        self.sock.listen(64)
        self.sock.settimeout(DEADLINE)

    @property
    def address(self):
        return "{}:{}".format(*self.sock.getsockname())

    def accept(self):
        return Peer(self.sock.accept()[0])

    def nobody_called(self):
        return not select.select([self.sock], [], [], 0)[0]


upstream = Upstream()
# memory is measured: freed blocks must not be hoarded where AddressSanitizer looks on
ENV = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")
demo = Program("http-demo", "--port", "0", "--upstream", upstream.address, env=ENV)


def send(sock, target="/proxy/x", method="GET", fields=(), body=b"", version="1.1"):
    head = f"{method} {target} HTTP/{version}\r\nHost: client.example\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in fields)
    sock.sendall(head.encode("latin-1") + b"\r\n" + body)


def get_all(fields, name):
    return [value for key, value in fields if key.lower() == name]


def exchange(answer, method="GET", fields=(), body=b"", close=False, version="1.1"):
    """One request through the proxy, answered by these bytes; what the client gets."""
    with demo.connect() as client:
        send(client, method=method, fields=fields, body=body, version=version)
        with upstream.accept() as up:
            up.request()
            up.send(answer)
            if close:
                up.close()
            return Reader(client).reply(to_head=method == "HEAD")


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

# --- heads ---


@case
def target_bytes_are_not_altered():
    for target in ("/a//b/../c/%2e%2E/%2f?q=%zz&x=+&&y=%00", "/", "/;p=1?", "/%", "/a|b{}\\\"<>^`"):
        with demo.connect() as client:
            send(client, "/proxy" + target)
            with upstream.accept() as up:
                assert up.request()[0] == f"GET {target} HTTP/1.1", target
                up.send(OK)
                assert Reader(client).reply().body == b"ok"


@case
def hop_by_hop_fields_stay_on_their_hop():
    sent = [("Connection", "close, X-Hop"), ("Connection", "x-other"), ("X-Hop", "1"),
            ("X-Other", "1"), ("TE", "trailers"), ("Trailer", "X"), ("Keep-Alive", "timeout=1"),
            ("Proxy-Connection", "keep-alive"), ("Proxy-Authorization", "Basic Zm9v"),
            ("Upgrade", "websocket"), ("X-Secret", "s"), ("X-End", "to end"), ("X-Rep", "a"),
            ("X-Rep", "b"), ("Cookie", "c=d")]
    with demo.connect() as client:
        send(client, fields=sent)
        with upstream.accept() as up:
            _, fields = up.request()
            names = [name.lower() for name, _ in fields]
            for gone in ("connection", "x-hop", "x-other", "te", "trailer", "keep-alive",
                         "proxy-connection", "proxy-authorization", "upgrade", "x-secret",
                         "content-length", "transfer-encoding"):
                assert gone not in names, (gone, fields)
            assert get_all(fields, "x-rep") == ["a", "b"]
            assert get_all(fields, "x-end") == ["to end"]
            assert get_all(fields, "cookie") == ["c=d"]
            assert get_all(fields, "host") == ["client.example"]
            up.send(OK)
            assert Reader(client).reply().status == 200


@case
def forwarding_fields_are_appended_not_believed():
    with demo.connect() as client:
        send(client, fields=[("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "192.0.2.2"),
                             ("X-Forwarded-Proto", "gopher"), ("X-Forwarded-Host", "evil")])
        with upstream.accept() as up:
            _, fields = up.request()
            assert get_all(fields, "x-forwarded-for") == ["192.0.2.1, 192.0.2.2, 127.0.0.1"]
            assert get_all(fields, "x-forwarded-proto") == ["http"]
            assert get_all(fields, "x-forwarded-host") == ["client.example"]
            up.send(OK)
            Reader(client).reply()


@case
def forwarding_fields_cannot_be_nominated_away():
    with demo.connect() as client:
        send(client, fields=[("Connection", "x-forwarded-for, host, x-forwarded-proto")])
        with upstream.accept() as up:
            _, fields = up.request()
            assert get_all(fields, "x-forwarded-for") == ["127.0.0.1"]
            assert get_all(fields, "host") == ["client.example"]
            up.send(OK)
            Reader(client).reply()


@case
def answer_fields_pass_apart_and_in_order():
    r = exchange(b"HTTP/1.1 418 Whatever\r\nSet-Cookie: a=1\r\nX-One: 1\r\nSet-Cookie: b=2\r\n"
                 b"Connection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n"
                 b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 3\r\n"
                 b"Proxy-Authenticate: Basic\r\nServer: odd\r\n\r\nabc")
    assert (r.status, r.body) == (418, b"abc")
    assert r.get_all("set-cookie") == ["a=1", "b=2"]
    assert r.get_all("content-length") == ["3"]
    assert len(r.get_all("date")) == 1
    assert r.get("server") == "odd"
    for gone in ("x-hop", "keep-alive", "proxy-authenticate", "connection"):
        assert r.get(gone) is None, gone


# --- bodies of answers ---


@case
def chunked_answer_arrives_whole():
    r = exchange(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n")
    assert (r.body, r.get("transfer-encoding"), r.get("content-length")) == \
        (b"abc0123456789", "chunked", None)


@case
def answer_until_close_becomes_chunked():
    r = exchange(b"HTTP/1.1 200 OK\r\n\r\nto the end", close=True)
    assert (r.body, r.get("transfer-encoding")) == (b"to the end", "chunked")


@case
def http_1_0_upstream_is_understood():
    r = exchange(b"HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nold", close=True)
    assert (r.body, r.get("content-type")) == (b"old", "a/b")


@case
def http_1_0_client_gets_no_chunks():
    with demo.connect() as client:
        send(client, version="1.0")
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
            r = Reader(client).reply()
            assert (r.body, r.get("transfer-encoding"), r.get("connection")) == \
                (b"abc", None, "close")


@case
def bodiless_answers_leave_both_connections_usable():
    answers = [("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", 200, "1000"),
               ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 204, None),
               ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\nETag: \"x\"\r\n\r\n",
                304, "77"),
               ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, "0"),
               ("HEAD", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, None)]
    with demo.connect() as client:
        reader, up = Reader(client), None
        for method, answer, status, length in answers:
            send(client, method=method)
            up = up or upstream.accept()
            assert up.request()[0].startswith(method + " ")
            up.send(answer)
            r = reader.reply(to_head=method == "HEAD")
            assert (r.status, r.get("content-length"), r.body) == (status, length, b""), answer
        send(client)
        up.request()
        up.send(OK)
        assert reader.reply().body == b"ok"
        assert upstream.nobody_called()
        up.close()


@case
def interim_answers_are_skipped():
    r = exchange(b"HTTP/1.1 100 Continue\r\n\r\n"
                 b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + OK)
    assert (r.status, r.body, r.get("link")) == (200, b"ok", None)


@case
def every_event_arrives_before_the_next_is_sent():
    with demo.connect() as client:
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    b"Transfer-Encoding: chunked\r\n\r\n")
            reader = Reader(client)
            assert reader.head().get("content-type") == "text/event-stream"
            chunks = reader.chunks()
            for i in range(50):
                event = b"data: %d\n\n" % i
                up.send(b"%x\r\n%s\r\n" % (len(event), event))
                assert next(chunks) == event
            up.send(b"0\r\n\r\n")
            assert list(chunks) == []


# --- hostile or broken upstreams ---


@case
def nonsense_from_the_upstream_is_a_502():
    table = {
        "not http": b"220 mail.example ESMTP\r\n\r\n",
        "bare LF": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
                              b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
        "odd length": b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
        "gzip transfer coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "folded": b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n",
        "NUL": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "blank before colon": b"HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n",
        "status 099": b"HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
        "status 600": b"HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n",
        "HTTP/2": b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "unasked 101": b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
                       b"Upgrade: websocket\r\n\r\n",
        "huge head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 70000 + b"\r\n\r\n",
        "many fields": b"HTTP/1.1 200 OK\r\n" + b"X: a\r\n" * 200 + b"\r\n",
        "endless interim": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    }
    for name, answer in table.items():
        with demo.connect() as client:
            send(client)
            with upstream.accept() as up:
                up.request()
                try:
                    up.send(answer)
                except (BrokenPipeError, ConnectionResetError):
                    pass
                r = Reader(client).reply()
                assert r.status == 502, (name, r.status)
                assert up.is_cut(), name


@case
def no_answer_at_all_is_a_502():
    with demo.connect() as client:
        for end in (Peer.close, Peer.reset):
            send(client)
            with upstream.accept() as up:
                up.request()
                end(up)
            assert Reader(client).reply().status == 502
        for part in (b"HTTP/1.1 200 OK\r\nContent-Le", b"H"):
            send(client)
            with upstream.accept() as up:
                up.request()
                up.send(part)
            assert Reader(client).reply().status == 502


def broken_off(answer, end=Peer.close):
    """What the client sees of an answer that breaks off, and that it is not kept alive."""
    with demo.connect() as client:
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(answer)
            reader = Reader(client)
            assert reader.head().status == 200
            end(up)
        return reader.to_eof()


@case
def a_broken_answer_never_looks_complete():
    assert broken_off(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc") in (b"abc", b"")
    for end in (Peer.close, Peer.reset, lambda up: up.send(b"ZZ\r\n"),
                lambda up: up.send(b"2;ext=1\r\nab\r\n0\r\n\r\n"),
                lambda up: up.send(b"0\r\nX-Trailer: 1\r\n\r\n")):
        rest = broken_off(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", end)
        assert rest in (b"3\r\nabc\r\n", b""), rest


@case
def bytes_behind_an_answer_do_not_become_the_next():
    with demo.connect() as client:
        reader = Reader(client)
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
            assert reader.reply().body == b"ok"
            assert up.is_cut()
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(OK)
            assert reader.reply().body == b"ok"


@case
def a_204_with_a_body_does_not_poison_the_connection():
    with demo.connect() as client:
        reader = Reader(client)
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n")
            assert reader.reply().status == 204
            assert up.is_cut()


@case
def unreachable_upstream_is_a_502():
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))  # bound but not listening
        address = "127.0.0.1:%d" % placeholder.getsockname()[1]
        with Program("http-demo", "--port", "0", "--upstream", address) as lonely:
            with lonely.connect() as client:
                reader = Reader(client)
                for _ in range(3):
                    send(client)
                    assert reader.reply().status == 502
                send(client, method="POST", fields=[("Content-Length", "5")], body=b"hello")
                assert reader.reply().status == 502
                send(client, "/")
                assert reader.reply().body == b"hello\n"
            assert lonely.stop() == 0


# --- kept-alive connections ---


@case
def connections_are_kept_and_shared():
    with demo.connect() as one, demo.connect() as two:
        send(one)
        with upstream.accept() as up:
            for client, other in ((one, two), (two, one), (one, two)):
                up.request()
                up.send(OK)
                assert Reader(client).reply().body == b"ok"
                send(other)
            up.request()
            up.send(OK)
            assert Reader(two).reply().body == b"ok"
            assert upstream.nobody_called()


def on_a_used_connection(client):
    """An upstream connection that has served once and waits for its second request."""
    send(client)
    up = upstream.accept()
    up.request()
    up.send(OK)
    assert Reader(client).reply().body == b"ok"
    return up


@case
def a_connection_closed_while_idle_is_not_used():
    with demo.connect() as client:
        on_a_used_connection(client).close()
        send(client, method="POST", fields=[("Content-Length", "2")], body=b"hi")
        with upstream.accept() as up:
            assert up.request()[0].startswith("POST")
            assert up.exactly(2) == b"hi"
            up.send(OK)
            assert Reader(client).reply().body == b"ok"


@case
def an_idempotent_request_is_sent_again_once():
    for end in (Peer.close, Peer.reset):
        with demo.connect() as client:
            up = on_a_used_connection(client)
            send(client, "/proxy/again", fields=[("X-Id", "7")])
            first = up.request()
            end(up)
            with upstream.accept() as up:
                assert up.request() == first
                up.send(OK)
                assert Reader(client).reply().body == b"ok"
        with demo.connect() as client:
            up = on_a_used_connection(client)
            send(client)
            up.request()
            end(up)
            with upstream.accept() as up:
                up.request()
                end(up)
            assert Reader(client).reply().status == 502
            assert upstream.nobody_called()


@case
def other_requests_are_not_sent_again():
    with demo.connect() as client:
        up = on_a_used_connection(client)
        send(client, method="POST", fields=[("Content-Length", "2")], body=b"hi")
        up.request()
        up.exactly(2)
        up.close()
        assert Reader(client).reply().status == 502
        assert upstream.nobody_called()
    with demo.connect() as client:  # nor one that was half answered
        up = on_a_used_connection(client)
        send(client)
        up.request()
        up.send(b"HTTP/1.1 2")
        up.close()
        assert Reader(client).reply().status == 502
        assert upstream.nobody_called()


# --- request bodies ---


@case
def known_length_is_kept_and_chunks_are_made_anew():
    body = os.urandom(100000)
    with demo.connect() as client:
        reader = Reader(client)
        send(client, method="POST", fields=[("Content-Length", len(body))], body=body)
        with upstream.accept() as up:
            _, fields = up.request()
            assert get_all(fields, "content-length") == [str(len(body))]
            assert up.exactly(len(body)) == body
            up.send(OK)
            assert reader.reply().status == 200
            send(client, method="POST", fields=[("Transfer-Encoding", "chunked")],
                 body=b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
            _, fields = up.request()
            assert get_all(fields, "transfer-encoding") == ["chunked"]
            assert b"".join(up.chunks()) == b"hello world"
            up.send(OK)
            assert reader.reply().status == 200
            send(client, method="POST", fields=[("Content-Length", "0")])
            _, fields = up.request()
            assert get_all(fields, "content-length") == ["0"]
            up.send(OK)
            assert reader.reply().status == 200


@case
def expect_continue_is_settled_on_each_hop():
    with demo.connect() as client:
        send(client, method="PUT", fields=[("Content-Length", "5"), ("Expect", "100-continue")])
        reader = Reader(client)
        assert reader.head().status == 100
        with upstream.accept() as up:
            _, fields = up.request()
            assert get_all(fields, "expect") == []
            client.sendall(b"hello")
            assert up.exactly(5) == b"hello"
            up.send(OK)
            assert reader.reply().body == b"ok"


@case
def both_ways_at_once():
    with demo.connect() as client:
        send(client, method="POST", fields=[("Transfer-Encoding", "chunked")])
        reader = Reader(client)
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            assert reader.head().status == 200
            chunks, uploads = reader.chunks(), up.chunks()
            for i in range(20):
                word = b"word %d" % i
                client.sendall(b"%x\r\n%s\r\n" % (len(word), word))
                assert next(uploads) == word
                up.send(b"%x\r\n%s\r\n" % (len(word), word))
                assert next(chunks) == word
            client.sendall(b"0\r\n\r\n")
            assert list(uploads) == []
            up.send(b"0\r\n\r\n")
            assert list(chunks) == []


def push(sock, data):
    """Send as much as the other side takes without waiting; the number of bytes."""
    sent = 0
    sock.setblocking(False)
    try:
        while sent < len(data) and select.select([], [sock], [], 0.3)[1]:
            sent += sock.send(memoryview(data)[sent:sent + 65536])
    finally:
        sock.settimeout(DEADLINE)
    return sent


@case
def an_early_refusal_reaches_a_client_that_is_still_sending():
    refusal = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 7\r\n\r\ntoo big"
    for end in (Peer.close, Peer.reset, None):
        with demo.connect() as client:
            send(client, method="POST", fields=[("Content-Length", str(1 << 30))],
                 body=b"x" * 100000)
            with upstream.accept() as up:
                up.request()
                up.send(refusal)
                if end == Peer.close:
                    up.close()
                elif end == Peer.reset:
                    # the proxy must have got the answer before the reset, which may overtake it
                    r = Reader(client)
                    assert r.reply().status == 413
                    up.reset()
                    continue
                try:
                    push(client, b"x" * (4 * MIB))
                except OSError:
                    pass
                try:
                    r = Reader(client).reply()
                except ConnectionResetError as error:
                    raise AssertionError("the answer was lost") from error
                assert (r.status, r.body) == (413, b"too big")


@case
def an_early_answer_to_a_written_body_is_found_in_the_socket():
    # The proxy learns by a failing write that the upstream has hung up; its answer came before.
    with demo.connect() as client:
        send(client, method="POST", fields=[("Transfer-Encoding", "chunked")])
        with upstream.accept() as up:
            up.request()
            up.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            push(client, b"1000\r\n" + b"y" * 4096 + b"\r\n")
            up.send(b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno")
            up.close()  # unread bytes make this a reset
        r = Reader(client).reply()
        assert (r.status, r.body) == (403, b"no")


# --- the client goes ---


@case
def a_client_that_leaves_takes_the_upstream_along():
    stages = {
        "waiting": b"",
        "head": b"HTTP/1.1 200 OK\r\nContent-Le",
        "stream": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        "until close": b"HTTP/1.1 200 OK\r\n\r\nabc",
    }
    for name, answer in stages.items():
        client = demo.connect()
        send(client)
        with upstream.accept() as up:
            up.request()
            if answer:
                up.send(answer)
            if name in ("stream", "until close"):
                Reader(client).head()
            client.close()
            assert up.is_cut(), name


@case
def a_client_that_leaves_mid_upload_takes_the_upstream_along():
    for end in ("close", "reset"):
        client = demo.connect()
        send(client, method="POST", fields=[("Content-Length", "100")], body=b"part")
        with upstream.accept() as up:
            up.request()
            assert up.exactly(4) == b"part"
            if end == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert up.is_cut()


# --- backpressure ---


@case
def a_slow_client_holds_the_upstream_back():
    before = demo.rss_kib()
    data = os.urandom(MIB) * 48
    with demo.connect() as client:
        send(client)
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data))
            sent = push(up.sock, data)
            assert sent < len(data), "nobody held it back"
            assert demo.rss_kib() - before < 8 * 1024
            reader, got = Reader(client), hashlib.sha256()
            assert reader.head().status == 200
            left = len(data)
            while left:
                if sent < len(data):
                    up.sock.setblocking(False)
                    try:
                        sent += up.sock.send(memoryview(data)[sent:sent + 262144])
                    except BlockingIOError:
                        pass
                if reader.rest or select.select([client], [], [], 0)[0]:
                    piece = reader.rest or client.recv(262144)
                    reader.rest = b""
                    got.update(piece)
                    left -= len(piece)
            assert got.digest() == hashlib.sha256(data).digest()
            assert demo.rss_kib() - before < 8 * 1024


@case
def a_slow_upstream_holds_the_client_back():
    before = demo.rss_kib()
    data = os.urandom(MIB) * 48
    with demo.connect() as client:
        send(client, method="PUT", fields=[("Content-Length", len(data))])
        with upstream.accept() as up:
            up.request()
            sent = push(client, data)
            assert sent < len(data), "nobody held it back"
            assert demo.rss_kib() - before < 8 * 1024
            got, left = hashlib.sha256(), len(data)
            client.setblocking(False)
            while left:
                try:
                    if sent < len(data):
                        sent += client.send(memoryview(data)[sent:sent + 262144])
                except BlockingIOError:
                    pass
                if up.rest or select.select([up.sock], [], [], 0)[0]:
                    piece = up.rest or up.sock.recv(262144)
                    up.rest = b""
                    got.update(piece)
                    left -= len(piece)
            client.settimeout(DEADLINE)
            assert got.digest() == hashlib.sha256(data).digest()
            up.send(OK)
            assert Reader(client).reply().body == b"ok"


# --- upgrades ---

UPGRADE = [("Connection", "keep-alive, Upgrade"), ("Upgrade", "echo/1"), ("X-End", "1")]
SWITCH = (b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n"
          b"X-Up: 1\r\n\r\n")


def open_tunnel(client, early=b"", first=b""):
    send(client, fields=UPGRADE, body=early)
    up = upstream.accept()
    _, fields = up.request()
    assert [v.lower() for v in get_all(fields, "connection")] == ["upgrade"]
    assert get_all(fields, "upgrade") == ["echo/1"]
    assert get_all(fields, "x-end") == ["1"]
    up.send(SWITCH + first)
    reader = Reader(client)
    r = reader.head()
    assert (r.status, r.get("upgrade"), r.get("x-up")) == (101, "echo/1", "1")
    assert r.get("connection").lower() == "upgrade"
    return reader, up


@case
def an_upgrade_becomes_a_tunnel():
    with demo.connect() as client:
        reader, up = open_tunnel(client, early=b"early words", first=b"first words")
        with up:
            assert reader.exactly(11) == b"first words"
            assert up.exactly(11) == b"early words"
            for i in range(100):
                client.sendall(b"to up %02d" % i)
                assert up.exactly(8) == b"to up %02d" % i
                up.send(b"to client %02d" % i)
                assert reader.exactly(12) == b"to client %02d" % i


@case
def half_closes_pass_through_the_tunnel():
    with demo.connect() as client:
        reader, up = open_tunnel(client)
        with up:
            client.sendall(b"last words")
            client.shutdown(socket.SHUT_WR)
            assert up.to_eof() == b"last words"
            for _ in range(10):
                up.send(b"still here")
                assert reader.exactly(10) == b"still here"
            up.sock.shutdown(socket.SHUT_WR)
            assert reader.to_eof() == b""
    with demo.connect() as client:
        reader, up = open_tunnel(client)
        with up:
            up.send(b"last words")
            up.sock.shutdown(socket.SHUT_WR)
            assert reader.to_eof() == b"last words"
            for _ in range(10):
                client.sendall(b"still here")
                assert up.exactly(10) == b"still here"
            client.shutdown(socket.SHUT_WR)
            assert up.to_eof() == b""


@case
def a_cut_passes_through_the_tunnel():
    for cut_client in (True, False):
        client = demo.connect()
        _, up = open_tunnel(client)
        if cut_client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
            assert up.is_cut()
            up.close()
        else:
            up.reset()
            assert read_all(client) == b""
            client.close()


@case
def a_tunnel_holds_back_both_ways_and_loses_nothing():
    before = demo.rss_kib()
    data = os.urandom(MIB) * 24
    with demo.connect() as client:
        reader, up = open_tunnel(client)
        with up:
            for source, sink in ((client, up.sock), (up.sock, client)):
                sent = push(source, data)
                assert sent < len(data), "nobody held it back"
                assert demo.rss_kib() - before < 8 * 1024
                got, left = hashlib.sha256(), len(data)
                while left:
                    source.setblocking(False)
                    try:
                        if sent < len(data):
                            sent += source.send(memoryview(data)[sent:sent + 262144])
                    except BlockingIOError:
                        pass
                    source.settimeout(DEADLINE)
                    if select.select([sink], [], [], 0)[0]:
                        piece = sink.recv(262144)
                        got.update(piece)
                        left -= len(piece)
                assert got.digest() == hashlib.sha256(data).digest()


@case
def a_refused_upgrade_is_an_ordinary_answer():
    with demo.connect() as client:
        reader = Reader(client)
        send(client, fields=UPGRADE)
        with upstream.accept() as up:
            up.request()
            up.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
            r = reader.reply()
            assert (r.status, r.body) == (403, b"no")
            send(client)  # both connections live on
            up.request()
            up.send(OK)
            assert reader.reply().body == b"ok"


# --- the whole ---


@case
def pipelined_requests_are_answered_in_order():
    with demo.connect() as client:
        client.sendall(b"".join(b"GET /proxy/%d HTTP/1.1\r\nHost: x\r\n\r\n" % i
                                for i in range(20)))
        reader = Reader(client)
        with upstream.accept() as up:
            for i in range(20):
                assert up.request()[0] == f"GET /{i} HTTP/1.1"
                up.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n%02d" % i)
                assert reader.reply().body == b"%02d" % i


@case
def many_at_once_do_not_mix():
    clients = [demo.connect() for _ in range(50)]
    for i, client in enumerate(clients):
        send(client, f"/proxy/{i}")
    for _ in clients:
        with upstream.accept() as up:
            name = up.request()[0].split()[1].encode()
            up.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s"
                    % (len(name), name))
    for i, client in enumerate(clients):
        assert Reader(client).reply().body == b"/%d" % i
        client.close()


@case
def unix_sockets_are_upstreams_too():
    path = os.path.join(tempfile.mkdtemp(prefix="osb-proxy-"), "up")
    up_sock = Upstream(socket.AF_UNIX, path)
    with Program("http-demo", "--port", "0", "--upstream", f"unix:{path}") as other:
        with other.connect() as client:
            reader = Reader(client)
            send(client)
            with up_sock.accept() as up:
                for _ in range(3):
                    up.request()
                    up.send(OK)
                    assert reader.reply().body == b"ok"
                    send(client)
                up.request()
                up.send(OK)
                assert reader.reply().body == b"ok"
        assert other.stop() == 0


@case
def nothing_is_left_open():
    idle = demo.fds()  # may still hold what is being closed
    until(lambda: demo.fds() <= BASE_FDS, f"descriptors: {idle}, at first {BASE_FDS}")


BASE_FDS = demo.fds()
failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
code = demo.stop()
print("ok leaves_cleanly" if code == 0 else f"not ok leaves_cleanly\n  exit code {code}")
sys.exit(1 if failed or code else 0)
