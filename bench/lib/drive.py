"""Many HTTP conversations at once from one thread, so that on a small machine the load itself costs little.

A conversation is a generator: it yields the bytes of a request and is sent the body of the answer.

    def flow():
        body = yield request("GET", "/health")

    times = drive(("127.0.0.1", 8080), [flow() for _ in range(100)])

An answer that is not 2xx, or a conversation that breaks off, counts as a failure.
"""

import selectors
import socket
import time


class Failed(Exception):
    pass


def request(method, target, headers=(), body=b""):
    lines = [f"{method} {target} HTTP/1.1", "Host: bench", *(f"{k}: {v}" for k, v in dict(headers).items())]
    if body or method in ("POST", "PUT"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(data):
    """(status, body) of a whole answer, or None while more is to come."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, body = data[:end].lower(), data[end + 4:]
    status = int(head[9:12])
    if b"\r\ntransfer-encoding: chunked" in head:
        return (status, bytes(body)) if body.endswith(b"0\r\n\r\n") else None
    at = head.find(b"\r\ncontent-length:")
    length = int(head[at + 17:].split(b"\r\n", 1)[0]) if at >= 0 else 0
    return (status, bytes(body)) if len(body) >= length else None


class Conversation:
    def __init__(self, flow):
        self.sock, self.flow, self.data = None, flow, bytearray()
        self.began = self.took = self.why = None

    def connect(self, address, limit):
        self.sock = socket.create_connection(address, timeout=limit)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def begin(self):
        self.began = time.perf_counter()
        self.sock.sendall(next(self.flow))

    def readable(self):
        """True when it is over."""
        piece = self.sock.recv(1 << 16)
        if not piece:
            raise Failed("the connection was closed")
        self.data += piece
        whole = answer(self.data)
        if whole is None:
            return False
        if not 200 <= whole[0] < 300:
            raise Failed(f"{whole[0]}: {whole[1][:200]!r}")
        self.data.clear()
        try:
            self.sock.sendall(self.flow.send(whole[1]))
        except StopIteration:
            self.took = (time.perf_counter() - self.began) * 1000
            return True
        return False


def drive(address, flows, interval=0.0, limit=120.0):
    """Start a flow every `interval` seconds (all at once for 0), each on a connection of its own that is open
    before. Returns (milliseconds or None for each, the wall time of all in milliseconds, words of the failures)."""
    talks = [Conversation(flow) for flow in flows]
    if not interval:
        for talk in talks:
            talk.connect(address, limit)
    waiting, start = list(reversed(talks)), time.perf_counter()
    selector, live = selectors.DefaultSelector(), 0
    while (waiting or live) and time.perf_counter() - start < limit:
        while waiting and time.perf_counter() >= start + interval * (len(talks) - len(waiting)):
            talk = waiting.pop()
            if interval:
                talk.connect(address, limit)
            talk.begin()
            selector.register(talk.sock, selectors.EVENT_READ, talk)
            live += 1
        due = start + interval * (len(talks) - len(waiting)) if waiting else start + limit
        for key, _ in selector.select(max(0.0, due - time.perf_counter())):
            talk = key.data
            try:
                over = talk.readable()
            except (Failed, OSError) as error:
                talk.why, over = str(error), True
            if over:
                selector.unregister(talk.sock)
                live -= 1
    wall = (time.perf_counter() - start) * 1000
    for talk in talks:
        if talk.sock:
            talk.sock.close()
    return ([talk.took for talk in talks], wall,
            [talk.why or "not within its time" for talk in talks if talk.took is None])
