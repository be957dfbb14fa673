#!/usr/bin/env python3
"""Commands of execd: running them, their events, their end, what is kept of them."""
# timeout: 600

import json
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time

from execdlib import (Stream, alive, call, children, empty_ok, error, first, open_stream, run, start,
                      target)
from harness import DEADLINE, Reader, case, request, run_cases, until

TOP = os.path.realpath(tempfile.mkdtemp(prefix="osb-commands-"))
os.chmod(TOP, 0o777)
ENVS = os.path.join(TOP, "envs")
execd = start(env=dict(EXECD_ENVS=ENVS, OSB_BASE="base", OSB_DIR=TOP, JUPYTER_TOKEN="j-secret",
                       HOME=TOP), cwd=TOP)
ROOT = os.geteuid() == 0


def path(name):
    return os.path.join(TOP, name)


def has(name):
    return lambda: os.path.exists(path(name))


# --- the way in ---

@case
def ping_is_an_empty_success():
    empty_ok(call(execd, "GET", "/ping"))


@case
def unknown_paths_and_methods_are_404_in_plain_text():
    for method, where in (("GET", "/nope"), ("PUT", "/command"), ("OPTIONS", "/ping"),
                          ("GET", "/command"), ("POST", "/command/x/logs/y")):
        reply = call(execd, method, where)
        assert (reply.status, reply.body) == (404, b"404 page not found"), (method, where)
        assert reply.get("content-type").startswith("text/plain")


@case
def a_slash_too_many_redirects():
    reply = call(execd, "GET", "/ping/?a=b")
    assert (reply.status, reply.get("location")) == (301, "/ping?a=b")
    reply = call(execd, "POST", "/command/", {"command": "true"})
    assert (reply.status, reply.get("location")) == (307, "/command")
    assert call(execd, "GET", "//evil.example/").status == 404


@case
def request_ids_are_echoed_or_made():
    reply = call(execd, "GET", "/ping", fields=[("X-Request-ID", "my-id-1")])
    assert reply.get("x-request-id") == "my-id-1"
    made = {call(execd, "GET", "/ping").get("x-request-id") for _ in range(3)}
    assert len(made) == 3 and all(made)
    long = call(execd, "GET", "/ping", fields=[("X-Request-ID", "x" * 5000)])
    assert long.get("x-request-id") != "x" * 5000


@case
def the_token_guards_everything_and_shows_nowhere():
    field = "X-EXECD-ACCESS-TOKEN"
    for args, env in ((("--access-token", "s3cret-token"), {}),
                      (("--access-token=s3cret-token",), {}),
                      ((), {"EXECD_ACCESS_TOKEN": "s3cret-token"})):
        with start(*args, env=env) as guarded:
            for method, where in (("GET", "/ping"), ("GET", "/nope"), ("POST", "/command"),
                                  ("GET", "/proxy/1/"), ("GET", "/pty/x/ws")):
                for fields in ([], [(field, "wrong")], [(field, "")], [(field, "s3cret-toke")],
                               [(field, "s3cret-token2")]):
                    reply = call(guarded, method, where, fields=fields)
                    assert reply.status == 401, (where, fields, reply.status)
                    assert json.loads(reply.body)["error"] == \
                        f"Unauthorized: invalid or missing header {field}"
            good = [(field, "s3cret-token")]
            empty_ok(call(guarded, "GET", "/ping", fields=good))
            seen = Stream(call(guarded, "POST", "/command", {
                "command": "env; for f in cmdline environ; do tr '\\0' '\\n' "
                           f"</proc/{guarded.pid}/$f; done; cat /proc/$PPID/cmdline"}, good))
            assert "s3cret-token" not in json.dumps(seen.events)


# --- requests that are refused ---

@case
def bodies_that_are_no_command_are_refused():
    for body in (b"", b"  ", b"{", b"[]", b"\"x\"", b"nope", b"{\"command\":1}",
                 b"{\"command\":[\"a\"]}", b"{\"command\":\"a\",\"timeout\":\"1\"}",
                 b"{\"command\":\"a\",\"timeout\":30.0}", b"{\"command\":\"a\",\"uid\":-1}",
                 b"{\"command\":\"a\",\"uid\":4294967296}", b"{\"command\":\"a\",\"envs\":[]}",
                 b"{\"command\":\"a\",\"background\":\"yes\"}",
                 b"{\"command\":\"a\\u0000b\"}"):
        error(call(execd, "POST", "/command", body), 400, "INVALID_REQUEST_BODY",
              "error parsing request")


@case
def commands_that_make_no_sense_are_refused():
    for body, words in (({}, "command"), ({"command": ""}, "command"), ({"command": None}, "command"),
                        ({"command": "true", "timeout": -1}, "timeout"),
                        ({"command": "true", "gid": 0}, "uid is required when gid is provided"),
                        ({"command": "true", "envs": {"A": 1}}, "envs"),
                        ({"command": "true", "envs": {"": "x"}}, "envs"),
                        ({"command": "true", "envs": {"A=B": "x"}}, "envs")):
        error(call(execd, "POST", "/command", body), 400, "INVALID_REQUEST_BODY",
              "invalid request, validation error", words)


@case
def working_directories_must_be_there():
    with open(path("plain"), "w", encoding="ascii"):
        pass
    for cwd, words in ((path("missing"), "working directory does not exist"),
                       (path("plain"), "not a directory"), (path("plain/x"), "does not exist"),
                       ("$OSB_NOT_SET/x", "OSB_NOT_SET")):
        error(call(execd, "POST", "/command", {"command": "true", "cwd": cwd}), 400,
              "INVALID_REQUEST_BODY", words)


@case
def bodies_are_read_as_clients_write_them():
    run(execd, "true", cwd=None, timeout=None, uid=None, gid=None, envs=None, background=None)
    reply = call(execd, "POST", "/command", b'{"COMMAND":"echo one","Command":"echo two"} trailing{')
    assert Stream(reply).out[0] in ("one", "two")
    with execd.connect() as sock:  # chunked, as some uploads are
        body = json.dumps({"command": "echo chunked"}).encode()
        sock.sendall(b"POST /command HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
        assert Stream(Reader(sock).reply()).out == ["chunked"]
    huge = request(execd, "POST", "/command", b'{"command":"' + b"x" * (5 << 20))
    error(huge, 413, "INVALID_REQUEST_BODY")


# --- events ---

@case
def a_success_has_init_ping_output_and_completion():
    s = run(execd, "echo hello").ok()
    assert re.fullmatch("[0-9a-f]{32}", s.id)
    assert [e["type"] for e in s.events] == ["init", "ping", "stdout", "execution_complete"]
    assert s.events[1]["text"] == "pong" and s.out == ["hello"]
    assert s.end.get("execution_time", 1) > 0


@case
def output_is_cut_into_lines():
    for text, want in (
            (r"a\n\nb\n\n\nc\n", ["a", "\n", "b", "\n", "\n", "c"]),
            (r"x 10%%\rx 20%%\rdone\n", ["x 10%", "x 20%", "done"]),
            (r"\ra", ["\n", "a"]), (r"a\r\nb\r\n", ["a", "b"]), ("tail", ["tail"]),
            (r"\n", ["\n"]), ("", []), (r"t\tab", ["t\tab"]),
            (r"nul\0x\n", ["nul\0x"]), (r"\377\376\n", ["\ufffd\ufffd"]),
            (r"\303\251\n", ["\u00e9"]), (r"q\"\\b<&>\n", ["q\"\\b<&>"]),
            (r"\302\205nel\342\200\250ls\342\200\251ps\n", ["\u0085nel\u2028ls\u2029ps"]),
            (r"\033[31mred\033[0m\n", ["\033[31mred\033[0m"])):
        assert run(execd, f"printf '{text}'").ok().out == want, text


@case
def a_line_in_pieces_is_one_event():
    s = run(execd, "printf a; sleep 0.05; printf b; sleep 0.05; printf 'c\\r'; sleep 0.05; "
                   "printf '\\nd'").ok()
    assert s.out == ["abc", "d"]


@case
def lines_come_as_they_are_written():
    sock, events = open_stream(execd, "/command", {
        "command": f"echo first; while [ ! -e {path('go')} ]; do sleep 0.01; done; echo second"})
    with sock:
        assert first(events, "stdout")["text"] == "first"
        with open(path("go"), "w", encoding="ascii"):
            pass
        assert first(events, "stdout")["text"] == "second"
        first(events, "execution_complete")


@case
def stdout_and_stderr_are_told_apart():
    s = run(execd, "echo out; echo err >&2; printf tail >&2; printf tail2").ok()
    assert (s.out, s.err) == (["out", "tail2"], ["err", "tail"])


@case
def long_lines_lose_nothing():
    s = run(execd, "head -c 1500000 /dev/zero | tr '\\0' x; echo; echo end").ok()
    assert [len(text) for text in s.out] == [1500000, 3]
    s = run(execd, "head -c 9000000 /dev/zero | tr '\\0' y").ok()  # more than one event may carry
    assert "".join(s.out) == "y" * 9000000 and all(len(text) <= 4 << 20 for text in s.out)


@case
def much_output_arrives_whole_and_in_order():
    s = run(execd, "seq 1 300000").ok()
    assert s.out == [str(i) for i in range(1, 300001)]


@case
def pings_go_on_while_nothing_happens():
    sock, events = open_stream(execd, "/command", {"command": f"while [ ! -e {path('pinged')} ]; do "
                                                              "sleep 0.1; done"})
    with sock:
        pings = [first(events, "ping") for _ in range(2)]
        assert pings[1]["timestamp"] - pings[0]["timestamp"] >= 2900
        with open(path("pinged"), "w", encoding="ascii"):
            pass
        first(events, "execution_complete")


# --- how it ends ---

@case
def exit_codes_are_told():
    for command, code in (("exit 3", 3), ("false", 1), ("nonexistent-program-x", 127),
                          ("/etc/passwd", 126), ("exit 255", 255), ("sh -c 'kill -9 $$'; exit $?", 137)):
        s = run(execd, command)
        assert s.code == code and s.end["error"]["ename"] == "CommandExecError", (command, s.end)
        assert f"exit status {code}" in s.traceback


@case
def signals_are_told_by_name_and_number():
    for number, words in ((9, "signal: killed"), (15, "signal: terminated"), (2, "signal: interrupt"),
                          (40, "signal: signal 40")):
        s = run(execd, f"kill -{number} $$")
        assert s.end["error"]["evalue"] == "-1" and words in s.traceback, s.end
        assert f"killed by signal {number}" in s.traceback


@case
def what_cannot_start_is_told_in_the_stream():
    os.makedirs(path("locked"), mode=0o700, exist_ok=True)
    if not ROOT:
        return
    s = run(execd, "true", uid=65534, cwd=path("locked"))
    assert s.code is None and s.traceback[0] == s.end["error"]["evalue"], s.end
    assert "Permission denied" in s.traceback[0]
    status = json.loads(call(execd, "GET", f"/command/status/{s.id}").body)
    assert status["exit_code"] == 255 and "Permission denied" in status["error"], status


@case
def the_stream_ends_with_the_leader_and_survivors_live():
    s = run(execd, f"(while [ ! -e {path('late')} ]; do sleep 0.01; done; echo late; echo later; "
                   f"touch {path('wrote')}) & echo $!; echo done").ok()
    assert s.out[1] == "done" and alive(int(s.out[0]))
    with open(path("late"), "w", encoding="ascii"):
        pass
    until(has("wrote"), "the survivor could write without anyone reading")


@case
def output_of_the_last_moment_is_not_lost():
    for _ in range(30):
        s = run(execd, "seq 1 5000; echo last >&2")
        assert len(s.out) == 5000 and s.err == ["last"]


# --- what it gets ---

@case
def simple_commands_see_what_a_shell_would_give_them():
    plain = run(execd, "env").ok().out
    shell = run(execd, "env;").ok().out
    def ignore(lines):
        return sorted(line for line in lines if not line.startswith(("_=", "OLDPWD=")))
    assert ignore(plain) == ignore(shell)
    assert run(execd, "echo  a   b").out == ["a b"] and run(execd, "true").code == 0
    assert run(execd, "false").code == 1
    assert run(execd, "printenv A", envs={"A": "x y"}).out == ["x y"]
    assert run(execd, "ls no-such-file-here").code == 2


@case
def the_environment_is_ours_then_the_file_then_the_request():
    with open(ENVS, "w", encoding="ascii") as f:
        f.write("# comment\n\nOSB_FILE=from file\n OSB_TRIM = trimmed \nnot a line\n"
                "OSB_REF=<$OSB_BASE/${OSB_NOPE}>\nOSB_BOTH=file\nOSB_QUOTED=\"q\"\nOSB_BOTH=file2\n")
    s = run(execd, "echo \"$OSB_BASE|$OSB_FILE|$OSB_TRIM|$OSB_REF|$OSB_BOTH|$OSB_QUOTED|$OSB_REQ\"",
            envs={"OSB_REQ": "req\nline", "OSB_FILE": "over"}).ok()
    assert s.out == ['base|over|trimmed|<base/>|file2|"q"|req', "line"]
    with open(ENVS, "w", encoding="ascii") as f:
        f.write("OSB_FILE=changed\n")
    assert run(execd, "echo $OSB_FILE;").out == ["changed"]
    os.remove(ENVS)
    assert run(execd, "echo \"${OSB_FILE-none} ${JUPYTER_TOKEN-none}\"").out == ["none none"]


@case
def directories_are_expanded():
    os.makedirs(path("dir/a$b"), exist_ok=True)
    assert run(execd, "pwd").out == [TOP]
    assert run(execd, "pwd", cwd="dir").out == [path("dir")]
    assert run(execd, "pwd;", cwd="$OSB_DIR/dir/../dir").out == [path("dir")]
    assert run(execd, "pwd;", cwd="~/dir").out == [path("dir")]
    assert run(execd, "pwd;", cwd="${X}", envs={"X": path("dir")}).out == [path("dir")]
    assert run(execd, "pwd;", cwd=path("dir/a$b")).out == [path("dir/a$b")]


@case
def processes_start_clean():
    s = run(execd, "cat; cat /proc/self/status; ls /proc/self/fd").ok()
    status = dict(line.split(":\t", 1) for line in s.out if ":\t" in line)
    signals = status["SigIgn"], status["SigBlk"]
    assert all(int(mask, 16) == 0 for mask in signals), signals
    assert [line for line in s.out if line.isdigit()] == ["0", "1", "2", "3"]  # 3: ls itself
    s = run(execd, "readlink /proc/self/fd/0; cut -d' ' -f6 /proc/self/stat; echo $$").ok()
    assert s.out[0] == "/dev/null" and s.out[1] == s.out[2]  # a session of its own
    assert "cannot set terminal" not in "".join(s.err)


@case
def users_and_groups_are_taken():
    if not ROOT:
        return
    assert run(execd, "id -u; id -g; id -G", uid=0).out[:2] == ["0", "0"]
    assert run(execd, "id -u; id -g; id -G", uid=54321).out == ["54321", "54321", "54321"]
    assert run(execd, "id -u; id -g; id -G", uid=54321, gid=12).out == ["54321", "12", "12"]
    s = run(execd, "id -u; id -g; echo $HOME", uid=65534)
    assert s.out[0] == "65534" and s.out[2] == TOP


@case
def long_commands_are_run():
    s = run(execd, "x='" + "y" * 200000 + "'; echo ${#x}; cat; ls /proc/self/fd").ok()
    assert s.out == ["200000", "0", "1", "2", "3"]


# --- ending it ---

DAEMON = ("import os, signal, sys, time\n"
          "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
          "if os.fork(): os._exit(0)\n"
          "os.setsid()\n"
          "if os.fork(): os._exit(0)\n"
          "open(sys.argv[1], 'w').write(str(os.getpid()) + '\\n')\n"
          "os.rename(sys.argv[1], sys.argv[1] + '.pid')\n"
          "while True: time.sleep(100)\n")


def daemon_pid(name):
    until(has(name + ".pid"), "the daemon runs")
    with open(path(name + ".pid"), encoding="ascii") as f:
        return int(f.read())


def daemon_command(name):
    with open(path("daemon.py"), "w", encoding="ascii") as f:
        f.write(DAEMON)
    return f"python3 {path('daemon.py')} {path(name)}"


@case
def a_timeout_ends_the_whole_tree_and_says_so():
    s = run(execd, daemon_command("d1") + "; echo started; trap '' TERM; sleep 1000 & sleep 1000",
            timeout=2000)
    pid = daemon_pid("d1")
    assert s.out == ["started"] and s.end["error"]["evalue"] == "-1"
    assert s.traceback[0] == "timeout after 2s" and "signal: killed" in s.traceback, s.end
    until(lambda: not alive(pid), "the daemon that left the session is dead")
    status = json.loads(call(execd, "GET", f"/command/status/{s.id}").body)
    assert status["exit_code"] == -1 and "timeout after 2s" in status["error"], status
    assert status["timed_out"] is True and status["signal"] == 9


@case
def a_timeout_that_is_not_reached_changes_nothing():
    s = run(execd, "sleep 0.05; echo fine", timeout=60000).ok()
    assert s.out == ["fine"]


@case
def fork_bombs_end_with_their_timeout():
    s = run(execd, "bomb() { for i in 1 2 3 4 5 6 7 8; do (sleep 0.01; [ $1 -gt 0 ] && bomb "
                   "$(($1-1))) & done; wait; }; while :; do bomb 1; done", timeout=700)
    assert s.traceback[0] == "timeout after 700ms"
    until(lambda: not children(execd.pid), "nobody is left", 60)


@case
def interrupt_ends_a_command():
    sock, events = open_stream(execd, "/command", {"command": daemon_command("d2") +
                                                   "; sleep 1000 & sleep 1000"})
    with sock:
        ident = first(events, "init")["text"]
        pid = daemon_pid("d2")
        reply = call(execd, "DELETE", target("/command", id=ident))
        empty_ok(reply)
        assert not alive(pid)  # the answer waits for the whole tree; this one ignores SIGTERM
        end = first(events, "error")
        assert end["error"]["evalue"] == "-1" and "signal: terminated" in end["error"]["traceback"]
    error(call(execd, "DELETE", target("/command", id=ident)), 500, "RUNTIME_ERROR",
          f"command session {ident} is not running")


@case
def interrupt_lets_a_command_clean_up():
    sock, events = open_stream(execd, "/command", {
        "command": "trap 'echo cleaned; exit 7' TERM; echo ready; while :; do sleep 0.05; done"})
    with sock:
        ident = first(events, "init")["text"]
        first(events, "stdout")
        empty_ok(call(execd, "DELETE", target("/code", id=ident)))
        assert first(events, "stdout")["text"] == "cleaned"
        assert first(events, "error")["error"]["evalue"] == "7"


@case
def interrupt_needs_something_to_interrupt():
    error(call(execd, "DELETE", "/command"), 400, "MISSING_QUERY", "missing query parameter 'id'")
    error(call(execd, "DELETE", target("/command", id="nope")), 500, "RUNTIME_ERROR",
          "no such session")


@case
def a_killed_warden_loses_nothing():
    sock, events = open_stream(execd, "/command", {
        "command": f"echo $PPID; while [ ! -e {path('unguarded')} ]; do sleep 0.01; done; exit 5"})
    with sock:
        first(events, "init")
        warden = int(first(events, "stdout")["text"])
        os.kill(warden, 9)
        until(lambda: not alive(warden), "the warden is dead")
        with open(path("unguarded"), "w", encoding="ascii"):
            pass
        failure = first(events, "error")["error"]
        assert failure["evalue"] == "5", failure


@case
def a_warden_killed_before_it_could_tell_loses_nothing():
    for _ in range(100):
        sock, events = open_stream(execd, "/command", {"command": "kill -9 $PPID; echo on; exit 5"})
        with sock:
            assert first(events, "stdout")["text"] == "on"
            failure = first(events, "error")["error"]
            # a warden collects a child even after its own end was ordered, and takes the status with it
            assert failure["evalue"] == "5" or "how is not known" in failure["evalue"], failure


@case
def a_client_that_leaves_does_not_stop_a_command():
    sock, events = open_stream(execd, "/command", {
        "command": f"while [ ! -e {path('left')} ]; do echo $$; done; touch {path('went-on')}"})
    ident = first(events, "init")["text"]
    first(events, "stdout")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()
    with open(path("left"), "w", encoding="ascii"):
        pass
    until(has("went-on"), "the command went on")
    def over():
        return not json.loads(call(execd, "GET", f"/command/status/{ident}").body)["running"]
    until(over, "and its end is known")


@case
def a_slow_client_slows_the_writer_down():
    sock, events = open_stream(execd, "/command", {
        "command": "echo $$; exec head -c 6000000 /dev/zero | tr '\\0' '\\n'"})
    with sock:
        pid = int(first(events, "stdout")["text"])
        def written():
            total = 0
            for child in [pid] + children(pid):
                with open(f"/proc/{child}/io", encoding="ascii") as f:
                    total += int(re.search(r"wchar: (\d+)", f.read()).group(1))
            return total
        seen = []
        def stands_still():
            seen.append(written())
            return len(seen) > 40 and len(set(seen[-40:])) == 1
        until(stands_still, "the writer waits")
        assert seen[-1] < 3000000, seen[-1]
        assert execd.rss_kib() < (16 << 10) or "asan" in os.environ.get("OSB_BUILD", "")
        count = 0
        for event in events:
            count += event["type"] == "stdout"
            end = event
        assert count == 6000000 and end["type"] == "execution_complete", (count, end)


if __name__ == "__main__":
    with execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    shutil.rmtree(TOP, ignore_errors=True)
    sys.exit(1 if failed or execd.proc.returncode != 0 else 0)
