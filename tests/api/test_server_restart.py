#!/usr/bin/env python3
"""Ends and beginnings: sandboxes outlive the server and the runner, however those end."""
# timeout: 900

import concurrent.futures
import contextlib
import random
import socket
import sqlite3
import threading

from harness import case, run_cases
from serverlib import (KEEP, Answer, Reader, Server, is_error, json, new_state, os, remove_state, shutil, signal, soon,
                       sys, until)


def leftovers(state):
    """What of sandboxes lies in a state directory."""
    return sorted(os.listdir(os.path.join(state, "sandboxes")) +
                  os.listdir(os.path.join(state, "sock")))


def in_store(state, *statements):
    """Says this to the store of a server that does not run."""
    with contextlib.closing(sqlite3.connect(os.path.join(state, "server", "server.db"))) as db, db:
        return [db.execute(statement).rowcount for statement in statements]


def ask(sock, path, body):
    """A POST whose answer is not waited for."""
    body = json.dumps(body)
    sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}".encode())


def processes_of(state):
    """Processes that carry the state directory in their command line, and their descendants."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if state.encode() in f.read():
                    found.append(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


@case
def a_stopped_server_leaves_its_sandboxes_to_the_next():
    state = new_state()
    with Server(state=state, keep=True) as first:
        running = first.make(metadata={"who": "me"}, timeout=600)
        paused = first.make()
        first.call("POST", f"/v1/sandboxes/{paused}/pause")
        first.run(running, "echo kept > /tmp/file")
        token = first.endpoint(running)
        renewed = first.call("POST", f"/v1/sandboxes/{running}/renew-expiration",
                             {"expiresAt": soon(5000)}).json["expiresAt"]
        first.call("PATCH", f"/v1/sandboxes/{running}/metadata", {"who": "you"})
        before = first.info(running).json
    assert processes_of(state) == [], "the runner is still there"
    with Server(state=state) as second:
        now = second.info(running).json
        assert now == before and now["expiresAt"] == renewed, (before, now)
        assert second.endpoint(running) == token
        assert second.run(running, "cat /tmp/file") == "kept"
        assert second.state_of(paused) == "Paused"
        second.call("POST", f"/v1/sandboxes/{paused}/resume")
        assert second.run(paused, "echo awake") == "awake"
    assert leftovers(state) == []
    remove_state(state)


@case
def what_expires_while_nobody_looks_ends_at_the_next_start():
    state = new_state()
    with Server(state=state, keep=True) as first:
        sandbox = first.make(timeout=60)
        first.call("POST", f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": soon(30)})
    in_store(state, "UPDATE sandboxes SET expires_us = 1000000")
    with Server(state=state) as second:
        until(lambda: second.state_of(sandbox) == "Terminated", "it to expire")
        assert second.info(sandbox).json["status"]["reason"] == "ttl_expiry"
        assert leftovers(state) == []
    remove_state(state)


@case
def of_two_equal_renewals_the_one_that_is_answered_counts():
    state = new_state()
    with Server(state=state, keep=True) as first:
        sandbox = first.make(timeout=600)
    in_store(state, "CREATE TABLE once AS SELECT 1",
             """CREATE TRIGGER refuse BEFORE UPDATE OF expires_us ON sandboxes WHEN EXISTS (SELECT 1 FROM once)
                BEGIN DELETE FROM once; SELECT RAISE(FAIL, 'no room'); END""")
    with Server(state=state) as server, server.connect() as one, server.connect() as two:
        for s in (one, two):
            assert server.call("GET", "/health", sock=s).status == 200
        server.signal(signal.SIGSTOP)  # it is to find both, the second before the store has answered the first
        until(lambda: letter_of(server.pid) == "T", "it to stop")
        at = soon(5000)
        for s in (one, two):
            ask(s, f"/v1/sandboxes/{sandbox}/renew-expiration", {"expiresAt": at})
        server.signal(signal.SIGCONT)
        told, refused = sorted((Answer(Reader(s).reply()) for s in (one, two)), key=lambda a: a.status)
        is_error(refused, 500, "SANDBOX::STORE_FAILED")
        assert told.status == 200, told.body
        assert server.info(sandbox).json["expiresAt"] == at == told.json["expiresAt"], server.info(sandbox).json
    remove_state(state)


@case
def a_restart_of_the_host_is_told_as_such():
    state = new_state()
    with Server(state=state, keep=True) as first:
        sandbox = first.make()
        pid = sandbox_pid(state, sandbox)
    # what the next kernel would find: the record, and nothing of the sandbox
    os.kill(pid, signal.SIGKILL)
    assert in_store(state, "UPDATE sandboxes SET boot_id = 'another', lapses_us = 1") == [1]
    os.unlink(os.path.join(state, "table"))
    with Server(state=state) as second:
        status = second.info(sandbox).json["status"]
        assert (status["state"], status["reason"]) == ("Failed", "host_reboot"), status
        assert second.delete(sandbox).status == 204
        until(lambda: leftovers(state) == [], "its files to go")
    remove_state(state)


def sandbox_pid(state, sandbox):
    """PID 1 of a sandbox, as seen from here: the process that listens on its socket's name."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                if sandbox not in f.read():
                    continue
            with open(f"/proc/{pid}/status", encoding="ascii") as f:
                lines = dict(line.split(":", 1) for line in f.read().splitlines() if ":" in line)
            if lines["NSpid"].split()[-1] == "1":
                return int(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
    raise AssertionError(f"sandbox {sandbox} of {state} has no process")


@case
def one_that_vanished_is_told_as_lost():
    state = new_state()
    with Server(state=state, keep=True) as first:
        sandbox = first.make()
        pid = sandbox_pid(state, sandbox)
        first.kill()
    os.kill(pid, signal.SIGKILL)
    with Server(state=state) as second:
        until(lambda: second.state_of(sandbox) == "Failed", "it to be found dead")
        assert leftovers(state) == []
    remove_state(state)


@case
def the_death_of_the_runner_is_healed():
    with Server() as server:
        sandbox = server.make()
        for _ in range(3):
            pid = server.runner_pid()
            os.kill(pid, signal.SIGKILL)
            until(lambda: server.runner_pid() not in (None, pid), "another runner")
            until(lambda: server.call("GET", "/readyz").status == 200, "it to be ready")
            assert server.run(sandbox, "echo $((6*7))") == "42"
            extra = server.make()
            assert server.delete(extra).status == 204
        assert server.delete(sandbox).status == 204
        assert leftovers(server.state) == []


@case
def a_server_that_takes_its_sandboxes_along_takes_their_volumes_too():
    state = new_state()
    claim = {"claimName": "c", "storage": "16Mi", "deleteOnSandboxTermination": True}
    with Server(state=state) as server:
        sandbox = server.make(volumes=[{"name": "v", "mountPath": "/v", "pvc": claim}])
        server.run(sandbox, "echo secret > /v/file")
        assert os.listdir(os.path.join(state, "volumes")) == ["c"]
    left = {name: os.listdir(os.path.join(state, name)) for name in ("volumes", "volume-disks")}
    assert not any(left.values()), left
    # what was set aside goes by a process of its own, for which nobody waits
    until(lambda: not os.listdir(os.path.join(state, "trash")), "the trash to be empty")
    remove_state(state)


@case
def a_volume_that_the_store_does_not_keep_is_not_promised():
    state, volumes = new_state(), [{"name": "v", "mountPath": "/v", "pvc": {"claimName": "c"}}]
    place = os.path.join(state, "volumes")
    Server(state=state).stop()
    in_store(state, "CREATE TRIGGER refuse BEFORE UPDATE ON volumes BEGIN SELECT RAISE(FAIL, 'no room'); END")
    with Server(state=state) as server:
        for entrypoint in (KEEP, ["true"]):
            is_error(server.create(volumes=volumes, entrypoint=entrypoint), 500, "SANDBOX::STORE_FAILED")
            until(lambda: not os.listdir(place), "what was made for nobody to go")
    in_store(state, "DROP TRIGGER refuse")
    with Server(state=state) as server:
        a = server.create(volumes=volumes, entrypoint=["sh", "-c", "echo 1 > /v/1"])
        assert a.status == 202, a.body
        until(lambda: server.state_of(a.json["id"]) == "Terminated", "it to end by itself")
        server.run(server.make(volumes=volumes), "echo 2 > /v/2")
    with Server(state=state):
        assert sorted(os.listdir(os.path.join(place, "c"))) == ["1", "2"]
    remove_state(state)


@case
def a_volume_goes_with_the_failed_create_whose_removal_the_next_server_ends():
    state = new_state()
    with Server(state=state, keep=True) as server:
        server.make(volumes=[{"name": "v", "mountPath": "/v", "pvc": {"claimName": "c"}}])
    # what a server leaves that dies while it removes what it could not make
    assert in_store(state, "UPDATE sandboxes SET state = 'Stopping', reason = 'provision_failed', hidden = 1",
                    "UPDATE volumes SET ephemeral = 2") == [1, 1]
    with Server(state=state) as server:
        until(lambda: leftovers(state) == [], "it to be removed")
        until(lambda: not os.listdir(os.path.join(state, "volumes")), "its volume to go")
    remove_state(state)


def letter_of(pid):
    """The state of a process, as ps(1) has it."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rpartition(")")[2].split()[0]


@case
def pausing_one_that_has_just_died_is_a_conflict():
    with Server() as server, concurrent.futures.ThreadPoolExecutor() as pool:
        sandbox = server.make()
        pid, runner = sandbox_pid(server.state, sandbox), server.runner_pid()
        os.kill(runner, signal.SIGSTOP)
        try:
            os.kill(pid, signal.SIGKILL)
            until(lambda: letter_of(pid) == "Z", "it to die")
            answer = pool.submit(server.call, "POST", f"/v1/sandboxes/{sandbox}/pause")
            until(lambda: server.state_of(sandbox) == "Pausing", "the runner to be asked")
        finally:
            os.kill(runner, signal.SIGCONT)
        is_error(answer.result(), 409, "SANDBOX::NOT_RUNNING")
        until(lambda: server.state_of(sandbox) == "Failed", "its end to be known")


@case
def a_sandbox_that_nobody_recorded_goes():
    state = new_state()
    with Server(state=state, keep=True) as first:
        sandbox = first.make()
        first.kill()
    shutil.rmtree(os.path.join(state, "server"))
    with Server(state=state) as second:
        is_error(second.info(sandbox), 404, "SANDBOX::NOT_FOUND")
        until(lambda: leftovers(state) == [], "it to be swept")
    remove_state(state)


@case
def killed_at_random_instants_nothing_is_left_and_nothing_is_lost():
    state = new_state()
    chance = random.Random(int(os.environ.get("OSB_SEED", "20260101")))
    alive = set()
    for turn in range(12):
        server = Server(state=state, keep=True)
        told, doubtful, lock, stop = set(), set(), threading.Lock(), threading.Event()

        def work(server=server, told=told, doubtful=doubtful, lock=lock, stop=stop):
            while not stop.is_set():
                try:
                    a = server.create()
                    with lock:
                        if a.status == 202:
                            told.add(a.json["id"])
                        victim = told.pop() if len(told) > 3 else None
                        doubtful.add(victim)
                    if victim and server.delete(victim).status == 204:
                        with lock:
                            doubtful.discard(victim)
                except (OSError, EOFError, ValueError):
                    return  # the server is gone
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            try:
                for _ in range(3):
                    pool.submit(work)
                until(lambda n=chance.randrange(1, 4): len(told) >= n, "some work")
                victims = chance.choice([["server"], ["runner"], ["runner", "server"]])
                runner = server.runner_pid()
                if "runner" in victims and runner:
                    os.kill(runner, signal.SIGKILL)
                if "server" in victims:
                    server.kill()
            finally:
                stop.set()
        if server.proc.poll() is None:
            server.stop()
        alive |= told
        with Server(state=state, keep=True) as check:
            there = {i["id"] for i in check.list(pageSize=200, state="Running")["items"]}
            assert alive <= there, (turn, "lost", alive - there)
            # more may live than were told of: an answer can be lost on its way, a delete as well
            assert there <= alive | doubtful or len(there - alive - doubtful) <= 3, there
            for sandbox in there:
                assert check.run(sandbox, "echo yes") == "yes"
                if sandbox not in alive or chance.random() < 0.5:
                    assert check.delete(sandbox).status == 204
                    alive.discard(sandbox)
            until(lambda: {n for n in leftovers(state)} == alive, "what is left to be theirs")
    with Server(state=state) as last:
        assert {i["id"] for i in last.list(pageSize=200, state="Running")["items"]} == alive
    assert leftovers(state) == []
    remove_state(state)


@case
def two_servers_live_side_by_side():
    with Server() as one, Server() as two:
        a, b = one.make(), two.make()
        is_error(one.info(b), 404, "SANDBOX::NOT_FOUND")
        one.delete(a)
        assert two.run(b, "echo here") == "here"


@case
def two_servers_do_not_share_a_state():
    with Server() as one:
        try:
            Server(state=one.state, stderr=-3)
        except RuntimeError:
            pass
        else:
            raise AssertionError("a second server started on the same state")
        assert one.call("GET", "/health").status == 200


@case
def a_request_under_way_is_answered_before_the_end():
    with Server() as server:
        with server.connect() as s:
            s.sendall(b"GET /hea")
            assert server.call("GET", "/health").status == 200  # by now the server has read it
            server.signal(signal.SIGTERM)
            until(lambda: refuses_connections(server), "it to stop listening")
            s.sendall(b"lth HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = s.recv(1000)
            assert b"healthy" in answer and b"Connection: close" in answer, answer
        assert server.wait() == 0


@case
def one_that_is_being_recorded_when_the_server_stops_goes_with_the_next():
    state = new_state()
    Server(state=state).stop()
    in_store(state, """CREATE TRIGGER slow BEFORE INSERT ON sandboxes BEGIN
                       SELECT count(*) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c
                                             LIMIT 3000000) SELECT n FROM c); END""")
    with Server(state=state, keep=True) as server:
        with server.connect() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # its going is heard of
            ask(s, "/v1/sandboxes", {"image": {"uri": "host"}, "entrypoint": ["true"], "timeout": 60,
                                     "resourceLimits": {"memory": "64Mi"}})
            until(lambda: server.list(state="Pending")["items"], "it to be asked for")
        server.signal(signal.SIGTERM)
        assert server.wait() == 0
    in_store(state, "DROP TRIGGER slow")
    with Server(state=state) as server:
        assert server.list()["items"] == [], server.list()
        assert leftovers(state) == []
    remove_state(state)


@case
def every_signal_that_ends_it_ends_it_gently():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        state = new_state()
        with Server(state=state) as server:
            server.make()
            server.signal(number)
            assert server.wait() == 0, number
            assert leftovers(state) == [], number
        remove_state(state)
    with Server(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as server:  # as nohup(1) does
        server.signal(signal.SIGHUP)
        assert server.call("GET", "/health").status == 200


def refuses_connections(server):
    try:
        server.connect().close()
    except ConnectionRefusedError:
        return True
    return False


failed = run_cases(sys.argv[1] if len(sys.argv) > 1 else None)
sys.exit(1 if failed else 0)
