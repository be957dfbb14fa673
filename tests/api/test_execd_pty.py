#!/usr/bin/env python3
"""Terminals of execd: sessions by REST, shells by WebSocket."""
# timeout: 300

import base64
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from harness import DEADLINE, Program, Reader, case, request, run_cases, until

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
STDOUT, STDERR, REPLAY = 1, 2, 3
TOP = tempfile.mkdtemp(prefix="osb-pty-")
ENVS = os.path.join(TOP, "envs")
with open(ENVS, "w", encoding="ascii") as envs:
    envs.write("FROM_ENVS=yes\n")
ENV = {"PATH": os.environ["PATH"], "HOME": "/", "EXECD_ENVS": ENVS,
       "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")}
execd = Program("execd", "--port", "0", env=ENV, cwd=TOP)


def create(program=execd, **body):
    reply = request(program, "POST", "/pty", json.dumps(body).encode() if body else b"")
    assert reply.status == 201, (reply.status, reply.body)
    return json.loads(reply.body)["session_id"]


def look(pty):
    reply = request(execd, "GET", "/pty/" + pty)
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def error(reply, status, code, words=""):
    assert reply.status == status, (reply.status, reply.body)
    body = json.loads(reply.body)
    assert body["code"] == code and words in body["message"], body


class Closed(Exception):
    pass


class Client:
    """A WebSocket client of one terminal."""

    def __init__(self, pty, query="", program=execd, rcvbuf=None, fields=()):
        self.sock = socket.socket()
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(DEADLINE)
        self.sock.connect(("127.0.0.1", program.port))
        key = base64.b64encode(os.urandom(16)).decode()
        head = (f"GET /pty/{pty}/ws{query} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n")
        head += "".join(f"{name}: {value}\r\n" for name, value in fields)
        self.sock.sendall(head.encode() + b"\r\n")
        self.reader = Reader(self.sock)
        self.reply = self.reader.head()
        self.out = b""  # all output seen, replayed or live
        self.err = b""
        self.place = None  # in the session's output
        self.texts = []
        self.replays = []
        self.code = None
        self.live = False
        if self.reply.status != 101:
            n = int(self.reply.get("content-length", "0"))
            self.reply.body = self.reader.exactly(n)
            self.sock.close()

    def send(self, opcode, payload):
        n, mask = len(payload), os.urandom(4)
        head = bytes([0x80 | opcode])
        if n < 126:
            head += bytes([0x80 | n])
        elif n < 65536:
            head += bytes([0xfe]) + struct.pack(">H", n)
        else:
            head += bytes([0xff]) + struct.pack(">Q", n)
        key = (mask * (n // 4 + 1))[:n]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")
        self.sock.sendall(head + mask + masked)

    def type(self, text):
        self.send(BINARY, b"\0" + text.encode())

    def say(self, **message):
        self.send(TEXT, json.dumps(message).encode())

    def frame(self):
        a, b = self.reader.exactly(2)
        n = b & 127
        if n == 126:
            n = struct.unpack(">H", self.reader.exactly(2))[0]
        elif n == 127:
            n = struct.unpack(">Q", self.reader.exactly(8))[0]
        return a & 15, self.reader.exactly(n)

    def step(self):
        """Take in one frame."""
        opcode, data = self.frame()
        if opcode == CLOSE:
            self.code = struct.unpack(">H", data[:2])[0], data[2:]
            raise Closed
        if opcode == TEXT:
            self.texts.append(json.loads(data))
            if self.texts[-1]["type"] == "connected":
                self.live = True
        elif opcode == BINARY and data[0] == REPLAY:
            at = struct.unpack(">Q", data[1:9])[0]
            self.replays.append((at, data[9:], self.live))
            self.place = at + len(data) - 9
            self.out += data[9:]
        elif opcode == BINARY:
            assert data[0] in (STDOUT, STDERR), data[:20]
            assert len(data) <= 32768 + 1
            if data[0] == STDOUT:
                self.out += data[1:]
            else:
                self.err += data[1:]

    def until(self, condition):
        end = time.monotonic() + DEADLINE
        while not condition(self):
            assert time.monotonic() < end, (self.out[-500:], self.texts)
            self.step()

    def see(self, pattern):
        self.until(lambda c: re.search(pattern, c.out))

    def told(self, kind):
        self.until(lambda c: any(t["type"] == kind for t in c.texts))
        return [t for t in self.texts if t["type"] == kind][-1]

    def ended(self):
        """Until the server closes; the exit message."""
        try:
            while True:
                self.step()
        except Closed:
            pass
        except EOFError:
            self.code = None
        self.sock.close()
        found = [t for t in self.texts if t["type"] == "exit"]
        return found[-1] if found else None

    def close(self):
        self.sock.close()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- REST ---

@case
def create_look_and_delete():
    pty = create()
    got = look(pty)
    assert got["session_id"] == pty and got["running"] is False and got["output_offset"] == 0
    reply = request(execd, "DELETE", "/pty/" + pty)
    assert (reply.status, reply.body, reply.get("content-length")) == (200, b"", "0")
    error(request(execd, "GET", "/pty/" + pty), 404, "CONTEXT_NOT_FOUND",
          f"pty session {pty} not found")
    error(request(execd, "DELETE", "/pty/" + pty), 404, "CONTEXT_NOT_FOUND")


@case
def create_bodies():
    for body in (b"", b"{}", b"null", b'{"cwd":null,"command":null}', b'{"unknown":1}'):
        assert request(execd, "POST", "/pty", body).status == 201, body
    for body in (b"{", b"[]", b'{"cwd":7}', b'{"command":[]}'):
        error(request(execd, "POST", "/pty", body), 400, "INVALID_REQUEST_BODY")
    with open(TOP + "/file", "wb"):
        pass
    error(request(execd, "POST", "/pty", json.dumps({"cwd": TOP + "/file/x"}).encode()), 500,
          "RUNTIME_ERROR", "working directory")


@case
def cwd_is_made_and_used():
    pty = create(cwd=TOP + "/made/here", command="pwd; exit 0")
    assert os.path.isdir(TOP + "/made/here")
    c = Client(pty)
    assert c.ended() == {"type": "exit", "exit_code": 0}
    assert c.out.strip() == (TOP + "/made/here").encode()


# --- the handshake ---

@case
def unknown_session_and_no_handshake():
    c = Client("no-such-id")
    error(c.reply, 404, "CONTEXT_NOT_FOUND")
    pty = create()
    error(request(execd, "GET", f"/pty/{pty}/ws"), 400, "INVALID_REQUEST_BODY")
    bad = Client(pty, fields=[("Sec-WebSocket-Key", "twice")])
    assert bad.reply.status == 400
    assert look(pty)["running"] is False


@case
def one_client_at_a_time():
    pty = create()
    first = Client(pty)
    first.told("connected")
    second = Client(pty)
    error(second.reply, 409, "ALREADY_CONNECTED")
    error(request(execd, "GET", f"/pty/{pty}/ws?takeover=1"), 409, "ALREADY_CONNECTED")
    first.type("echo still-$((40+2))\n")
    first.see(rb"still-42")
    first.close()


@case
def takeover():
    pty = create()
    first = Client(pty)
    first.type("echo one-$((1+1))\n")
    first.see(rb"one-2")
    second = Client(pty, "?takeover=1")
    assert first.ended() is None and first.code == (4001, b"TAKEN_OVER")
    second.see(rb"one-2")
    second.type("echo two-$((2+2))\n")
    second.see(rb"two-4")
    assert look(pty)["running"] is True
    second.close()


# --- the shell ---

@case
def a_terminal_of_the_right_kind():
    pty = create()
    c = Client(pty)
    assert c.told("connected") == {"type": "connected", "session_id": pty, "mode": "pty"}
    c.type("tty; stty size; echo TERM=$TERM envs=$FROM_ENVS tok=[$EXECD_ACCESS_TOKEN]; echo $-\n")
    c.see(rb"/dev/pts/\d+")
    c.see(rb"24 80\r\n")
    c.see(rb"TERM=xterm-256color envs=yes tok=\[\]")
    c.type("exit 7\n")
    assert c.ended() == {"type": "exit", "exit_code": 7}
    assert c.code == (1000, b"process exited")
    got = look(pty)
    assert got["running"] is False and got["exit_code"] == 7 and got["output_offset"] > 0


@case
def resize():
    pty = create()
    c = Client(pty)
    c.say(type="resize", cols=132, rows=43)
    c.type("stty size\n")
    c.see(rb"43 132\r\n")
    for bad in ({"cols": 0, "rows": 5}, {"cols": -1, "rows": 1}, {"cols": "a", "rows": 1}, {}):
        c.say(type="resize", **bad)
    c.type("stty size; echo fin\n")
    c.see(rb"43 132\r\nfin")
    c.close()


@case
def text_frames():
    pty = create()
    c = Client(pty)
    c.say(type="ping")
    assert c.told("pong") == {"type": "pong"}
    c.say(type="stdin", data="echo typed-$((3*3))\n")
    c.see(rb"typed-9")
    c.say(type="nonsense")
    got = c.told("error")
    assert got["code"] == "INVALID_FRAME" and 'unknown frame type "nonsense"' in got["error"]
    c.send(TEXT, b"this is not json")
    c.send(TEXT, b"[1,2]")
    c.send(BINARY, b"")
    c.send(BINARY, b"\x05ignored")
    c.send(PING, b"hi")
    c.type("echo alive-$((5*5))\n")
    c.see(rb"alive-25")
    c.close()


@case
def signals_reach_the_job_in_the_foreground():
    pty = create()
    c = Client(pty)
    for name, number in (("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", 137), ("SIGQUIT", 131),
                         ("SIGHUP", 129)):
        c.out = b""
        c.type("sh -c 'echo pid=$$ && exec sleep 1000'\n")
        c.see(rb"pid=(\d+)\r\n")
        pid = int(re.search(rb"pid=(\d+)\r\n", c.out).group(1))
        # it is sleep itself, in a group of its own, before it is signalled
        until(lambda: open(f"/proc/{pid}/comm", encoding="ascii").read() == "sleep\n", "sleep runs")
        c.say(type="signal", signal=name)
        until(lambda: not alive(pid), f"{name} has reached it")
        c.type(f"echo {name}-status=$?\n")
        c.see(rb"%s-status=%d\r\n" % (name.encode(), number))
    c.say(type="signal", signal="SIGNONSENSE")
    c.type("echo shell-is-$((1+1))\n")
    c.see(rb"shell-is-2")  # the shell itself has survived all of them
    c.close()


@case
def control_characters_work():
    pty = create()
    c = Client(pty)
    c.type("echo up-$((1+0))\n")
    c.see(rb"up-1")
    c.type("sh -c 'echo run-$((1+1)); exec cat'\n")
    c.see(rb"run-2")
    c.type("line\n")
    c.see(rb"line\r\nline")
    c.out = b""
    c.type("\x03")
    c.see(rb"\^C[\s\S]*[#$] ")  # the shell is back at its prompt
    c.type("echo after-$((6*7))\n")
    c.see(rb"after-42\r\n[\s\S]*[#$] ")
    c.type("\x04")
    assert c.ended()["exit_code"] == 0


@case
def exit_comes_after_all_output():
    for i in range(20):
        pty = create(command=f"seq 1 {500 + i * 700}; exit 3")
        c = Client(pty)
        assert c.ended() == {"type": "exit", "exit_code": 3}
        want = "".join(f"{n}\r\n" for n in range(1, 501 + i * 700)).encode()
        assert c.out == want, (i, len(c.out), len(want))


@case
def exit_by_signal_is_minus_one():
    pty = create(command="kill -9 $$")
    c = Client(pty)
    assert c.ended() == {"type": "exit", "exit_code": -1}


@case
def a_shell_that_cannot_start_says_so():
    pty = create(cwd=TOP + "/gone")
    os.rmdir(TOP + "/gone")
    c = Client(pty)
    got = c.told("error")
    assert got["code"] == "START_FAILED" and got["error"], got
    assert c.ended() is None
    os.mkdir(TOP + "/gone")
    c = Client(pty)  # the session is still good
    assert c.told("connected")["mode"] == "pty"
    c.close()


# --- pipes ---

@case
def pipe_mode_keeps_streams_apart():
    pty = create(command="echo out; echo err >&2; read line; echo got=$line; test -t 0 || exit 5")
    c = Client(pty, "?pty=0")
    assert c.told("connected")["mode"] == "pipe"
    c.until(lambda c: c.err == b"err\n")
    c.type("hello\n")
    assert c.ended() == {"type": "exit", "exit_code": 5}
    assert c.out == b"out\ngot=hello\n" and c.err == b"err\n"


@case
def pipe_mode_replay_says_what_was_stderr():
    pty = create(command="echo out; read a; echo err >&2; read b; echo out2; read c")
    c = Client(pty, "?pty=0")
    c.until(lambda c: c.out == b"out\n")
    c.type("go\n")
    c.until(lambda c: c.err == b"err\n")
    c.type("go\n")
    c.until(lambda c: c.out == b"out\nout2\n")
    c.close()
    until(lambda: not look(pty)["attached"], "detached")
    c = Client(pty)
    c.told("connected")
    assert [(at, data) for at, data, _ in c.replays] == [(0, b"out\n"), (4, b"err\n"), (8, b"out2\n")]
    marks = [t for t in c.texts if t["type"] == "replay"]
    assert marks == [{"type": "replay", "stream": "stderr", "offset": 4, "length": 4}]
    assert c.texts[-1]["mode"] == "pipe"  # as it is, whatever was asked for
    c.say(type="resize", cols=10, rows=10)
    c.say(type="signal", signal="SIGKILL")
    assert c.ended()["exit_code"] == -1


# --- coming back ---

@case
def replay_and_since():
    pty = create(command="stty -echo; seq 1 100; for i in 1 2 3 4; do read x; echo live-$i; done")
    c = Client(pty)
    c.see(rb"\n100\r\n")
    c.close()
    until(lambda: not look(pty)["attached"], "detached")
    total = look(pty)["output_offset"]
    whole = Client(pty)
    whole.told("connected")
    assert len(whole.replays) == 1 and whole.replays[0][0] == 0 and not whole.replays[0][2]
    everything = whole.replays[0][1]
    assert len(everything) == total and whole.texts[-1]["type"] == "connected"
    whole.close()
    for since in (1, total // 2, total - 1):
        until(lambda: not look(pty)["attached"], "detached")
        part = Client(pty, f"?since={since}")
        part.told("connected")
        assert part.replays == [(since, everything[since:], False)]
        part.close()
    for number, beyond in enumerate((0, 1, 10 ** 15), 1):
        until(lambda: not look(pty)["attached"], "detached")
        none = Client(pty, f"?since={look(pty)['output_offset'] + beyond}")
        none.told("connected")
        assert none.replays == []
        none.type("go\n")
        none.see(rb"live-%d\r\n" % number)
        none.close()


@case
def output_while_nobody_is_attached_is_kept():
    pty = create(command="read x; seq 1 300000; echo the-end; read y")
    c = Client(pty, "?pty=0")
    c.told("connected")
    c.type("go\n")
    c.close()
    want = "".join(f"{n}\n" for n in range(1, 300001)).encode() + b"the-end\n"
    until(lambda: look(pty)["output_offset"] == len(want), "all output taken from the shell")
    c = Client(pty, "?since=5")
    c.told("connected")
    at, data, _ = c.replays[0]
    assert len(data) == 1 << 20 and at == len(want) - (1 << 20)  # clamped to what is kept
    assert data == want[at:]
    c.close()


@case
def a_client_that_stalls_never_stops_the_shell():
    pty = create(command=f"stty raw -echo; echo go; read x; seq 1 3000000; touch {TOP}/flood-done; read y")
    c = Client(pty, rcvbuf=4096)
    c.see(rb"go")
    c.type("x\n")
    # nothing is read here, and still:
    until(lambda: os.path.exists(TOP + "/flood-done"), "the shell got through")
    want = b"go\n" + "".join(f"{n}\n" for n in range(1, 3000001)).encode()
    until(lambda: look(pty)["output_offset"] >= len(want), "all read")
    c.until(lambda c: c.out.endswith(b"3000000\n"))
    resync = [(at, data) for at, data, live in c.replays if live]
    assert resync, "it was told where it goes on"
    for at, data in resync:
        assert want[at:at + len(data)] == data
    c.close()


@case
def the_end_is_told_to_the_next_client():
    pty = create(command="read x; echo bye; exit 9")
    c = Client(pty, "?pty=0")
    c.told("connected")
    c.type("x\n")
    c.close()
    until(lambda: not look(pty)["running"], "ended")
    c = Client(pty, "?pty=0")
    assert c.ended() == {"type": "exit", "exit_code": 9} and c.out == b"bye\n"
    c = Client(pty, "?pty=0")  # and the one after that starts anew
    got = c.told("connected")
    assert got["restarted"] is True and c.out == b"bye\n"
    c.type("x\n")
    assert c.ended() == {"type": "exit", "exit_code": 9} and c.out == b"bye\nbye\n"


# --- the end ---

@case
def delete_ends_every_process_of_the_terminal():
    pty = create()
    c = Client(pty)
    c.type("set -m; sleep 1001 & echo bg=$!; (setsid sleep 1002 & echo away=$!); "
           "sh -c 'echo fg=$$; exec sleep 1003'\n")
    pids = []
    for name in (b"bg", b"away", b"fg"):
        c.see(rb"%s=(\d+)\r\n" % name)
        pids.append(int(re.search(rb"%s=(\d+)\r\n" % name, c.out).group(1)))
    request(execd, "DELETE", "/pty/" + pty)
    for pid in pids:
        until(lambda: not alive(pid), f"{pid} is gone")
    assert c.ended() == {"type": "exit", "exit_code": -1}


@case
def delete_an_attached_session_that_has_ended():
    pty = create()
    reply = request(execd, "DELETE", "/pty/" + pty)
    assert reply.status == 200
    c = Client(pty)
    assert c.reply.status == 404


@case
def input_larger_than_the_terminal_takes():
    pty = create(command="stty raw -echo; echo ready; head -c 600000 | sha256sum; echo fin")
    c = Client(pty)
    c.see(rb"ready")
    data = (b"0123456789abcdef" * 64 + b"\n") * 600
    data = data[:600000]
    for at in range(0, len(data), 50000):
        c.send(BINARY, b"\0" + data[at:at + 50000])
    c.see(rb"fin")
    import hashlib
    assert hashlib.sha256(data).hexdigest().encode() in c.out


@case
def abandoned_clients_and_sessions_leave_nothing():
    request(execd, "GET", "/ping")
    before = execd.fds()
    for i in range(20):
        pty = create(command="exit 0" if i % 2 else "read x")
        c = Client(pty)
        c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        c.close()
        request(execd, "DELETE", "/pty/" + pty)
    until(lambda: execd.fds() <= before, "descriptors closed")


@case
def sessions_are_limited():
    made = []
    while True:
        reply = request(execd, "POST", "/pty")
        if reply.status != 201:
            break
        made.append(json.loads(reply.body)["session_id"])
        assert len(made) < 2000
    error(reply, 500, "RUNTIME_ERROR")
    for pty in made:
        assert request(execd, "DELETE", "/pty/" + pty).status == 200
    assert request(execd, "POST", "/pty").status == 201


@case
def hostile_frames():
    pty = create()
    for payload in (b"\xff" * 20, b"\x81\x05abcde", b"\x83\x80\0\0\0\0", b"\x82\xff" + b"\xff" * 12):
        c = Client(pty, "?takeover=1")
        c.sock.sendall(payload)
        try:
            c.ended()
        except ConnectionResetError:
            pass
    c = Client(pty, "?takeover=1")
    c.send(TEXT, b'{"type":"stdin","data":' + b"[" * 500 + b"]" * 500 + b"}")
    c.send(TEXT, b'{"type":"signal","signal":7}')
    c.type("echo fine-$((8*8))\n")
    c.see(rb"fine-64")
    c.close()


@case
def sh_where_there_is_no_bash():
    bare = TOP + "/bin"
    os.mkdir(bare)
    for name in ("sh", "stty"):
        os.symlink(shutil.which(name), f"{bare}/{name}")
    with Program("execd", "--port", "0", env={"PATH": bare, "ASAN_OPTIONS": ENV["ASAN_OPTIONS"]},
                 cwd="/") as plain:
        pty = create(plain)
        c = Client(pty, program=plain)
        c.type("echo from=$0 bash=[$BASH_VERSION]; exit 4\n")
        assert c.ended()["exit_code"] == 4
        assert re.search(rb"from=\S*sh bash=\[\]", c.out), c.out


@case
def through_our_own_port_proxy():
    pty = create()
    sock = execd.connect()
    sock.sendall(f"GET /proxy/{execd.port}/pty/{pty}/ws HTTP/1.1\r\nHost: x\r\n"
                 "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode())
    reply = Reader(sock).head()
    assert reply.status == 101
    assert look(pty)["attached"] is True
    sock.close()


def end():
    failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    code = execd.stop()
    shutil.rmtree(TOP, ignore_errors=True)
    print("ok execd_ended_well" if code == 0 else f"not ok execd ended with {code}")
    sys.exit(1 if failed or code != 0 else 0)


end()
