#!/usr/bin/env python3
"""What execd answers when one call for memory or a descriptor fails: each of them, for each kind of request.
timeout: 900"""

import http.server
import json
import os
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "api")]

from denials import Denials, ask, events, failure_told  # noqa: E402  pylint: disable=wrong-import-position
from harness import BUILD, Program, case, request, run_cases, until  # noqa: E402  pylint: disable=wrong-import-position
from hooks import CONTROL_FD, Hooks  # noqa: E402  pylint: disable=wrong-import-position

hooks = Hooks(BUILD, 1)
place = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
execd = Program("execd", "--port", "0", cwd=place.name, pass_fds=[CONTROL_FD])
denials = Denials(hooks, "execd", lambda: execd.pid if execd.proc.poll() is None else None)


def path(name=""):
    return os.path.join(place.name, name)


def write(name, text):
    with open(path(name), "w", encoding="utf-8") as file:
        file.write(text)


def read(name):
    with open(path(name), encoding="utf-8") as file:
        return file.read()


def body(reply):
    return reply.body


def parsed(reply):
    return json.loads(reply.body)


def made(method, target, **fields):
    """Something to work on, made without a fault."""
    reply = request(execd, method, target, json.dumps(fields).encode())
    assert reply.status in (200, 201), (reply.status, reply.body)
    return json.loads(reply.body)


# ---- commands ----

@case
def commands():
    denials.sweep(lambda: ask(execd, "POST", "/command", {"command": "printf 'abc\\ndef'; echo on >&2"}), events,
                  told=failure_told)


@case
def commands_in_another_place():
    denials.sweep(lambda: ask(execd, "POST", "/command", {"command": "echo $FLAVOUR; pwd", "cwd": place.name,
                                                          "envs": {"FLAVOUR": "sour"}}), events, told=failure_told)


@case
def background_commands():
    def finished():
        reply = request(execd, "POST", "/command", b'{"command":"echo written; exit 3","background":true}')
        told = [json.loads(line) for line in reply.body.decode().split("\n\n") if line]
        state["id"] = next(event["text"] for event in told if event["type"] == "init")
        status = f"/command/status/{state['id']}"
        until(lambda: not json.loads(request(execd, "GET", status).body)["running"], "its end")

    state = {}
    finished()
    denials.sweep(lambda: ask(execd, "GET", f"/command/{state['id']}/logs?cursor=%30"), body)
    denials.sweep(lambda: ask(execd, "GET", f"/command/status/{state['id']}"), parsed)
    denials.sweep(lambda: ask(execd, "POST", "/command", {"command": "true", "background": True}), events,
                  told=failure_told)


@case
def sessions():
    session = made("POST", "/session")["session_id"]
    denials.sweep(lambda: ask(execd, "POST", f"/session/{session}/run", {"command": "echo here"}), events,
                  told=failure_told)
    denials.sweep(lambda: ask(execd, "POST", "/session", {}), lambda reply: len(parsed(reply)["session_id"]))


# ---- files ----

@case
def files_are_looked_at():
    write("a file", "text")
    denials.sweep(lambda: ask(execd, "GET", f"/files/info?path={path('a%20file')}&path={path('././a+file')}"), parsed)
    denials.sweep(lambda: ask(execd, "GET", f"/files/search?path={place.name}&pattern=a%20*"), parsed)
    denials.sweep(lambda: ask(execd, "GET", f"/directories/list?path={place.name}&depth=%31"), parsed)


@case
def files_are_read():
    write("small", "some text\n" * 10)
    write("large", "0123456789" * 100000)
    for name in ("small", "large"):
        denials.sweep(lambda name=name: ask(execd, "GET", f"/files/download?path={path(name)}"), body)
    denials.sweep(lambda: ask(execd, "GET", f"/files/download?path={path('large')}", fields=[("Range", "bytes=5-9")]),
                  body)


@case
def files_are_written():
    def told(reply):
        return reply.status, read("new")

    form = (b'--x\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{"path":"%s"}\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="new"\r\n\r\nwhole\r\n--x--\r\n')
    denials.sweep(lambda: ask(execd, "POST", "/files/upload", raw=form % path("new").encode(),
                              fields=[("Content-Type", "multipart/form-data; boundary=x")]),
                  told, prepare=lambda: write("new", "old"))
    denials.sweep(lambda: ask(execd, "POST", "/files/replace", {path("new"): {"old": "old", "new": "newer"}}),
                  told, prepare=lambda: write("new", "old text"))


@case
def files_are_moved_and_removed():
    def fresh():
        for name in ("to", "from"):
            if os.path.exists(path(name)):
                os.unlink(path(name))
        write("from", "goods")

    denials.sweep(lambda: ask(execd, "POST", "/files/mv", [{"src": path("from"), "dest": path("to")}]),
                  lambda _: (os.path.exists(path("from")), read("to")), prepare=fresh)
    denials.sweep(lambda: ask(execd, "POST", "/files/permissions", {path("from"): {"mode": 640}}),
                  lambda _: os.stat(path("from")).st_mode & 0o777, prepare=fresh)
    denials.sweep(lambda: ask(execd, "DELETE", f"/files?path={path('%66rom')}"),
                  lambda _: os.path.exists(path("from")), prepare=fresh)


@case
def directories():
    def gone():
        os.system(f"rm -rf {path('one')}")

    def there():
        os.makedirs(path("one/two"), exist_ok=True)

    denials.sweep(lambda: ask(execd, "POST", "/directories", {path("one/two"): {"mode": 750}}),
                  lambda _: os.stat(path("one/two")).st_mode & 0o777, prepare=gone)
    denials.sweep(lambda: ask(execd, "DELETE", f"/directories?path={path('./one')}"),
                  lambda _: os.path.exists(path("one")), prepare=there)


# ---- the rest ----

@case
def code():
    def run(text):
        return ask(execd, "POST", "/code", {"code": text, **context})

    context = {"context": {"id": made("POST", "/code/context", language="python")["id"], "language": "python"}}
    for text in ("print('seen')\n1 + 1", "display('shown')"):
        denials.sweep(lambda text=text: run(text), events, told=failure_told,
                      prepare=lambda: until(lambda: not failure_told(run("0")), "its last cell has ended"))


@case
def contexts():
    def remove(reply):
        assert request(execd, "DELETE", f"/code/contexts/{parsed(reply)['id']}").status == 200
        return parsed(reply)["language"]

    denials.sweep(lambda: ask(execd, "POST", "/code/context", {"language": "bash"}), remove)
    until(lambda: request(execd, "GET", "/code/contexts?language=bash").body == b"[]", "none that nobody knows of")
    denials.sweep(lambda: ask(execd, "GET", "/code/contexts?language=pyth%6fn"), parsed)


@case
def terminals():
    def remove(reply):
        assert request(execd, "DELETE", f"/pty/{parsed(reply)['session_id']}").status == 200

    denials.sweep(lambda: ask(execd, "POST", "/pty", {"cwd": place.name}), remove)
    terminal = made("POST", "/pty")["session_id"]
    denials.sweep(lambda: ask(execd, "GET", f"/pty/{terminal}"), parsed)


@case
def isolated_sessions():
    def remove(reply):
        assert request(execd, "DELETE", f"/v1/isolated/session/{parsed(reply)['session_id']}").status in (200, 204)
        return parsed(reply)["workspace"]

    wish = {"workspace": {"path": place.name, "mode": "ro"}}
    denials.sweep(lambda: ask(execd, "POST", "/v1/isolated/session", wish), remove)
    session = made("POST", "/v1/isolated/session", **wish)["session_id"]
    denials.sweep(lambda: ask(execd, "POST", f"/v1/isolated/session/{session}/run", {"code": "echo inside"}), events,
                  told=failure_told)
    denials.sweep(lambda: ask(execd, "GET", f"/v1/isolated/session/{session}"), lambda reply: sorted(parsed(reply)))


@case
def figures():
    denials.sweep(lambda: ask(execd, "GET", "/metrics"), lambda reply: sorted(parsed(reply)))
    denials.sweep(lambda: ask(execd, "GET", "/ping"), body)


@case
def ports():
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"from behind")

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as behind:
        threading.Thread(target=behind.serve_forever, daemon=True).start()
        denials.sweep(lambda: ask(execd, "GET", f"/proxy/{behind.server_port}/x?y=%20"), body)
        behind.shutdown()


def main():
    with place, execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
        code_of_it = execd.stop()
    print(f"{'ok' if code_of_it == 0 else 'not ok'} execd_leaves_cleanly {code_of_it}", flush=True)
    sys.exit(1 if failed or code_of_it != 0 else 0)


main()
