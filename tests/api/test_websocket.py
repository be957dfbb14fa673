#!/usr/bin/env python3
"""WebSocket as a raw client sees it: the demo server's echo, directly and through its own proxy.

Frames are made and read by hand here: the tests must be able to break every rule."""
# timeout: 300

import os
import select
import socket
import struct
import sys

from harness import DEADLINE, Program, Reader, case, request, run_cases, until

MIB = 1 << 20
MAX_MESSAGE = 4 * MIB  # what the demo allows
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
KEY, ACCEPT = "dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455 1.3

# memory is measured: freed blocks must not be hoarded where AddressSanitizer looks on
ENV = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=1")
demo = Program("http-demo", "--port", "0", env=ENV)
front = Program("http-demo", "--port", "0", "--upstream", f"127.0.0.1:{demo.port}",
                env=ENV)


def handshake(**changes):
    fields = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
              "Sec-WebSocket-Key": KEY}
    fields.update({name.replace("_", "-"): value for name, value in changes.items()})
    return [(name, value) for name, value in fields.items() if value is not None]


def mask_bytes(payload, mask):
    key = (mask * (len(payload) // 4 + 1))[:len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(len(payload),
                                                                                 "big")


def frame(opcode, payload=b"", fin=True, mask=b"\x01\x02\x03\x04", rsv=0, length=None):
    n = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if n < 126:
        head += bytes([bit | n])
    elif n < 1 << 16:
        head += bytes([bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", n)
    return head + (mask + mask_bytes(payload, mask) if mask else payload)


def close_payload(code, reason=b""):
    return struct.pack(">H", code) + reason


class Client(Reader):
    """A WebSocket after its handshake."""

    def __init__(self, program=demo, path="/ws-echo", buffer=None):
        super().__init__(socket.socket())
        if buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(program.address)
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in handshake())
        self.sock.sendall(head.encode() + b"\r\n")
        answer = self.head()
        assert answer.status == 101, answer.status
        assert answer.get("sec-websocket-accept") == ACCEPT
        assert answer.get("upgrade") == "websocket"
        assert answer.get("sec-websocket-extensions") is None

    def send(self, *args, **kwargs):
        self.sock.sendall(frame(*args, **kwargs))

    def frame(self):
        """(opcode, payload) of the next frame, which must be whole and unmasked."""
        first, second = self.exactly(2)
        assert first & 0xf0 == 0x80, hex(first)
        assert not second & 0x80, "masked by the server"
        n = second
        if n == 126:
            n, = struct.unpack(">H", self.exactly(2))
            assert n >= 126
        elif n == 127:
            n, = struct.unpack(">Q", self.exactly(8))
            assert n >= 1 << 16
        return first & 15, self.exactly(n)

    def closed_with(self):
        """The code of the close frame that ends it all."""
        opcode, payload = self.frame()
        assert opcode == CLOSE, (opcode, payload[:80])
        assert self.to_eof() == b""
        return struct.unpack(">H", payload[:2])[0] if payload else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()


# --- the handshake ---


@case
def bad_handshakes_are_refused():
    table = [
        (400, handshake(Sec_WebSocket_Key="short")),
        (400, handshake(Sec_WebSocket_Key=None)),
        (400, handshake(Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ=!")),
        (400, handshake() + [("Sec-WebSocket-Key", KEY)]),
        (426, handshake(Sec_WebSocket_Version="8")),
        (426, handshake(Sec_WebSocket_Version=None)),
        (426, handshake(Upgrade="h2c")),     # none of ours: the demo's own answer
        (426, handshake(Connection="keep-alive")),
        (426, []),
    ]
    for status, fields in table:
        r = request(demo, "GET", "/ws-echo", fields=fields)
        assert r.status == status, (r.status, fields)
    r = request(demo, "GET", "/ws-echo", fields=handshake(Sec_WebSocket_Version="8"))
    assert r.get("sec-websocket-version") == "13"


@case
def odd_but_valid_handshakes_are_accepted():
    with demo.connect() as s:
        s.sendall(b"GET /ws-echo HTTP/1.1\r\nhost: x\r\nconnection: keep-alive, uPGRADE\r\n"
                  b"upgrade: WebSocket\r\nsec-websocket-version: 13\r\n"
                  b"sec-websocket-extensions: permessage-deflate\r\n"
                  b"sec-websocket-key: " + KEY.encode() + b"\r\n\r\n" + frame(TEXT, b"at once"))
        reader = Reader(s)
        r = reader.head()
        assert (r.status, r.get("sec-websocket-extensions")) == (101, None)
        assert reader.exactly(9) == b"\x81\x07at once"


# --- messages ---


@case
def messages_come_back_as_they_were():
    for program, path in ((demo, "/ws-echo"), (front, "/proxy/ws-echo")):
        with Client(program, path) as ws:
            for size in (0, 1, 125, 126, 127, 65535, 65536, 70000, MIB, MAX_MESSAGE):
                data = os.urandom(size)
                ws.send(BINARY, data, mask=os.urandom(4))
                assert ws.frame() == (BINARY, data), size
            for text in ("", "plain", "ä€😀" * 1000, "\0\x7f"):
                ws.send(TEXT, text.encode())
                assert ws.frame() == (TEXT, text.encode())
            ws.send(CLOSE, close_payload(1000, b"bye"))
            assert ws.closed_with() == 1000


@case
def many_messages_in_one_piece():
    with Client() as ws:
        ws.sock.sendall(b"".join(frame(TEXT, b"%d" % i) for i in range(5000)))
        for i in range(5000):
            assert ws.frame() == (TEXT, b"%d" % i)


@case
def bytes_may_come_one_at_a_time():
    with Client() as ws:
        for byte in (frame(TEXT, "ein Stück".encode()) + frame(PING, b"?") +
                     frame(BINARY, b"x" * 200)):
            ws.sock.sendall(bytes([byte]))
        assert ws.frame() == (TEXT, "ein Stück".encode())
        assert ws.frame() == (PONG, b"?")
        assert ws.frame() == (BINARY, b"x" * 200)


@case
def fragments_are_put_together():
    with Client() as ws:
        text = "€uro".encode()
        ws.send(TEXT, text[:1], fin=False)  # cut within a character
        ws.send(0, b"", fin=False)
        ws.send(PING, b"between")
        assert ws.frame() == (PONG, b"between")
        ws.send(0, text[1:2], fin=False)
        ws.send(0, text[2:])
        assert ws.frame() == (TEXT, text)
        parts = [os.urandom(100000) for _ in range(20)]
        ws.send(BINARY, parts[0], fin=False)
        for part in parts[1:-1]:
            ws.send(0, part, fin=False)
        ws.send(0, parts[-1])
        assert ws.frame() == (BINARY, b"".join(parts))


@case
def pongs_nobody_asked_for_are_ignored():
    with Client() as ws:
        ws.send(PONG, b"hm")
        ws.send(TEXT, b"still here")
        assert ws.frame() == (TEXT, b"still here")


# --- the end ---


@case
def the_close_is_echoed_and_the_connection_ended():
    for payload, code in ((b"", None), (close_payload(1000), 1000), (close_payload(4999), 4999),
                          (close_payload(1001, "tschüß".encode()), 1001),
                          (close_payload(3000, b"r" * 123), 3000)):
        with Client() as ws:
            ws.send(CLOSE, payload)
            assert ws.closed_with() == code


@case
def what_follows_a_close_is_not_read():
    with Client() as ws:
        ws.sock.sendall(frame(CLOSE, close_payload(1000)) + frame(TEXT, b"too late") +
                        os.urandom(1000))
        assert ws.closed_with() == 1000


@case
def rules_are_kept():
    cut = "€".encode()[:2]
    table = {
        "unmasked": (1002, frame(TEXT, b"x", mask=None)),
        "reserved bit": (1002, frame(TEXT, b"x", rsv=4)),
        "opcode 3": (1002, frame(3, b"x")),
        "opcode 11": (1002, frame(11, b"x")),
        "fragmented ping": (1002, frame(PING, b"x", fin=False)),
        "long ping": (1002, frame(PING, b"x" * 126)),
        "continuation of nothing": (1002, frame(0, b"x")),
        "start within": (1002, frame(TEXT, b"x", fin=False) + frame(TEXT, b"y")),
        "length not shortest": (1002, b"\x82\xfe\x00\x05mask12345"),
        "length of 2^63": (1002, b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"mask"),
        "not UTF-8": (1007, frame(TEXT, b"\xc0\x80")),
        "surrogate": (1007, frame(TEXT, b"\xed\xa0\x80")),
        "cut character": (1007, frame(TEXT, cut)),
        "cut character in fragments": (1007, frame(TEXT, cut, fin=False) + frame(0, b"x")),
        "wrong long before its end": (1007, frame(TEXT, b"\xff", length=MIB)),
        "too big": (1009, frame(BINARY, b"", length=MAX_MESSAGE + 1)),
        "huge": (1009, frame(BINARY, b"", length=1 << 62)),
        "too big in sum": (1009, frame(BINARY, b"x" * MIB, fin=False) * 1 +
                           frame(0, b"", length=3 * MIB + 1)),
        "close code of one byte": (1002, frame(CLOSE, b"x")),
        "close reason not UTF-8": (1007, frame(CLOSE, close_payload(1000, b"\xff"))),
    }
    for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535):
        table[f"close code {code}"] = (1002, frame(CLOSE, close_payload(code)))
    for name, (code, sent) in table.items():
        with Client() as ws:
            ws.sock.sendall(sent)
            got = ws.closed_with()
            assert got == code, (name, got)
    with Client() as ws:  # and the next one is served
        ws.send(TEXT, b"fine")
        assert ws.frame() == (TEXT, b"fine")


@case
def a_claimed_length_costs_nothing():
    before = demo.rss_kib()
    clients = [Client() for _ in range(50)]
    for ws in clients:
        ws.send(BINARY, b"only this", length=MAX_MESSAGE)
    with Client() as ws:  # they have been read before this one's message
        ws.send(TEXT, b"x")
        assert ws.frame() == (TEXT, b"x")
    assert demo.rss_kib() - before < 8 * 1024
    for ws in clients:
        ws.sock.close()


@case
def one_that_does_not_read_is_held_back():
    before = demo.rss_kib()
    message = frame(BINARY, b"x" * 60000)
    with Client() as ws:
        ws.sock.setblocking(False)
        sent = 0
        while sent < 64 * MIB and select.select([], [ws.sock], [], 0.3)[1]:
            sent += ws.sock.send(message[sent % len(message):])
        assert sent < 64 * MIB, "nobody held it back"
        assert demo.rss_kib() - before < 8 * 1024
        ws.sock.settimeout(DEADLINE)
        for _ in range(sent // len(message)):
            assert ws.frame() == (BINARY, b"x" * 60000)


@case
def a_message_of_full_size_fits_whatever_the_socket_takes():
    with Client(buffer=4096) as ws:
        data = os.urandom(MAX_MESSAGE)
        ws.send(BINARY, data)
        ws.send(PING, b"behind it")
        assert ws.frame() == (BINARY, data)


@case
def pings_of_one_that_does_not_read_do_not_pile_up():
    before = demo.rss_kib()
    pings = frame(PING, b"p" * 125) * 500
    with Client() as ws:
        ws.sock.setblocking(False)
        sent = 0
        while sent < 32 * MIB and select.select([], [ws.sock], [], 0.3)[1]:
            sent += ws.sock.send(pings[sent % len(pings):])
        assert demo.rss_kib() - before < 8 * 1024


@case
def one_that_just_leaves_is_forgotten():
    idle = demo.fds()
    for end in (lambda s: s.close(),
                lambda s: (s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                        struct.pack("ii", 1, 0)), s.close()),
                lambda s: s.shutdown(socket.SHUT_WR)):
        ws = Client()
        ws.send(TEXT, b"x")
        assert ws.frame() == (TEXT, b"x")
        end(ws.sock)
        until(lambda: demo.fds() <= idle, "the connection is closed")
        ws.sock.close()


@case
def through_the_proxy_the_same_rules_hold():
    with Client(front, "/proxy/ws-echo") as ws:
        ws.send(PING, b"far")
        assert ws.frame() == (PONG, b"far")
        ws.sock.sendall(frame(TEXT, b"\xff"))
        assert ws.closed_with() == 1007
    r = request(front, "GET", "/proxy/ws-echo", fields=handshake(Sec_WebSocket_Version="7"))
    assert (r.status, r.get("sec-websocket-version")) == (426, "13")


failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
for program, name in ((front, "the_proxy"), (demo, "the_server")):
    left = program.stop()
    failed += left != 0
    print(f"ok {name}_leaves_cleanly" if left == 0 else
          f"not ok {name}_leaves_cleanly\n  exit code {left}")
sys.exit(1 if failed else 0)
