"""Large bodies as fast as the other side takes them, and execd's upload form."""

import json
import socket
import time


def upload(address, head, size, tail=b""):
    """MB/s of a body of zeros."""
    block = b"\0" * (1 << 20)
    start = time.perf_counter()
    with socket.create_connection(address, timeout=300) as s:
        s.sendall(head)
        for _ in range(size >> 20):
            s.sendall(block)
        s.sendall(tail)
        status = s.recv(4096).split(b" ")[1]
    assert status in (b"200", b"201", b"204"), status
    return size / (time.perf_counter() - start) / 1e6


def download(address, target, size, headers=()):
    """MB/s of a body of that size."""
    lines = [f"GET {target} HTTP/1.1", "Host: x", "Connection: close", *(f"{k}: {v}" for k, v in dict(headers).items())]
    start, got = time.perf_counter(), 0
    with socket.create_connection(address, timeout=300) as s:
        s.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        sink = bytearray(1 << 20)
        while (n := s.recv_into(sink)) > 0:
            got += n
    assert got > size, got
    return size / (time.perf_counter() - start) / 1e6


def upload_form(target, path, size, headers=()):
    """Head and tail of an upload to execd, to be sent around a body of that size."""
    front = (b'--b\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\n\r\n' +
             json.dumps({"path": path}).encode() +
             b'\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    back = b"\r\n--b--\r\n"
    lines = [f"POST {target} HTTP/1.1", "Host: x", "Content-Type: multipart/form-data; boundary=b",
             f"Content-Length: {len(front) + size + len(back)}", *(f"{k}: {v}" for k, v in dict(headers).items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + front, back
