#!/usr/bin/env python3
"""Background commands of execd, what is known of commands, and the supervised entrypoint."""
# timeout: 600

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from execdlib import Stream, alive, call, children, empty_ok, error, run, start, target
from harness import BUILD, DEADLINE, Reader, case, run_cases, until

TOP = os.path.realpath(tempfile.mkdtemp(prefix="osb-background-"))
execd = start(cwd=TOP)
CURSOR = "execd-commands-tail-cursor"


def path(name):
    return os.path.join(TOP, name)


def touch(name):
    with open(path(name), "w", encoding="ascii"):
        pass


def wait_for(name):
    return f"while [ ! -e {path(name)} ]; do sleep 0.01; done"


def background(command, **options):
    s = run(execd, command, background=True, **options)
    assert [e["type"] for e in s.events] == ["init", "ping", "execution_complete"], s.events
    return s.id


def status(ident):
    reply = call(execd, "GET", f"/command/status/{ident}")
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def finished(ident):
    until(lambda: not status(ident)["running"], "the command has ended")
    return status(ident)


def logs(ident, **query):
    reply = call(execd, "GET", target(f"/command/{ident}/logs", **query))
    assert reply.status == 200, reply.body
    assert reply.get("content-type") == "text/plain; charset=utf-8"
    return reply.body.decode(), int(reply.get(CURSOR))


@case
def a_background_command_answers_at_once():
    ident = background(wait_for("go1") + "; echo done; exit 4")
    before = status(ident)
    assert before["running"] is True and "exit_code" not in before and "finished_at" not in before
    assert before["content"].endswith("exit 4") and before["id"] == ident
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", before["started_at"])
    touch("go1")
    after = finished(ident)
    assert (after["exit_code"], after["error"]) == (4, "exit status 4")
    assert after["finished_at"] >= after["started_at"]


@case
def status_of_a_success_has_no_error():
    s = run(execd, "true")
    after = status(s.id)
    assert after["running"] is False and after["exit_code"] == 0 and "error" not in after, after


@case
def status_of_the_unknown_is_404():
    error(call(execd, "GET", "/command/status/nope"), 404, "INVALID_REQUEST_BODY",
          "command not found: nope")


@case
def logs_go_on_from_a_cursor():
    ident = background(f"echo one; echo two >&2; printf three; {wait_for('go2')}; echo four")
    until(lambda: logs(ident)[1] == 13, "the first output is there")
    assert logs(ident) == ("one\ntwo\nthree", 13)
    assert logs(ident, cursor=4) == ("two\nthree", 13)
    assert logs(ident, cursor=13) == ("", 13)
    assert logs(ident, cursor=100) == ("", 100)
    assert logs(ident, cursor="") == logs(ident, cursor="x") == logs(ident)
    touch("go2")
    finished(ident)
    assert logs(ident, cursor=13) == ("four\n", 18)


@case
def logs_are_raw_bytes():
    ident = background(r"printf '\377\0\r\nx'")
    finished(ident)
    reply = call(execd, "GET", f"/command/{ident}/logs")
    assert reply.body == b"\xff\0\r\nx"


@case
def logs_can_be_followed():
    ident = background(f"echo one; {wait_for('go3')}; echo two")
    with execd.connect() as sock:
        sock.sendall(f"GET /command/{ident}/logs?follow=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        reader = Reader(sock)
        assert reader.head().get("transfer-encoding") == "chunked"
        chunks = reader.chunks()
        seen = b""
        while seen != b"one\n":
            seen += next(chunks)
        touch("go3")
        for chunk in chunks:
            seen += chunk
        assert seen == b"one\ntwo\n"


@case
def logs_of_others_are_refused():
    s = run(execd, "echo x")
    error(call(execd, "GET", f"/command/{s.id}/logs"), 400, "INVALID_REQUEST_BODY",
          "is not running in background")
    error(call(execd, "GET", "/command/nope/logs"), 400, "INVALID_REQUEST_BODY", "not found")
    ident = background("true")
    error(call(execd, "GET", f"/command/{ident}/logs?cursor=-1"), 400, "INVALID_REQUEST_BODY",
          "cursor")


@case
def logs_keep_the_newest_output():
    size = 40 << 20
    ident = background(f"head -c {size} /dev/zero | tr '\\0' x; echo end")
    finished(ident)
    text, cursor = logs(ident)
    assert cursor == size + 4 and text.endswith("xend\n")
    assert (8 << 20) < len(text) <= (16 << 20), len(text)
    assert logs(ident, cursor=cursor - 6) == ("xxend\n", cursor)


@case
def survivors_of_a_background_command_live_and_log():
    ident = background(f"({wait_for('go4')}; echo late) & echo started $!")
    finished(ident)
    pid = int(logs(ident)[0].split()[1])
    assert alive(pid)
    touch("go4")
    until(lambda: logs(ident)[0].endswith("late\n"), "its late output is kept")


@case
def a_background_timeout_is_known():
    ident = background("sleep 1000 & sleep 1000", timeout=100)
    after = finished(ident)
    assert after["exit_code"] == -1 and after["error"].startswith("timeout after 100ms"), after
    until(lambda: not children(execd.pid), "nobody is left")


@case
def a_background_command_can_be_interrupted():
    ident = background("exec sleep 1000")
    empty_ok(call(execd, "DELETE", target("/command", id=ident)))
    assert status(ident)["running"] is False
    assert status(ident)["signal"] == signal.SIGTERM


@case
def a_failed_start_is_an_error_event():
    if os.geteuid() != 0:
        return
    os.makedirs(path("locked"), mode=0o700, exist_ok=True)
    s = run(execd, "true", uid=65534, cwd=path("locked"), background=True)
    assert s.end["type"] == "error" and "Permission denied" in s.end["error"]["evalue"]
    assert finished(s.id)["exit_code"] == 255


@case
def old_commands_are_forgotten():
    with execd.connect() as sock:
        oldest = run(execd, "true", sock=sock).id
        for _ in range(1030):
            newest = run(execd, "true", sock=sock).id
    error(call(execd, "GET", f"/command/status/{oldest}"), 404, "INVALID_REQUEST_BODY")
    assert status(newest)["exit_code"] == 0


# --- the entrypoint ---

@case
def the_exit_code_is_the_entrypoints():
    for script, code in (("exit 7", 7), ("exit 0", 0), ("kill -9 $$", 137)):
        with start("--", "sh", "-c", script) as x:
            assert x.wait() == code, (script, code)
    p = subprocess.run([os.path.join(BUILD, "execd"), "--port", "0", "--", "no-such-program"],
                       capture_output=True, timeout=DEADLINE, check=False)
    assert p.returncode == 127 and b"no-such-program" in p.stderr, p


@case
def words_without_a_dash_are_no_entrypoint():
    with start("tail", "-f", "/dev/null") as x:
        assert call(x, "GET", "/ping").status == 200 and not children(x.pid)
        error(call(x, "GET", "/logs"), 404, "CONTEXT_NOT_FOUND")


@case
def unknown_options_are_refused():
    for args in (["--nope"], ["--port"], ["--port", "x"], ["--port", "70000"], ["-log-level", "x"]):
        p = subprocess.run([os.path.join(BUILD, "execd"), *args], capture_output=True,
                           timeout=DEADLINE, check=False)
        assert p.returncode == 2 and b"usage" in p.stderr, args
    p = subprocess.run([os.path.join(BUILD, "execd"), "--listen", "256.0.0.1:1"],
                       capture_output=True, timeout=DEADLINE, check=False)
    assert p.returncode == 1


@case
def sigterm_goes_to_the_entrypoint():
    script = f"trap 'echo bye; exit 3' TERM; touch {path('armed')}; while :; do sleep 0.05; done"
    with start("--", "sh", "-c", script) as x:
        until(lambda: os.path.exists(path("armed")), "the entrypoint runs")
        run(x, "sleep 1000 >/dev/null 2>&1 & echo ok;")
        x.signal(signal.SIGTERM)
        assert x.wait() == 3
        assert b"bye\n" in x.proc.stdout.read()


@case
def an_entrypoint_that_will_not_go_is_killed():
    script = f"trap '' TERM; touch {path('deaf')}; while :; do sleep 1000; done"
    with start("--stop-grace", "200ms", "--", "sh", "-c", script) as x:
        until(lambda: os.path.exists(path("deaf")), "the entrypoint runs")
        x.signal(signal.SIGTERM)
        assert x.wait() == 137


@case
def the_end_takes_everything_along():
    x = start()
    pids = [int(run(x, "setsid sleep 1000 >/dev/null 2>&1 & echo $!").out[0]) for _ in range(3)]
    x.signal(signal.SIGTERM)
    assert x.wait() == 0
    until(lambda: not any(map(alive, pids)), "what it started is gone")
    x.stop()


@case
def orphans_are_reaped():
    with start() as x:
        run(x, "(sleep 0.01 &) ; (sh -c 'exit 3' &) ; true;").ok()
        until(lambda: not children(x.pid), "no zombies stay")


@case
def output_of_the_entrypoint_is_kept_and_passed_on():
    script = f"echo out; echo err >&2; {wait_for('go5')}; echo more; {wait_for('go6')}; printf last"
    with start("--", "sh", "-c", script, stderr=subprocess.DEVNULL) as x:
        def text(**query):
            reply = call(x, "GET", target("/logs", **query))
            assert reply.status == 200 and reply.get("content-type") == "text/plain; charset=utf-8"
            return reply.body, int(reply.get(CURSOR))
        until(lambda: text()[1] == 8, "both lines are there")
        assert sorted(text()[0].split()) == [b"err", b"out"]
        with x.connect() as sock:
            sock.sendall(b"GET /logs?follow=true&cursor=8 HTTP/1.1\r\nHost: x\r\n\r\n")
            reader = Reader(sock)
            reader.head()
            chunks = reader.chunks()
            touch("go5")
            assert next(chunks) == b"more\n"
            assert text(cursor=8) == (b"more\n", 13)
            error(call(x, "GET", "/logs?cursor=x"), 400, "INVALID_REQUEST_BODY")
            touch("go6")
            assert b"".join(chunks) == b"last"
        assert x.wait() == 0
        assert x.proc.stdout.read() == b"out\nmore\nlast"


@case
def a_listening_socket_can_be_inherited():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as server:
        fd = server.fileno()
        p = subprocess.Popen([os.path.join(BUILD, "execd"), "--listen-fd", str(fd)], pass_fds=[fd],
                             stdout=subprocess.PIPE)
        try:
            with socket.create_connection(server.getsockname(), timeout=DEADLINE) as sock:
                sock.sendall(b"GET /ping HTTP/1.1\r\nHost: x\r\n\r\n")
                empty_ok(Reader(sock).reply())
        finally:
            p.terminate()
            assert p.wait(DEADLINE) == 0
            assert p.stdout.read() == b""


@case
def an_empty_image_is_enough():
    with open(os.path.join(BUILD, "execd"), "rb") as f:
        if os.geteuid() != 0 or b"/ld-linux" in f.read(4096):
            return  # a build with sanitizers is not static
    image = path("image")
    os.makedirs(image)
    shutil.copy(os.path.join(BUILD, "execd"), image)
    with start(path="/execd", env={"PATH": "/"}, preexec_fn=lambda: os.chroot(image)) as x:
        empty_ok(call(x, "GET", "/ping"))
        assert run(x, "/execd --version").out[0].startswith("execd ")
        end = run(x, "echo needs a shell;")
        assert end.code is None and "No such file" in end.end["error"]["evalue"], end.end


@case
def nothing_inherited_reaches_the_entrypoint():
    listing = "ls -l /proc/self/fd | sed 's/.* \\([0-9]* ->\\)/\\1/' | grep '^[0-9]'"
    read_end, write_end = os.pipe()
    try:
        p = subprocess.run(["sh", "-c", f'exec "$@" <&-', "sh", os.path.join(BUILD, "execd"),
                            "--listen", "127.0.0.1:0", "--", "sh", "-c", listing],
                           pass_fds=[write_end], stdout=subprocess.PIPE, timeout=DEADLINE,
                           check=False)
    finally:
        os.close(read_end)
        os.close(write_end)
    fds = dict(line.split(" -> ") for line in p.stdout.decode().splitlines()[1:])
    assert p.returncode == 0 and fds["0"] == "/dev/null", fds
    assert set(fds) <= {"0", "1", "2", "3"}, fds  # 3 is the listing's own


@case
def as_pid_1_it_reaps_and_leaves_on_sigterm():
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return
    p = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                          os.path.join(BUILD, "execd"), "--listen", f"unix:{path('one')}", "--",
                          "sh", "-c", "trap 'exit 9' TERM; (sleep 0.01 &); echo up; "
                          "while :; do sleep 0.02; done"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        line = p.stdout.readline()
        assert line.startswith(b"listening on unix:"), line
        assert p.stdout.readline() == b"up\n"
        inner = children(p.pid)[0]
        until(lambda: len(children(inner)) == 1, "only the entrypoint is left")
        os.kill(inner, signal.SIGTERM)
        assert p.wait(DEADLINE) == 9
    finally:
        p.kill()
        p.wait()


if __name__ == "__main__":
    with execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    shutil.rmtree(TOP, ignore_errors=True)
    sys.exit(1 if failed or execd.proc.returncode != 0 else 0)
