#!/usr/bin/env python3
"""Shell sessions of execd: what is carried from run to run, and what ends a run."""
# timeout: 600

import json
import os
import re
import shutil
import sys
import tempfile
import threading

from execdlib import Stream, alive, call, children, empty_ok, error, first, open_stream, start, target
from harness import case, run_cases, until

TOP = os.path.realpath(tempfile.mkdtemp(prefix="osb-sessions-"))
ENVS = os.path.join(TOP, "envs")
with open(ENVS, "w", encoding="ascii") as f:
    f.write("OSB_FROM_FILE=file\n")
execd = start(env=dict(OSB_BASE="base", EXECD_ENVS=ENVS, HOME=TOP), cwd=TOP)


def path(name):
    return os.path.join(TOP, name)


def new(body=None, program=None):
    reply = call(program or execd, "POST", "/session", body)
    assert reply.status == 200, reply.body
    ident = json.loads(reply.body)["session_id"]
    assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", ident)
    return ident


def run(ident, command, program=None, **options):
    s = Stream(call(program or execd, "POST", f"/session/{ident}/run",
                    dict(command=command, **options)))
    assert s.id == ident
    return s


@case
def sessions_are_made_with_or_without_a_body():
    for body in (None, b"", b"null", b"{}", b'{"cwd":null}', b'{"cwd":""}', b'{"unknown":1}'):
        assert run(new(body), "pwd").out == [TOP]
    error(call(execd, "POST", "/session", b"{"), 400, "INVALID_REQUEST_BODY")
    error(call(execd, "POST", "/session", b'{"cwd":1}'), 400, "INVALID_REQUEST_BODY")


@case
def the_directory_is_made():
    assert run(new({"cwd": path("made/for/it")}), "pwd").out == [path("made/for/it")]
    assert run(new({"cwd": "~/home-made"}), "pwd").out == [path("home-made")]
    error(call(execd, "POST", "/session", {"cwd": ENVS + "/x"}), 500, "RUNTIME_ERROR")


@case
def variables_and_the_directory_are_carried_over():
    s = new()
    run(s, "export A=1; B=plain; cd /tmp; declare -a arr=(x 'y z'); declare -A map=([k]=v)").ok()
    out = run(s, 'echo "$A|$B|$PWD|${arr[1]}|${map[k]}|$OSB_BASE|$OSB_FROM_FILE"').ok().out
    assert out == ["1|plain|/tmp|y z|v|base|file"]
    assert run(s, "printenv A; printenv B || echo unexported").out == ["1", "unexported"]


@case
def values_come_back_as_they_were():
    s = new()
    value = "a $HOME `x` \\ \"q\" 'q' \n\t\r line2 \u00e9 $'\\n' !x *"
    with open(path("value"), "w", encoding="utf-8", newline="") as f:
        f.write(value)
    run(s, f"IFS= read -r -d '' V <{path('value')}; export V; long=$(head -c 100000 /dev/zero | "
           "tr '\\0' z); export -n nothing; readonly R=fixed; export R").ok()
    for _ in range(3):
        run(s, f'printf %s "$V" >{path("back")}; echo ${{#long}} $R').ok()
        with open(path("back"), encoding="utf-8", newline="") as f:
            assert f.read() == value
    assert run(s, "echo ${#long} $R").out == ["100000 fixed"]
    assert "readonly" in "".join(run(s, "R=changed").err)


@case
def functions_aliases_and_options_are_carried_over():
    s = new()
    run(s, "greet() { echo \"hi $1\"; }; export -f greet; shopt -s expand_aliases nullglob; "
           "alias ll='echo aliased'; umask 027").ok()
    assert run(s, "greet you; ll; bash -c 'greet child'; umask; echo /no-such-*").out == \
        ["hi you", "aliased", "hi child", "0027", "\n"]


@case
def what_was_unset_stays_unset():
    s = new()
    run(s, "unset OSB_BASE HOME; unset -f nothing").ok()
    assert run(s, "echo ${OSB_BASE-none} ${HOME-none}; env | grep -c OSB_BASE").out == ["none none", "0"]


@case
def the_state_does_not_grow_by_itself():
    s = new()
    first_run = run(s, "set; env | sort").out
    for _ in range(3):
        run(s, "true")
    volatile = ("BASHPID=", "BASH_EXECUTION", "PPID=", "RANDOM=", "SRANDOM=", "EPOCH", "LINENO=",
                "SECONDS=", "_=", "__execd_", "OLDPWD=", "PIPESTATUS", "BASH_ARGV", "BASH_LINENO",
                "BASH_SOURCE", "SHLVL", "OPTIND")
    def stable(lines):
        return [line for line in lines if not line.startswith(volatile)]
    last = run(s, "set; env | sort").out
    extra = [line for line in stable(last) if line not in first_run]
    assert not [line for line in extra if "=" in line and not line.startswith((" ", "\t"))], extra[:5]
    assert run(s, "compgen -A function").out in ([], ["__execd_end"])


@case
def exit_ends_the_run_and_not_the_session():
    s = new()
    end = run(s, "export KEPT=yes; cd /tmp; exit 42; echo never")
    assert end.code == 42 and end.out == [] and end.traceback == ["exit status 42"]
    assert run(s, "echo $KEPT $PWD").out == ["yes /tmp"]
    assert run(s, "set -e; export ALSO=1; false; echo never").code == 1
    assert run(s, "false; echo $ALSO still").out == ["1 still"]  # set -e was that run's alone
    assert run(s, "exec sh -c 'exit 5'").code == 5
    assert run(s, "echo $KEPT").out == ["yes"]
    assert run(s, "trap 'echo mine' EXIT; export T=1").out == ["mine"]
    assert run(s, "echo $T").out == ["1"]


@case
def nothing_of_ours_shows():
    s = new()
    assert run(s, "set -x; echo x").err == ["++ echo x"]
    end = run(s, "set -x; exit 3")
    assert end.code == 3 and "__execd" not in "\n".join(end.err + end.out), end.err
    assert run(s, "set -u; echo ok").out == ["ok"]
    odd = run(s, "echo __EXIT_CODE__:0; echo __PWD__:/x; echo '#end'; printf '\\n\\n'; echo $#")
    assert odd.out == ["__EXIT_CODE__:0", "__PWD__:/x", "#end", "\n", "\n", "0"] and odd.code == 0
    assert run(s, "ls -l /proc/self/fd/ | grep -c '/[0-9] '").code in (0, 1)


@case
def mistakes_are_told():
    s = new()
    end = run(s, "if")
    assert end.code != 0 and "syntax error" in "".join(end.err)
    assert run(s, "no-such-command-x").code == 127
    assert "No such file" in "".join(run(s, "cd /no/such/dir").err)
    assert run(s, "echo fine").out == ["fine"]


@case
def stdout_and_stderr_are_told_apart():
    end = run(new(), "echo out; echo err >&2; cat")
    assert (end.out, end.err) == (["out"], ["err"])


@case
def the_directory_of_a_run_stays():
    s = new()
    assert run(s, "pwd", cwd="/usr").out == ["/usr"]
    assert run(s, "pwd").out == ["/usr"]
    run(s, "cd /tmp")
    assert run(s, "cd - >/dev/null; pwd").out == ["/usr"]
    error(call(execd, "POST", f"/session/{s}/run", {"command": "pwd", "cwd": path("nope")}), 400,
          "INVALID_REQUEST_BODY", "working directory does not exist")


@case
def a_directory_that_vanished_is_told():
    s = new({"cwd": path("vanishes")})
    os.rmdir(path("vanishes"))
    end = run(s, "echo still")
    assert end.out == ["still"] and "vanishes" in "".join(end.err)


@case
def requests_are_checked():
    s = new()
    for body in (b"", b"{", b'{"command":1}', b'{"command":"x","timeout":"1"}'):
        error(call(execd, "POST", f"/session/{s}/run", body), 400, "INVALID_REQUEST_BODY")
    for body in ({}, {"command": ""}, {"command": "x", "timeout": -1}):
        error(call(execd, "POST", f"/session/{s}/run", body), 400, "INVALID_REQUEST_BODY",
              "validation")
    error(call(execd, "POST", "/session/nope/run", {"command": "true"}), 500, "RUNTIME_ERROR",
          "context not found")
    error(call(execd, "DELETE", "/session/nope"), 404, "CONTEXT_NOT_FOUND", "session nope not found")


@case
def a_timeout_ends_the_run_with_its_children():
    s = new()
    run(s, "export BEFORE=1")
    end = run(s, "export DURING=1; sleep 1000 & echo $!; sleep 1000", timeout=1500)
    assert end.end["error"]["evalue"] == "-1" and end.traceback[0] == "timeout after 1.5s", end.end
    until(lambda: not alive(int(end.out[0])), "the child is dead")
    assert run(s, "echo $BEFORE ${DURING-lost}").out == ["1 lost"]


@case
def a_server_in_the_background_does_not_hold_the_run():
    s = new()
    end = run(s, "sleep 1000 & echo $!").ok()
    pid = int(end.out[0])
    assert alive(pid) and run(s, f"kill -0 {pid} && echo there").out == ["there"]
    empty_ok(call(execd, "DELETE", f"/session/{s}"))
    until(lambda: not alive(pid), "the end of the session is its end")
    error(call(execd, "DELETE", f"/session/{s}"), 404, "CONTEXT_NOT_FOUND")


@case
def deleting_or_interrupting_ends_a_run():
    for method, where in (("DELETE", "/session/{}"), ("DELETE", "/command?id={}"),
                          ("DELETE", "/code?id={}")):
        s = new()
        sock, events = open_stream(execd, f"/session/{s}/run", {"command": "echo up; sleep 1000"})
        with sock:
            first(events, "stdout")
            empty_ok(call(execd, method, where.format(s)))
            assert first(events, "error")["error"]["evalue"] == "-1"
        assert call(execd, "DELETE", f"/session/{s}").status == 404


@case
def a_client_that_leaves_cancels_its_run():
    s = new()
    sock, events = open_stream(execd, f"/session/{s}/run",
                               {"command": "trap '' TERM HUP; echo $$; sleep 1000 & sleep 1000"})
    pid = int(first(events, "stdout")["text"])
    sock.close()
    until(lambda: not alive(pid), "the run is dead")
    until(lambda: not children(execd.pid), "and its children")
    assert run(s, "echo usable").out == ["usable"]


@case
def runs_at_the_same_time_do_not_mix():
    s = new()
    results = {}
    def one(i):
        results[i] = run(s, f"v={i}; for k in 1 2 3 4 5; do echo {i}-$k; done; echo $v").out
    threads = [threading.Thread(target=one, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(8):
        assert results[i] == [f"{i}-{k}" for k in range(1, 6)] + [str(i)], results[i]


@case
def without_bash_there_is_sh():
    tools = path("tools")
    os.makedirs(tools, exist_ok=True)
    for name in ("sh", "cat", "env", "grep", "sleep"):
        if not os.path.exists(os.path.join(tools, name)):
            os.symlink(shutil.which(name), os.path.join(tools, name))
    with start(env=dict(PATH=tools, OSB_BASE="base"), cwd=TOP) as posix:
        s = new(program=posix)
        assert run(s, "export A='q\"x $y'; cd /tmp; exit 6", posix).code == 6
        assert run(s, 'echo "$A" $PWD; unset OSB_BASE', posix).out == ['q"x $y /tmp']
        assert run(s, "echo ${OSB_BASE-gone} $0", posix).out == ["gone sh"]
        reply = Stream(call(posix, "POST", "/command", {"command": "echo $0; exit 3"}))
        assert reply.out == ["sh"] and reply.code == 3


if __name__ == "__main__":
    with execd:
        failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
    shutil.rmtree(TOP, ignore_errors=True)
    sys.exit(1 if failed or execd.proc.returncode != 0 else 0)
