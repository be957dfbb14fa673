#!/usr/bin/env python3
"""The table of hostile requests against the live demo server; after each one it must serve others
as if nothing had happened."""
# timeout: 300

import select
import socket
import struct

from harness import DEADLINE, Program, Reader, case, main, request, until
from hostile_cases import CASES, CLOSE

demo = Program("http-demo", "--port", "0", "--head-timeout-ms", "500", "--body-timeout-ms", "500",
               "--idle-timeout-ms", "60000", "--write-timeout-ms", "2000")


def pieces_of(entry):
    data = entry["send"]
    if callable(data):
        return data()
    if entry["drip"]:
        return (data[i:i + 1] for i in range(len(data)))
    return iter((data,))


def send(sock, entry):
    """Send it all, or as much as the server wants to hear before it answers."""
    pace = 0.02 if entry["drip"] else 0
    try:
        for piece in pieces_of(entry):
            while piece:
                readable, writable, _ = select.select([sock], [sock], [], DEADLINE)
                if readable:
                    return
                assert writable, "neither read nor answered"
                piece = piece[sock.send(piece):]
            if pace:
                select.select([sock], [], [], pace)
    except (BrokenPipeError, ConnectionResetError):
        pass


def check_websocket(reader, code):
    """Frames until the close frame, which must carry the code; then the end."""
    while True:
        first, length = reader.exactly(2)
        assert length < 126, f"odd frame from the server: {first:#x} {length}"
        payload = reader.exactly(length)
        if first & 15 == 8:
            break
    got = struct.unpack(">H", payload[:2])[0] if payload else None
    assert got == code, f"closed with {got} instead of {code}"


def attack(entry):
    with demo.connect() as sock:
        send(sock, entry)
        if entry["then"] == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        if entry["then"] == "shut":
            sock.shutdown(socket.SHUT_WR)
        reader = Reader(sock)
        expected = entry["expect"]
        if expected == CLOSE:
            expected = []
        elif isinstance(expected, int):
            expected = [expected]
        for status in expected:
            reply = reader.reply() if status != 101 else reader.head()
            assert reply.status == status, f"{reply.status} instead of {status}: {reply.body!r}"
        if entry["code"] is not None:
            check_websocket(reader, entry["code"])
        if entry["keep"]:
            sock.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert reader.reply().status == 200
        else:
            rest = reader.to_eof()
            assert rest == b"", f"more than was due: {rest[:200]!r}"


def add(entry):
    def run():
        attack(entry)
        reply = request(demo, "GET", "/")
        assert (reply.status, reply.body) == (200, b"hello\n")

    run.__name__ = entry["name"]
    case(run)


assert len({entry["name"] for entry in CASES}) == len(CASES)
assert len(CASES) >= 45
request(demo, "GET", "/")
fds_at_rest = demo.fds()
for hostile in CASES:
    add(hostile)


@case
def nothing_is_left_behind():
    until(lambda: demo.fds() <= fds_at_rest, "all connections are gone")


@case
def the_server_ends_well():
    assert demo.stop() == 0


main()
