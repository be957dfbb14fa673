"""What the tests of execd's file routes share: a daemon, directories of their own, calls and forms."""

import json
import os
import shutil
import sys
import tempfile
import urllib.parse

import execdlib
from harness import Program, run_cases

ENV = dict(os.environ, OSB_TEST_DIR="expanded", HOME="/nonexistent-home")
TOP = tempfile.mkdtemp(prefix="osb-files-")
os.chmod(TOP, 0o755)
execd = Program("execd", "--port", "0", env=ENV, cwd=TOP)
_number = [0]


def fresh():
    """A directory of its own for a case."""
    _number[0] += 1
    path = os.path.join(TOP, f"c{_number[0]}")
    os.mkdir(path)
    return path


def put(path, data=b"", mode=None):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data)
    if mode is not None:
        os.chmod(path, mode)
    return path


def read(path):
    with open(path, "rb") as f:
        return f.read()


def query(**params):
    pairs = []
    for key, value in params.items():
        for one in value if isinstance(value, list) else [value]:
            pairs.append((key, one))
    return urllib.parse.urlencode(pairs)


def call(method, route, body=None, fields=(), /, **params):
    return execdlib.call(execd, method, route + ("?" + query(**params) if params else ""), body, fields)


def ok(reply):
    assert reply.status == 200, (reply.status, reply.body)
    return json.loads(reply.body) if reply.body else None


def form(parts, boundary="XyZ"):
    """multipart/form-data from (name, header, data) triples; header None: the usual one."""
    out = b""
    for name, header, data in parts:
        header = header or f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
        out += f"--{boundary}\r\n{header}\r\n\r\n".encode() + data + b"\r\n"
    return out + f"--{boundary}--\r\n".encode()


FORM = [("Content-Type", "multipart/form-data; boundary=XyZ")]


def pair(path, data, **meta):
    meta["path"] = path
    return [("metadata", None, json.dumps(meta).encode()), ("file", None, data)]


def upload(parts, **params):
    return call("POST", "/files/upload", form(parts), FORM, **params)


def leftovers(directory):
    return [n for _, dirs, files in os.walk(directory) for n in dirs + files if "osb-" in n]


def end():
    """All cases of the file that calls it, then the daemon's own end."""
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    code = execd.stop()
    shutil.rmtree(TOP, ignore_errors=True)
    if code != 0:
        print(f"not ok execd ended with {code}")
    else:
        print("ok execd_ended_well")
    sys.exit(1 if failed or code != 0 else 0)
