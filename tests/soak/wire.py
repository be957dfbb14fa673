"""HTTP as clients of all manners speak it: those that wait for the answer, and those that do not."""

import http.client
import json
import socket
import urllib.parse

ADDRESS = ("127.0.0.1", 8080)
PATIENCE_S = 90  # far beyond any deadline of the server's: longer means hanging
BOUNDARY = "the-end-of-a-part"


class Lost(Exception):
    """The connection ended before the answer did: nobody knows what came of it."""


class Mute(Exception):
    """There was no memory for an answer: nobody knows what came of it either."""


class Hung(Exception):
    """No answer, and no end of the connection either."""


class Answer:
    def __init__(self, status, body):
        self.status, self.body = status, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        try:
            return self.json.get("code", "")
        except (ValueError, AttributeError):
            return ""

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def ask(method, path, body=None, headers=None, raw=None):
    """One request on a connection of its own, answered in full."""
    headers = dict(headers or {})
    data = raw
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    connection = http.client.HTTPConnection(*ADDRESS, timeout=PATIENCE_S)
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read())
    except TimeoutError as e:
        raise Hung(f"{method} {path}") from e
    except (OSError, http.client.HTTPException) as e:
        raise Lost(f"{method} {path}: {e!r}") from e
    finally:
        connection.close()


def text_of(method, path, body=None, headers=None):
    """A request as bytes, to be sent in part."""
    data = json.dumps(body).encode() if body is not None else b""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def leave_early(data, cut, read):
    """Send so much of a request, read so much of the answer if it comes soon, be gone without a word."""
    try:
        with socket.create_connection(ADDRESS, timeout=1) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not a farewell
            s.sendall(data[:cut])
            while read > 0:
                got = len(s.recv(min(read, 4096)))
                if got == 0:
                    return
                read -= got
    except OSError:
        pass


def read_slowly(data, pieces, size, wait):
    """Take an answer in sips, `wait` between them, and leave before its end. How much came."""
    taken = 0
    try:
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            s.settimeout(PATIENCE_S)
            s.connect(ADDRESS)
            s.sendall(data)
            for _ in range(pieces):
                got = len(s.recv(size))
                if got == 0:
                    break
                taken += got
                if wait():
                    break
    except TimeoutError as e:
        raise Hung("a slow reader") from e
    except OSError:
        pass
    return taken


def upload_of(path, data):
    """Body and headers of an upload."""
    def part(name, content):
        head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n\r\n'
        return head.encode() + content + b"\r\n"

    body = part("metadata", json.dumps({"path": path}).encode()) + part("file", data)
    return body + f"--{BOUNDARY}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def query(place, **params):
    return place + "?" + urllib.parse.urlencode(params)


def events_of(answer):
    """What a stream of a command told."""
    found = []
    for block in answer.body.decode("utf-8", "replace").split("\n\n"):
        if block.strip():
            found.append(json.loads(block))
    return found


def output_of(answer):
    return "\n".join(e.get("text", "") for e in events_of(answer) if e["type"] == "stdout")
