#!/usr/bin/env python3
"""Settings that no other test turns: each does what docs/configuration.md says of it."""
# timeout: 300

import contextlib
import threading

from harness import case, run_cases
from serverlib import BUILD, Reader, Server, is_error, new_state, os, shutil, signal, sys, until


def sets(**settings):
    """--set SECTION.KEY=VALUE for each SECTION__KEY."""
    return [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


@contextlib.contextmanager
def standing_still(server):
    """The runner, stopped for a while."""
    pid = server.runner_pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@case
def endpoints_are_given_out_with_the_public_address():
    with Server(*sets(server__eip="https://boxes.example:8443/api/")) as server:
        sandbox = server.make()
        a = server.call("GET", f"/v1/sandboxes/{sandbox}/endpoints/80")
        assert a.json["endpoint"] == f"boxes.example:8443/api/sandboxes/{sandbox}/proxy/80", a.json


@case
def what_has_ended_is_forgotten_when_its_time_is_up():
    with Server(*sets(store__retention_seconds="1")) as server:
        sandbox = server.make()
        assert server.delete(sandbox).status == 204
        until(lambda: server.info(sandbox, "?includeTerminated=true").status == 404, "it to be forgotten")
    with Server(*sets(store__max_ended="1")) as server:
        first, second = server.make(), server.make()
        for sandbox in (first, second):
            assert server.delete(sandbox).status == 204
        until(lambda: server.state_of(first) == 404, "the older one to be forgotten")
        assert server.state_of(second) == "Terminated"


@case
def creates_beyond_those_under_way_are_put_off():
    with Server(*sets(server__max_concurrent_creates="1")) as server:
        answers = []
        with standing_still(server):
            first = threading.Thread(target=lambda: answers.append(server.create()))
            first.start()
            until(lambda: server.list(state="Pending")["items"], "the first to be under way")
            a = server.create()
            is_error(a, 503, "OVERLOADED")
            assert a.get("Retry-After"), a.reply.fields
        first.join()
        assert answers[0].status == 202, answers[0].body
        server.make()


@case
def a_create_that_takes_too_long_is_given_up():
    with Server(*sets(runtime__create_timeout_seconds="1")) as server:
        with standing_still(server):
            is_error(server.create(), 504, "SANDBOX::START_TIMEOUT")
        until(lambda: not server.list(state=["Pending", "Stopping"])["items"], "it to be swept")
        until(lambda: os.listdir(os.path.join(server.state, "sandboxes")) == [], "nothing to be left")
        until(lambda: server.create().status == 202, "a create that is fast enough")


@case
def limits_that_nobody_asked_for_have_defaults():
    with Server(*sets(runtime__default_pids="77", runtime__default_disk="24Mi")) as server:
        plain, asked = server.make(), server.make(resourceLimits={"pids": "55", "disk": "16Mi"})
        for sandbox, pids, mib in ((plain, 77, 24), (asked, 55, 16)):
            facts = dict(line.rsplit(None, 1) for line in server.call(
                "GET", f"/v1/sandboxes/{sandbox}/diagnostics/inspect").body.decode().splitlines() if " " in line)
            assert facts["processes limit"] == str(pids), facts
            assert "full" == server.run(sandbox, f"head -c {mib + 1}M /dev/zero > /root/f 2>/dev/null || echo full")


@case
def connections_beyond_the_limit_are_told_so():
    with Server(*sets(server__limit_concurrency="16")) as server, contextlib.ExitStack() as stack:
        for _ in range(16):
            s = stack.enter_context(server.connect())
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert Reader(s).reply().status == 200
        s = stack.enter_context(server.connect())
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert Reader(s).reply().status == 503
    with Server(*sets(server__limit_concurrency="0")) as server, contextlib.ExitStack() as stack:  # no limit
        for _ in range(64):
            s = stack.enter_context(server.connect())
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert Reader(s).reply().status == 200


@case
def an_idle_connection_is_kept_for_so_long():
    with Server(*sets(server__timeout_keep_alive="1")) as server, server.connect() as s:
        s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert Reader(s).reply().status == 200
        assert s.recv(1) == b""


@case
def renewal_on_access_has_a_pace_and_can_be_turned_off():
    asked = {"extensions": {"access.renew.extend.seconds": "3000"}, "timeout": 60}
    with Server(*sets(renew_intent__min_interval_seconds="1")) as server:
        sandbox = server.make(**asked)
        server.run(sandbox, "true")
        first = server.info(sandbox).json["expiresAt"]

        def moved():
            server.run(sandbox, "true")
            return server.info(sandbox).json["expiresAt"] != first
        until(moved, "another renewal")
    with Server() as server:  # one a minute
        sandbox = server.make(**asked)
        before = server.info(sandbox).json["expiresAt"]
        server.run(sandbox, "true")
        first = server.info(sandbox).json["expiresAt"]
        server.run(sandbox, "true")
        assert before != first == server.info(sandbox).json["expiresAt"]
    with Server(*sets(renew_intent__enabled="false")) as server:
        sandbox = server.make(**asked)
        before = server.info(sandbox).json["expiresAt"]
        server.run(sandbox, "true")
        assert server.info(sandbox).json["expiresAt"] == before


@case
def programs_may_lie_elsewhere():
    place = new_state()
    os.chmod(place, 0o755)
    runner, execd = (shutil.copy2(os.path.join(BUILD, name), os.path.join(place, "my-" + name))
                     for name in ("opensandbox-runner", "execd"))
    with Server(*sets(runtime__runner_path=runner, runtime__execd_path=execd)) as server:
        server.make()
        assert os.readlink(f"/proc/{server.runner_pid()}/exe") == runner
    shutil.rmtree(place)


@case
def the_runner_is_told_what_it_may_mount_and_reach():
    """What it makes of that is the matter of tests/runtime/test_net.py and test_boxes.py."""
    state = new_state()
    path = os.path.join(state, "server.toml")
    with open(path, "w", encoding="ascii") as f:
        f.write('[network]\nallowed_private = ["10.99.0.0/24", "fd12::/64"]\ndns = ["192.0.2.53"]\n'
                '[storage]\nallowed_host_paths = ["/srv"]\n[images]\nallowed_paths = ["/opt"]\n')
    with Server(state=state, env={"SANDBOX_CONFIG_PATH": path}) as server:
        with open(f"/proc/{server.runner_pid()}/cmdline", encoding="ascii") as f:
            words = f.read().split("\0")
        told = set(zip(words, words[1:]))
        assert {("--open-net", "10.99.0.0/24"), ("--open-net", "fd12::/64"), ("--dns", "192.0.2.53"),
                ("--allow-path", "/srv"), ("--allow-path", "/opt")} <= told, words
        assert "--ipv6" not in words
    shutil.rmtree(state)


if __name__ == "__main__":
    sys.exit(1 if run_cases(sys.argv[1] if len(sys.argv) > 1 else None) else 0)
